"""The page of a host: its state and why, what is left to do, its deployments, and its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, TreeError
from zkdeployment.fleet.ages import age
from zkdeployment.fleet.host_status import HostState
from zkdeployment.model.cluster import short
from zkdeployment.planning.plan_text import action, sentence, unchanged_sentence
from zkdeployment.planning.planner import plan
from zkdeployment.planning.targets.wanted import wanted_for
from zkdeployment.web.views.links import publication_page, service_page
from zkdeployment.web.views.moments import moment
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.fleet.explanations.explanation import Explanation
    from zkdeployment.fleet.host_status import HostStatus
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.host import Facts, Identity
    from zkdeployment.model.inventory import Inventory, KnownHost
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.web.views.moments import Moment
    from zkdeployment.web.views.states import StateSign


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """An instance of a service on the host, with the wanted and the deployed version; empty without one."""

    service: str
    href: str
    number: int
    package: str
    wanted: str
    deployed: str


@dataclass(frozen=True, slots=True)
class HostPublication:
    """The result of a publication on the host."""

    revision: str
    href: str
    subject: str
    published: Moment | None
    took: str
    error: str


@dataclass(frozen=True, slots=True)
class HostView:
    """The values of the page of a host.

    ``steps`` are what the host would do now to have the published revision, each with its script and lock;
    ``steps_unknown`` is why they are not known.
    """

    id: str
    name: str
    sign: StateSign
    explanation: Explanation
    facts: tuple[tuple[str, str], ...]
    labels: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    steps_unknown: str
    deployments: tuple[DeploymentRow, ...]
    history: tuple[HostPublication, ...]
    since: Moment | None
    reported: Moment | None


def host_view(  # noqa: PLR0913  what the page of a host is made of
    status: HostStatus,
    explanation: Explanation,
    snapshot: FleetSnapshot,
    known: KnownHost | None,
    targets: Targets,
    records: Sequence[PublicationRecord],
    *,
    now: float,
) -> HostView:
    """Return the page of a host at ``now``, in seconds since the epoch.

    ``known`` is what the host last reported about itself, ``records`` are the last publications, newest first.
    """
    identity = _identity(status, snapshot)
    inventory = None if known is None else known.inventory
    steps, unknown = _steps(status, identity, inventory, targets)
    return HostView(
        id=status.id,
        name=status.name,
        sign=SIGNS[status.state],
        explanation=explanation,
        facts=tuple(_facts(status)),
        labels=_labels(snapshot.facts.get(status.id)),
        steps=steps,
        steps_unknown=unknown,
        deployments=_deployments(identity, inventory, targets),
        history=tuple(_publication(record, status.id, now) for record in records if status.id in record.results),
        since=moment(status.since, now),
        reported=None if known is None else moment(known.time, now),
    )


def _identity(status: HostStatus, snapshot: FleetSnapshot) -> Identity:
    return next(identity for identity in snapshot.identities if identity.id == status.id)


def _facts(status: HostStatus) -> list[tuple[str, str]]:
    done, total = status.steps or (0, 0)
    version = "none yet" if status.version is None else str(status.version)
    if status.version is None and status.former is not None:
        version = f"none; {short(status.former)} before the unfinished deployment"
    facts = [
        ("Id", status.id),
        ("Role", status.role or "none"),
        ("Revision", version),
        ("Wanted", "none" if status.wanted is None else str(status.wanted)),
    ]
    if status.step is not None and status.error is None:
        facts.append(("Step", f"{f'{done} of {total} done; now: ' if total else ''}{status.step}"))
    return facts


def _labels(facts: Facts | None) -> tuple[str, ...]:
    if facts is None:
        return ()
    rack = () if facts.rack is None else (f"rack {facts.rack}",)
    return (*rack, *sorted(facts.tags), *(f"{name}: {value}" for name, value in sorted(facts.labels.items())))


def _steps(
    status: HostStatus, identity: Identity, inventory: Inventory | None, targets: Targets
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the steps that are left, or why they are not known."""
    if status.state in {HostState.CONVERGED, HostState.EXCLUDED}:
        return (), ""
    if status.state is HostState.DEPLOYING:
        return (), "The host deploys now; its present step is above."
    if inventory is None:
        return (), "The host has not reported its inventory."
    try:
        wanted = wanted_for(identity, targets)
        services = frozenset(assignment.path for assignments in targets.values() for assignment in assignments)
        planned = plan(wanted.assignments, inventory, wanted.controller, identity=identity, services=services)
    except (TreeError, HostFilesError) as error:
        return (), f"The host would refuse the published revision: {error}"
    steps = tuple((sentence(step), action(step, planned.controller)) for step in planned.steps)
    unchanged = unchanged_sentence(planned)
    return (*steps, *([(unchanged, "")] if unchanged else [])), ""


def _deployments(identity: Identity, inventory: Inventory | None, targets: Targets) -> tuple[DeploymentRow, ...]:
    """Return the instances that the host should have and those that it has, by service."""
    try:
        assignments = wanted_for(identity, targets).assignments
    except TreeError:
        assignments = ()
    wanted = {deployment: each for each in assignments for deployment in each.deployments}
    markers = {} if inventory is None else {marker.deployment: marker for marker in inventory.markers}
    rows = []
    for deployment in sorted({*wanted, *markers}, key=lambda key: (key.path, key.number)):
        assignment, marker = wanted.get(deployment), markers.get(deployment)
        package = assignment.package if assignment else (marker.package or marker.application) if marker else ""
        deployed = "" if marker is None else (marker.version or "in an unknown version")
        rows.append(
            DeploymentRow(
                service=deployment.path,
                href=service_page(deployment.path),
                number=deployment.number,
                package=package,
                wanted="" if assignment is None else (assignment.version or "any version"),
                deployed=deployed,
            )
        )
    return tuple(rows)


def _publication(record: PublicationRecord, host_id: str, now: float) -> HostPublication:
    result = record.results[host_id]
    return HostPublication(
        revision=short(record.revision),
        href=publication_page(record.sequence),
        subject="" if record.origin is None else record.origin.subject,
        published=moment(record.time, now),
        took=age(result.seconds),
        error=result.error or "",
    )
