"""The status of the fleet and of its hosts: convergence, a summary, instances that are down, and changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from zkdeployment.base.act import Decision, Maintenance, describe_maintenance
from zkdeployment.base.cluster import INITIAL, Cluster, ClusterState, Revision, is_named, short
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Leased, lease_text
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.records import APART, OMITTED, Key, Record, shown
from zkdeployment.base.stop import GroupStop, Stop
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.daemon_failures import DaemonFailure, describe_failure
from zkdeployment.fleet.views.instances import (
    NO_SERVICES,
    NONE_DOWN,
    DownInstances,
    ExpectedInstance,
    ServicesSnapshot,
    total_down,
)
from zkdeployment.fleet.views.requests import (
    RequestView,
    WantedPublication,
    describe_refusal,
    describe_request,
    describe_silence,
    request_body,
)
from zkdeployment.fleet.views.snapshot import (
    NO_HOSTS,
    UNAFFECTED,
    FleetSnapshot,
    describe_group_stops,
    describe_retry,
    stops_in_force,
)
from zkdeployment.publishing.records import PublicationRequest, Refusal, SyncerReport
from zkdeployment.publishing.rules.convergence import (
    behind,
    describe_unserved,
    is_completed,
    is_excluded,
    unserved,
)
from zkdeployment.publishing.targets.services import is_deployed_to
from zkdeployment.strategies.progress import takes_late_joiners
from zkdeployment.strategies.strategy import unmatched_selectors
from zkdeployment.strategies.views import (
    RolloutProgressState,
    decisions,
    describe_rollout,
    is_attempt_due,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.strategies.state import RolloutState


class HostState(Enum):
    """The state of a host."""

    CONVERGED = "converged"
    BEHIND = "behind"
    DEPLOYING = "deploying"
    FAILED = "failed"
    ABSENT = "absent"  # known, but not registered
    REBOOTING = "rebooting"  # not registered, because of a reboot that the host has recorded
    MAINTENANCE = "in maintenance"  # an operator withholds the host from deployments
    EXCLUDED = "excluded"  # in no group of the rollout strategy: the host keeps its version
    UNKNOWN = "unknown"  # the host is not known, or no version is wanted


#: The states of known hosts that are not registered.
UNREGISTERED = frozenset({HostState.ABSENT, HostState.REBOOTING})

#: The states of hosts that no publication awaits.
UNAWAITED = frozenset({HostState.EXCLUDED, HostState.MAINTENANCE})


@dataclass(frozen=True, slots=True)
class HostStatus(Record):
    """The status of one host; ``steps`` are (done, total).

    ``former`` is the version that the host had before an unfinished deployment. ``since`` is when the state last
    changed, in seconds since the epoch; for an absent host, when a syncer noticed its absence. The ``version`` of
    an absent host is the last one that it reported as completed.
    ``expected`` hosts count in the fleet's convergence. An absent host is expected only if a published target
    matches it, an excluded host and a host in ``maintenance`` only if the operator named it. A host that can be
    leased, which has an ``idle_role``, is not expected while it has failed or changes its role. ``leased`` is the
    lease that it has reached.
    ``reboot`` is the reboot of a rebooting host.
    """

    id: str
    name: str
    state: HostState
    role: str | None = None
    version: Revision | None = None
    former: Revision | None = None
    wanted: Revision | None = None
    step: str | None = None
    steps: tuple[int, int] | None = None
    error: str | None = None
    since: float | None = None
    expected: bool = True
    idle_role: Annotated[str | None, Key("lease")] = None
    leased: Leased | None = None
    maintenance: Maintenance | None = None
    reboot: Annotated[RebootRecord | None, OMITTED] = None

    @property
    def exists(self) -> bool:
        """Whether a registered or absent host, or a target, has the name."""
        return self.error != _NO_SUCH_HOST

    @property
    def lease_text(self) -> str:
        """The lease as text for people; empty for absent hosts, and for hosts that cannot be leased."""
        return "" if self.state in UNREGISTERED else lease_text(self.role, self.idle_role, self.leased)


#: The error of a host that exists nowhere.
_NO_SUCH_HOST = (
    "no such host: no registered or absent host and no target in the published tree has this id or name"
)


def select_hosts(
    hosts: Iterable[HostStatus], names: Collection[str], wanted: Revision | None, targets: Collection[str] = ()
) -> tuple[HostStatus, ...]:
    """Return the hosts with these ids or ``names``, all of them expected; names that match no host are unknown.

    ``targets`` are the names of the published targets: a host may be expected that was never registered.
    """
    selected = [replace(host, expected=True) for host in hosts if host.id in names or host.name in names]
    matched = {name for host in selected for name in (host.id, host.name)}
    missing = {
        name: "not registered" if name in targets else _NO_SUCH_HOST for name in sorted(set(names) - matched)
    }
    return (
        *selected,
        *(HostStatus(name, name, HostState.UNKNOWN, wanted=wanted, error=missing[name]) for name in missing),
    )


#: The states in which the version of a host does not count.
_WITHOUT = frozenset({HostState.FAILED, *UNREGISTERED})


def all_have(hosts: Sequence[HostStatus], revision: str | None = None) -> bool:
    """Return whether all expected hosts have a revision (``None``: the wanted one), and at least one host counts.

    Excluded hosts and hosts in maintenance count in this sense, too. A failed or an absent host does not count as
    having a revision.
    """
    expected = [host for host in hosts if host.expected]
    if revision is None:
        reached = all(host.state is HostState.CONVERGED for host in expected)
    else:
        reached = all(host.state not in _WITHOUT and is_named(host.version, revision) for host in expected)
    return reached and (bool(expected) or any(host.state in UNAWAITED for host in hosts))


@dataclass(frozen=True, slots=True)
class GroupStopView(Record):
    """The stop of a deployment intent group: the failure of a host in the publication with this sequence."""

    group: str
    sequence: int
    host: str
    name: str
    revision: Revision
    step: str
    reason: str
    time: float


def _group_stops(stops: Iterable[GroupStop]) -> list[dict[str, Any]]:
    return [{"group": stop.group, **stop.to_json()} for stop in stops]


@dataclass(frozen=True, slots=True)
class FleetStatus(Record):
    """The status of the fleet, or of the hosts that the operator named.

    ``stops`` are the stops in force, the oldest first; ``summary`` is one sentence without their reasons.
    ``retry`` is how the retry of one host goes, if an operator ordered one.
    ``rollout`` describes the rollout by the published strategy, ``warnings`` name mistakes in that strategy.
    ``missed`` means that the rollout is over and some hosts lack the revision, ``completed`` that no rollout of
    the wanted revision has yet to begin or to end. ``request`` is an operator's request for a publication,
    ``refusal`` the refusal of the tip by the syncer. ``failures`` are the daemons whose cycles fail unexpectedly,
    ``group_stops`` the stops of deployment intent groups: hosts that lack a stopped group count as converged.

    ``unserved`` are the targets of the tree that no host serves. A fleet with such a target is not ``converged``,
    although it has ``deployed`` the wanted revision if all its hosts have it. ``rollout_decisions`` are the
    decisions of operators for which the rollout waits, ``feature_decisions`` those for which features wait.
    ``syncer`` is the last report of a syncer, for the status of the whole fleet.

    ``publication`` is that of the wanted revision; ``None`` if that revision was set by hand or is not published
    yet. ``since`` is the time of the fleet's last change, in seconds since the epoch, and ``change`` names it: the
    state ``began`` with a stop or the first failure, or the revision was ``wanted`` by the last order to hosts.

    ``down`` are the instances of services that the hosts have to run and that are not registered. A fleet with
    such instances may be ``converged``: its hosts have the revision.
    """

    cluster: Annotated[Cluster | None, APART]
    wanted: Revision | None
    hosts: tuple[HostStatus, ...]
    converged: bool
    stops: tuple[Stop, ...]
    summary: str
    rollout: str | None = None
    missed: Annotated[bool, APART] = False
    completed: Annotated[bool, APART] = True
    retry: Annotated[str, APART] = ""
    warnings: tuple[str, ...] = ()
    request: Annotated[PublicationRequest | None, Key(write=request_body, form=RequestView | None)] = None
    refusal: Refusal | None = None
    failures: tuple[DaemonFailure, ...] = ()
    unserved: tuple[str, ...] = ()
    deployed: Annotated[bool, APART] = False
    rollout_decisions: Annotated[tuple[Decision, ...], APART] = ()
    feature_decisions: Annotated[tuple[Decision, ...], APART] = ()
    syncer: Annotated[SyncerReport | None, APART] = None
    group_stops: Annotated[tuple[GroupStop, ...], Key(write=_group_stops, form=tuple[GroupStopView, ...])] = ()
    publication: WantedPublication | None = None
    since: float | None = None
    change: Annotated[Literal["began", "wanted"], APART] = "wanted"
    down: DownInstances = NONE_DOWN

    @property
    def is_published(self) -> bool:
        """Whether a version is wanted, other than that of a fleet before its first publication."""
        return self.wanted not in {None, INITIAL}

    @property
    @shown("decisions")
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions of persons that are due, those of the rollout first."""
        return (*self.rollout_decisions, *self.feature_decisions)

    @shown("version")
    def _version(self) -> Revision | Literal[False] | None:
        return None if self.cluster is None else self.cluster.version

    @shown("cluster")
    def _state(self) -> ClusterState | None:
        return None if self.cluster is None else self.cluster.state

    @shown("stopped")
    def _stopped(self) -> tuple[str, ...]:
        return tuple(map(str, self.stops))

    @shown("syncer_reported")
    def _syncer_reported(self) -> float | None:
        return None if self.syncer is None else self.syncer.time

    @shown("stops_recorded")
    def _recorded(self) -> int:
        return sum(1 + stop.replaced for stop in self.stops)


def fleet_status(
    snapshot: FleetSnapshot,
    *,
    names: Collection[str] = (),
    syncer: SyncerReport | None = None,
    services: ServicesSnapshot = NO_SERVICES,
) -> FleetStatus:
    """Return the status of the fleet, or only of the hosts with these ids or ``names``.

    While the cluster version is null or false, hosts want the last revision that was published completely. Absent
    hosts count if a published target matches them, or if they are named. A fleet without hosts is not converged.
    Under a strategy, hosts in no group do not count, and the fleet converges only with a completed rollout. Hosts
    that can be leased do not count while they are absent, have failed or change their role. The fleet does not
    converge while a target of the tree is served by no host. Without ``services``, no instance is down.
    """
    cluster = snapshot.cluster
    wanted = wanted_revision(cluster, snapshot.published)
    rollout = rollout_of_wanted(snapshot, wanted)
    known = [
        *(host_status(host, wanted, rollout) for host in snapshot.hosts),
        *_absent(snapshot, wanted, rollout),
    ]
    known = [with_maintenance(host, snapshot.maintenance.get(host.id)) for host in known]
    known.sort(key=lambda host: (host.name, host.id))
    hosts = select_hosts(known, names, wanted, snapshot.targets) if names else tuple(known)
    is_running = cluster is not None and cluster.state is ClusterState.RUNNING
    completed = not snapshot.governed or _is_completed(snapshot)
    deployed = is_running and all_have(hosts) and (completed or bool(names))
    unserved = () if names else unserved_targets(snapshot, services.targets)
    stops, retry = stops_in_force(snapshot), describe_retry(snapshot)
    change, since = _last_change(snapshot, known, stops)
    return FleetStatus(
        cluster=cluster,
        wanted=wanted,
        hosts=hosts,
        converged=deployed and not unserved,
        stops=stops,
        summary=_summary(cluster, stops, retry, _hosts_summary(hosts, wanted)),
        rollout=_describe_rollout(snapshot, hosts),
        missed=_is_missed(snapshot),
        request=snapshot.request,
        refusal=snapshot.refusal,
        failures=snapshot.failures,
        group_stops=snapshot.group_stops,
        unserved=unserved,
        deployed=deployed,
        syncer=None if names else syncer,
        rollout_decisions=(
            decisions(snapshot.rollout) if snapshot.rollout is not None and snapshot.governed else ()
        ),
        feature_decisions=() if names else snapshot.decisions,
        completed=completed,
        retry=retry,
        warnings=_warnings(snapshot),
        publication=WantedPublication.of(snapshot.publication, wanted),
        since=since,
        change=change,
        down=total_down(services.down_by_service(running_instances(snapshot, hosts, services))),
    )


def _last_change(
    snapshot: FleetSnapshot, hosts: Iterable[HostStatus], stops: Sequence[Stop]
) -> tuple[Literal["began", "wanted"], float | None]:
    """Return the word and the time of what brought the fleet into its state.

    A stop or the first failure is the begin of the state. Otherwise, the time is that of the last order to hosts,
    by a publication, a resume or by hand: hosts may begin later.
    """
    failures = [host.since for host in hosts if host.state is HostState.FAILED and host.since]
    begin = stops[0].time if stops else min(failures, default=None)
    return ("wanted", snapshot.changed) if begin is None else ("began", begin)


#: The states of hosts whose instances may be missing: they restart, their host does, or operators work on it.
_UNJUDGED = frozenset({HostState.DEPLOYING, HostState.MAINTENANCE, *UNREGISTERED})


def running_instances(
    snapshot: FleetSnapshot, hosts: Iterable[HostStatus], services: ServicesSnapshot
) -> Iterator[ExpectedInstance]:
    """Yield the instances that ``hosts`` have to run now, of the services whose instances register.

    These are all that the published tree deploys to a host which has deployed it. Any other host keeps what it
    has: its inventory in ``services`` and the registrations show which of these instances it deployed. Hosts that
    are absent, in maintenance, or deploy at present have to run nothing.
    """
    complete = {host.identity.id for host in snapshot.hosts if _has_everything(host, snapshot)}
    judged, registered = {host.id for host in hosts if host.state not in _UNJUDGED}, services.registered()
    for instance in services.expected(each for each in snapshot.identities if each.id in judged):
        deployed = services.deployed.get(instance.host, ())
        is_deployed = Deployment(instance.path, instance.number) in deployed
        if instance.host in complete or is_deployed or instance.registration in registered:
            yield instance


def _has_everything(host: Host, snapshot: FleetSnapshot) -> bool:
    """Whether a host has deployed everything that the published tree deploys to it."""
    wanted = wanted_revision(snapshot.cluster, snapshot.published)
    is_published = str(wanted) == str(snapshot.published)  # and not set by hand
    return is_published and host.has(wanted) and host.error is None and not host.lacking


def undecided_hosts(snapshot: FleetSnapshot, services: ServicesSnapshot) -> list[str]:
    """Return the ids of the registered hosts whose inventories decide whether their instances are down.

    These hosts have not deployed everything, and lack a registration.
    """
    expected = services.expected(host.identity for host in snapshot.hosts)
    suspects = {one.host for down in services.down_by_service(expected).values() for one in down.missing}
    return [
        host.identity.id
        for host in snapshot.hosts
        if host.identity.id in suspects and not _has_everything(host, snapshot)
    ]


def unserved_targets(snapshot: FleetSnapshot, targets: Targets) -> tuple[str, ...]:
    """Return the published targets that no known host serves: what the tree deploys there runs nowhere.

    ``targets`` are their assignments; without them, something is deployed to each target.

    A host serves the targets that match it, also while it is absent, because it then counts as an absent host. An
    absent host in no group of the rollout serves nothing, because it does not count.
    """
    rollout = rollout_of_wanted(snapshot, wanted_revision(snapshot.cluster, snapshot.published))
    serving: list[Host | KnownHost] = [
        *snapshot.hosts,
        *(known for known in snapshot.absent if not is_excluded(rollout, known.identity.id, known.facts)),
    ]
    found = unserved(snapshot.targets, serving)
    return tuple(name for name in found if is_deployed_to(name, targets)) if targets else found


#: The limit of targets that a sentence names.
_NAMED = 3


def describe_late_syncer(status: FleetStatus, now: float) -> list[str]:
    """Return a sentence on a syncer that is late; nothing for the status of some hosts."""
    is_stopped = status.cluster is not None and status.cluster.state is ClusterState.STOPPED
    return describe_silence(status.syncer, now, is_stopped=is_stopped)


def hosts_by_state(status: FleetStatus) -> dict[str, int]:
    """Return the number of hosts in each state, by the word for the state."""
    counts = Counter(host.state for host in status.hosts)
    return {state.value: counts[state] for state in HostState}


def describe_hosts_in_maintenance(status: FleetStatus) -> str:
    """Return the hosts in maintenance as part of a sentence, or an empty text."""
    return describe_maintenance(
        (host.name, host.maintenance) for host in status.hosts if host.maintenance is not None
    )


def describe_down(status: FleetStatus) -> list[str]:
    """Return a sentence on the instances that are down, with the first known ones by name, or nothing."""
    return [status.down.sentence] if status.down.count else []


def rollout_of_wanted(snapshot: FleetSnapshot, wanted: Revision | None) -> RolloutState | None:
    """Return the rollout of the wanted revision, or of the one before it if only documents changed since then."""
    state = snapshot.rollout
    if state is None or str(state.revision) == str(wanted):
        return state
    is_repeated = state.sequence == snapshot.since and str(snapshot.published) == str(wanted)
    return state if is_repeated else None


def _is_completed(snapshot: FleetSnapshot) -> bool:
    """Return whether the rollout is completed; no rollout is needed if every host has the revision."""
    if snapshot.rollout is not None:
        return is_completed(snapshot.rollout)
    return snapshot.cluster is not None and not behind(snapshot.cluster, snapshot.hosts, snapshot.maintenance)


def _describe_rollout(snapshot: FleetSnapshot, hosts: Iterable[HostStatus]) -> str | None:
    state = snapshot.rollout
    if not snapshot.governed:
        return None
    if state is not None and not is_attempt_due(state):
        led = snapshot.coordinator is not None
        # A rollout that has ended needs the coordinator again for hosts that join late.
        is_missed = not led and state.ended is not None and takes_late_joiners(state)
        is_missed = is_missed and any(host.expected and host.state is HostState.BEHIND for host in hosts)
        leader = "; no coordinator runs" if is_missed else ""
        return f"rollout {state.id}: {describe_rollout(state, led=led)}{leader}"
    attempt = "the rollout" if state is None else f"another attempt of the rollout {state.id}"
    leader = (
        "no coordinator runs" if snapshot.coordinator is None else f"{snapshot.coordinator} is the coordinator"
    )
    return f"{attempt} by {snapshot.strategy} has not begun; {leader}"


def _warnings(snapshot: FleetSnapshot) -> tuple[str, ...]:
    """Return the mistakes in the strategy by which hosts deploy the cluster version at present."""
    if snapshot.rollout is None or not snapshot.governed:
        return ()
    return unmatched_selectors(snapshot.rollout.rollout.strategy, snapshot.facts)


def _is_missed(snapshot: FleetSnapshot) -> bool:
    state = snapshot.rollout
    return snapshot.governed and state is not None and rollout_state(state) is RolloutProgressState.PARTIAL


def wanted_revision(cluster: Cluster | None, published: Revision | None) -> Revision | None:
    """Return the revision that hosts want: during a stop or a hold, the last one that was published."""
    if cluster is None or cluster.version is None or cluster.version is False:
        return published
    return cluster.version if cluster.importing is None else cluster.importing


def host_status(host: Host, wanted: Revision | None, rollout: RolloutState | None) -> HostStatus:
    """Return the status of a registered host; ``rollout`` is the rollout of the ``wanted`` revision, if any."""
    is_behind = wanted is not None and not host.has(wanted)
    is_working = host.deploying is not None and not host.is_waiting
    # Before its first step, the agent of an excluded host has not found out yet that it waits.
    may_wait = is_behind and (not is_working or host.step is None)
    if host.error is not None:
        state = HostState.FAILED
    elif may_wait and is_excluded(rollout, host.identity.id, host.facts):
        state = HostState.EXCLUDED
    elif is_working:
        state = HostState.DEPLOYING
    elif wanted is None:
        state = HostState.UNKNOWN
    else:
        state = HostState.BEHIND if is_behind else HostState.CONVERGED
    is_alone = host.is_leasable and (state is HostState.FAILED or host.leased is None)
    return HostStatus(
        id=host.identity.id,
        name=host.identity.name,
        state=state,
        role=host.identity.role,
        version=host.version,
        former=host.former,
        wanted=wanted,
        step=host.step,
        steps=host.steps,
        error=host.error,
        since=host.since,
        expected=state is not HostState.EXCLUDED and not is_alone,
        idle_role=host.idle_role,
        leased=host.leased,
    )


def _absent(
    snapshot: FleetSnapshot, wanted: Revision | None, rollout: RolloutState | None
) -> Iterator[HostStatus]:
    names = {host.identity.name for host in snapshot.hosts}
    reboots = snapshot.expected_back
    for known in snapshot.absent:
        identity = known.identity
        reboot = reboots.get(identity.id)
        # A registered host of the same name has replaced the absent host: only the id still names the latter.
        target_names = (identity.id,) if identity.name in names else identity.target_names
        yield HostStatus(
            id=identity.id,
            name=identity.name,
            state=HostState.ABSENT if reboot is None else HostState.REBOOTING,
            role=identity.role,
            version=snapshot.last_version(known),
            wanted=wanted,
            step=None if reboot is None else reboot.step,
            since=snapshot.absent_since(known) if reboot is None else reboot.since,
            expected=not snapshot.targets.isdisjoint(target_names)
            and known.idle_role is None
            and not is_excluded(rollout, identity.id, known.facts),
            idle_role=known.idle_role,
            reboot=reboot,
        )


def with_maintenance(host: HostStatus, maintenance: Maintenance | None) -> HostStatus:
    """Return the status of a host in maintenance: neither its failure nor its absence is a problem."""
    if maintenance is None:
        return host
    return replace(
        host,
        state=HostState.MAINTENANCE,
        expected=False,
        since=maintenance.since or host.since,
        maintenance=maintenance,
    )


def _summary(cluster: Cluster | None, stops: Sequence[Stop], retry: str, hosts: str) -> str:
    if cluster is None:
        return f"{NO_HOSTS}; {hosts}"
    match cluster.state:
        case ClusterState.STOPPED:
            stopped = "ALL STOP" if stops else "ALL STOP: the cluster version was set to null"
            return "; ".join(filter(None, (stopped, retry, hosts, UNAFFECTED)))
        case ClusterState.HELD:
            return f"held: hosts start nothing; {hosts}; {UNAFFECTED}"
        case ClusterState.IMPORTING:
            return f"{short(cluster.importing)} is being published; {hosts}"
    return hosts


#: The states of hosts that have the wanted revision, or worked on it. The summary names it with the first of them.
_AT_REVISION = (HostState.CONVERGED, HostState.DEPLOYING, HostState.FAILED)


def _hosts_summary(rows: Sequence[HostStatus], wanted: Revision | None) -> str:
    if not rows:
        return "no hosts"
    counts = Counter(row.state for row in rows)
    first = None if wanted is None else next((state for state in _AT_REVISION if counts[state]), None)
    parts = [
        f"{counts[state]} {state.value}{f' at {short(wanted)}' if state is first else ''}"
        for state in HostState
        if counts[state]
    ]
    ending = f"; {short(wanted)} is wanted" if wanted is not None and first is None else ""
    return f"{counted(len(rows), 'host')}: {', '.join(parts)}{ending}"


#: States by importance, for displays without room for all hosts.
_ORDER = (
    HostState.FAILED,
    HostState.DEPLOYING,
    HostState.REBOOTING,
    HostState.BEHIND,
    HostState.ABSENT,
    HostState.UNKNOWN,
    HostState.MAINTENANCE,
    HostState.CONVERGED,
    HostState.EXCLUDED,
)


def most_important_hosts(status: FleetStatus, room: int) -> tuple[tuple[HostStatus, ...], str]:
    """Return the first ``room`` hosts by importance, and a line with counts of the omitted hosts by state.

    Hosts are sorted by state, then by name. Absent hosts without deployments come last.
    """
    ranked = sorted(
        status.hosts, key=lambda host: (not host.expected, _ORDER.index(host.state), host.name, host.id)
    )
    rest = Counter(host.state for host in ranked[room:])
    counts = ", ".join(f"{rest[state]} {state.value}" for state in _ORDER if rest[state])
    return tuple(ranked[:room]), f"and {counts}" if counts else ""


def describe_problems(status: FleetStatus, now: float) -> list[str]:
    """Return a sentence for each problem but the stops of the fleet and the errors of hosts, at ``now``."""
    return [
        *([] if status.request is None else [describe_request(status.request, now)]),
        *([] if status.refusal is None else [describe_refusal(status.refusal, now)]),
        *describe_group_stops(status.group_stops, now),
        *describe_unserved(status.unserved),
        *describe_down(status),
        *(describe_failure(failure, now) for failure in status.failures),
    ]


def status_changes(before: FleetStatus | None, after: FleetStatus, now: float) -> Iterator[str]:
    """Yield a line for each change of a status: stops, hosts by name, decisions, the rollout, problems, a summary.

    Without ``before``, everything but the converged hosts counts as changed. ``now`` is in epoch seconds.
    """
    stops = () if before is None else before.stops
    yield from (str(stop) for stop in after.stops if stop not in stops)
    former = {} if before is None else {host.id: _describe(host) for host in before.hosts}
    for host in after.hosts:
        description = _describe(host)
        if before is None and host.state is HostState.CONVERGED:
            continue  # the summary counts converged hosts
        if former.get(host.id) != description:
            yield f"{host.name}: {description}"
    for host in () if before is None else before.hosts:
        if host.id not in {present.id for present in after.hosts}:
            yield f"{host.name}: gone"
    due = () if before is None else before.feature_decisions
    yield from (str(decision) for decision in after.feature_decisions if decision not in due)
    if after.rollout is not None and (before is None or before.rollout != after.rollout):
        yield after.rollout
    known = [] if before is None else describe_problems(before, now)  # at the same time, as ages are no changes
    yield from (problem for problem in describe_problems(after, now) if problem not in known)
    if before is None or before.summary != after.summary:
        yield after.summary


def _describe(host: HostStatus) -> str:
    match host.state:
        case HostState.MAINTENANCE:
            return str(host.maintenance)
        case HostState.REBOOTING:
            return str(host.reboot)
        case HostState.FAILED:
            return f"failed: {host.error}"
        case HostState.DEPLOYING:
            done = "" if host.steps is None or host.steps == (0, 0) else f" {host.steps[0]}/{host.steps[1]}"
            return f"deploying{done} {host.step or ''}".rstrip()
        case HostState.CONVERGED | HostState.BEHIND:
            return f"{host.state.value} at {short(host.version)}" if host.version is not None else host.state.value
    return str(host.state.value)
