"""Decides which services a host in maintenance undeploys because other hosts have them, and which it keeps."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.software import WantedSoftware, compare_software
from zkdeployment.agent.rules.undeploying import groups_of_services, undeploy_step
from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.host import Host  # noqa: TC001  a public field type
from zkdeployment.base.plan import Plan, Undeploy
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.inventory import Inventory, Marker
    from zkdeployment.base.json_values import Properties

#: Why a host with publishers undeploys nothing for a maintenance.
UNSIGNED = "this host follows only signed publications, and a maintenance is not signed"


@dataclass(frozen=True, slots=True)
class OtherHost:
    """A registered host, the services that it has and that are not down there, and whether it is in maintenance.

    ``node_version`` is the data version of its node when that was read, before its services were read.
    """

    host: Host
    node_version: int
    services: frozenset[str] = frozenset()
    in_maintenance: bool = False

    def why_not(self, path: str, revision: Revision) -> str:
        """Return why a drained host cannot leave a service that this host has to it; empty if it can."""
        host = self.host
        if self.in_maintenance:
            return "is in maintenance"
        if host.error is not None:
            return "has failed"
        if host.lacks(path):
            return "lacks steps of the service, whose group is stopped"
        if not host.has(revision) or host.deploying is not None or (host.is_leasable and host.leased is None):
            return f"is not at {revision}"
        return ""


@dataclass(frozen=True, slots=True)
class Drain:
    """The undeployments of a drained host, and the services that it keeps, each with the reason.

    ``holders`` are the ids of the hosts that have each undeployed service.
    """

    plan: Plan = field(default_factory=Plan)
    kept: Mapping[str, str] = field(default_factory=dict)
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def plan_drain(
    inventory: Inventory,
    others: Sequence[OtherHost],
    revision: Revision,
    groups: Mapping[str, str],
    stopped: Collection[str],
) -> Drain:
    """Return the drain of a host: each service that another host has at ``revision`` is undeployed under its lock.

    ``groups`` and ``stopped`` are as in ``planner.plan``; services of stopped groups are kept. The software stays
    installed. A service with an instance whose script is missing is kept, because only a deployment reinstalls it.
    """
    difference = compare_software(WantedSoftware.of((), None), inventory)
    group_of_service = groups_of_services((), inventory, groups)
    kept: dict[str, str] = {}
    holders: dict[str, tuple[str, ...]] = {}
    steps: list[Undeploy] = []
    for path, markers in sorted(_by_service(inventory.markers).items()):
        able = _able_hosts(path, others, revision)
        group = group_of_service[path]
        if not able:
            kept[path] = _why_kept(path, others, revision)
        elif group is not None and group in stopped:
            kept[path] = f"its group {group} is stopped"
        else:
            reason = f"the host is drained, and {able[0].host.identity.name} has the service"
            try:
                undeploys = [undeploy_step(marker, difference) for marker in markers]
            except HostFilesError as error:
                kept[path] = str(error)
                continue
            if any(step.script is None for step in undeploys):
                kept[path] = "its deploy script is missing"
                continue
            holders[path] = tuple(other.host.identity.id for other in able)
            steps += [replace(step, reason=reason, locked=True, group=group) for step in undeploys]
    return Drain(Plan(tuple(steps)), kept, holders)


def has_running(host_id: str, own: int, registered: Iterable[Properties], *, registers_one: bool) -> bool:
    """Whether a host runs a service whose instances register, as far as the ``registered`` instances show.

    A registered instance that does not state its host may be one of the ``own`` instances of the drained host.
    Only more of these show that another host has one. If only the active instance registers (``registers_one``),
    the others are ready to replace it, and run while any is registered.
    """
    hosts = [each.get("host") for each in registered]
    return host_id in hosts or sum(1 for host in hosts if not host) > own or (registers_one and bool(hosts))


def witness(path: str, others: Iterable[OtherHost], revision: Revision) -> OtherHost | None:
    """Return a host to which a drained host can leave a service; ``None`` without one."""
    return next(iter(_able_hosts(path, others, revision)), None)


def _able_hosts(path: str, others: Iterable[OtherHost], revision: Revision) -> list[OtherHost]:
    return [other for other in others if path in other.services and not other.why_not(path, revision)]


def _by_service(markers: Iterable[Marker]) -> Mapping[str, list[Marker]]:
    services: dict[str, list[Marker]] = {}
    for marker in sorted(markers, key=lambda marker: (marker.deployment, marker.application)):
        services.setdefault(marker.deployment.path, []).append(marker)
    return services


def _why_kept(path: str, others: Iterable[OtherHost], revision: Revision) -> str:
    for other in others:
        if path in other.services:
            return f"{other.host.identity.name}, which has it, {other.why_not(path, revision)}"
    return "no other host runs it"
