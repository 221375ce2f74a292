"""The pages of services: their hosts and versions, and the services that are withheld."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.services import withheld_for
from zkdeployment.fleet.views.status import FleetStatus, HostState
from zkdeployment.publishing.section import section
from zkdeployment.publishing.targets.services import unchecked_assignments
from zkdeployment.service.views.frame import ListPart, intent_page, list_part, page_address, service_page
from zkdeployment.service.views.hosts import SIGNS, StateSign

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import LeftService, Targets
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.governance import Governor
    from zkdeployment.publishing.targets.compiler import ServiceTarget


#: The most services that a page lists.
_MOST = 50


@dataclass(frozen=True, slots=True)
class WithheldService:
    """A service that is withheld from a target, until ``subject`` is instantiated or applied (``act``).

    ``intent`` is the page of the subject; ``None``: the service left the governance of ``subject``, and ``act``
    deploys it.
    """

    path: str
    href: str
    target: str
    subject: str
    intent: str | None
    act: str


@dataclass(frozen=True, slots=True)
class WithheldSnapshot:
    """The services that are withheld, the published records of intents, and the services that left governance."""

    withheld: Collection[ServiceTarget] = frozenset()
    records: Collection[Any] = ()
    left: Collection[LeftService] = ()


@dataclass(frozen=True, slots=True)
class WithheldServices:
    """Withheld services, and the number of further ones (``more``)."""

    services: tuple[WithheldService, ...]
    more: int = 0


def withheld_services_view(snapshot: WithheldSnapshot, text: str = "") -> WithheldServices:
    """Return the withheld services whose path contains a text, sorted by path and target."""
    return _view(snapshot, sorted(pair for pair in snapshot.withheld if text.casefold() in pair[0].casefold()))


def withheld_of_service(snapshot: WithheldSnapshot, path: str) -> WithheldServices:
    """Return the targets from which a service is withheld."""
    return _view(snapshot, sorted(pair for pair in snapshot.withheld if pair[0] == path))


def withheld_of_host(snapshot: WithheldSnapshot, identity: Identity) -> WithheldServices:
    """Return the services that are withheld from a host."""
    return _view(snapshot, withheld_for(identity, snapshot.withheld))


def _view(snapshot: WithheldSnapshot, chosen: Sequence[ServiceTarget]) -> WithheldServices:
    listed = chosen[:_MOST]
    governors = section().governors(listed, snapshot.records)
    services = (_service(pair, governors.get(pair), snapshot.left) for pair in listed)
    return WithheldServices(tuple(filter(None, services)), max(0, len(chosen) - _MOST))


def _service(
    pair: ServiceTarget, governor: Governor | None, left: Collection[LeftService]
) -> WithheldService | None:
    """Return a withheld service with its reason; ``None`` if the reason is not in the records."""
    path, target = pair
    if governor is not None:
        subject, page = "/".join(governor.subject), intent_page(governor.subject)
        return WithheldService(path, service_page(path), target, subject, page, governor.act)
    former = next((one for one in left if one.covers(path, target)), None)
    if former is None:
        return None
    release = f"zkdeployment intent release {path}"
    return WithheldService(path, service_page(path), target, "/".join(former.former), None, release)


#: The number of services or of hosts on a page.
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class ServiceHosts:
    """A service with the hosts that should run it, and the assignment of each by host id.

    ``unmatched`` are the targets that match no known host.
    """

    path: str
    package: str
    assignments: Mapping[str, Assignment]
    unmatched: tuple[str, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """The wanted versions."""
        return tuple(sorted({each.version or "any" for each in self.assignments.values()}))


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """A service in the list, with the number of its hosts in each state."""

    path: str
    href: str
    package: str
    version: str
    hosts: int
    states: tuple[tuple[StateSign, int], ...]
    warning: str


@dataclass(frozen=True, slots=True)
class ServicesView:
    """A page of the list of services whose path or package contains ``text``."""

    part: ListPart[ServiceRow]
    text: str


def find_services(snapshot: FleetSnapshot, targets: Targets) -> Mapping[str, ServiceHosts]:
    """Return all services that the published targets deploy, by path."""
    assignments: dict[str, dict[str, Assignment]] = defaultdict(dict)
    matched: set[str] = set()
    for identity in snapshot.identities:
        matched.update(identity.target_names)
        for assignment in unchecked_assignments(identity, targets):
            if assignment.n:
                assignments[assignment.path][identity.id] = assignment
    packages = {each.path: each.package for group in targets.values() for each in group if each.n}
    unmatched: dict[str, list[str]] = defaultdict(list)
    for name in sorted(targets.keys() - matched):
        for assignment in () if name.startswith("/") else targets[name]:
            if assignment.n:
                unmatched[assignment.path].append(name)
    return {
        path: ServiceHosts(path, package, assignments.get(path, {}), tuple(unmatched.get(path, ())))
        for path, package in sorted(packages.items())
        if path in assignments or path in unmatched
    }


def services_view(
    services: Mapping[str, ServiceHosts], status: FleetStatus, *, text: str = "", page: int = 1
) -> ServicesView:
    """Return a page of the list of services, those with problems first."""
    states = {host.id: host.state for host in status.hosts}
    found = [each for each in services.values() if text.casefold() in f"{each.path} {each.package}".casefold()]
    rows = sorted((service_row(each, states) for each in found), key=lambda row: (not row.warning, row.path))
    return ServicesView(
        list_part(rows, page, PAGE_SIZE, "service", partial(page_address, "/services", text=text)), text
    )


def service_row(service: ServiceHosts, states: Mapping[str, HostState]) -> ServiceRow:
    """Return a service as the list and its page show it; ``states`` are those of hosts by id."""
    counts = Counter(states.get(host_id, HostState.UNKNOWN) for host_id in service.assignments)
    warning = ""
    if counts[HostState.FAILED]:
        warning = f"{counts[HostState.FAILED]} failed"
    elif service.unmatched:
        warning = f"no known host matches {', '.join(service.unmatched[:3])}"
    return ServiceRow(
        path=service.path,
        href=service_page(service.path),
        package=service.package,
        version=", ".join(service.versions),
        hosts=len(service.assignments),
        states=tuple((sign, counts[state]) for state, sign in SIGNS.items() if counts[state]),
        warning=warning,
    )
