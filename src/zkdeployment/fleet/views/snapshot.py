"""The snapshot of the fleet on which all views are based, and the stops that are in force."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Cluster, ClusterState, Revision, short
from zkdeployment.base.durations import ago
from zkdeployment.base.host import retry_objection
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.base.act import Decision, Maintenance
    from zkdeployment.base.host import Facts, Host, Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.base.stop import GroupStop, Stop
    from zkdeployment.fleet.daemon_failures import DaemonFailure
    from zkdeployment.publishing.records import PublicationRecord, PublicationRequest, Refusal
    from zkdeployment.strategies.state import RolloutState


#: The finding in a ZooKeeper without a cluster version, at the begin of a sentence, and as its part.
NO_HOSTS_SENTENCE = "Nothing was published yet, or ZooKeeper was wiped: there is no /hosts"
NO_HOSTS = NO_HOSTS_SENTENCE[:1].lower() + NO_HOSTS_SENTENCE[1:]

#: The limit of hosts that a sentence names.
_NAMED = 3


#: The end of a sentence on a fleet that is stopped or held: it is no outage.
UNAFFECTED = "running services continue"


def stops_in_force(snapshot: FleetSnapshot) -> tuple[Stop, ...]:
    """Return the stops that explain the present cluster version, the oldest first.

    The stop of a host that has the published revision now, for example after a retry, is ``repaired``.
    """
    state = None if snapshot.cluster is None else snapshot.cluster.state
    if state not in (ClusterState.STOPPED, ClusterState.HELD):
        return ()
    good = {host.identity.id for host in snapshot.hosts if host.error is None and host.has(snapshot.published)}
    relevant = (
        replace(stop, repaired=stop.by is None and stop.host_id in good)
        for stop in snapshot.stops
        if stop.is_hold or state is ClusterState.STOPPED
    )
    return tuple(sorted(relevant, key=lambda stop: stop.time))


def describe_stops(stops: Iterable[Stop], now: float) -> list[str]:
    """Return a sentence for each reason, in the order of the stops; ``now`` is in seconds since the epoch."""
    alike: dict[tuple[object, ...], list[Stop]] = {}
    for stop in stops:
        alike.setdefault((stop.by, stop.revision, stop.step, stop.reason, stop.repaired), []).append(stop)
    sentences = [f"{_sentence(group)} ({ago(group[0].time, now)})" for group in alike.values()]
    replaced = sum(stop.replaced for group in alike.values() for stop in group)
    if replaced:
        sentences.append(f"{replaced} more stops were recorded; only the first and the last ones are kept")
    return sentences


def describe_group_stops(stops: Iterable[GroupStop], now: float) -> list[str]:
    """Return a sentence for each stopped group, with the act that ends its stop."""
    return [
        f"{stop} ({ago(stop.stop.time, now)}); publish a change of the group, or 'zkdeployment intent resume"
        f" {stop.group} --reason TEXT'"
        for stop in stops
    ]


def retried_host(snapshot: FleetSnapshot) -> Host | None:
    """Return the registered host that an operator has ordered to try again while the fleet is stopped."""
    retry = None if snapshot.cluster is None else snapshot.cluster.retry
    return next((host for host in snapshot.hosts if retry is not None and host.identity.id == retry.host), None)


def is_retry_pending(snapshot: FleetSnapshot) -> bool:
    """Whether an operator ordered a retry of one host that has not succeeded yet.

    The record of the retry stays until the next write of the cluster version, also after the host has succeeded.
    """
    retry = None if snapshot.cluster is None else snapshot.cluster.retry
    return retry is not None and not retry.succeeded


def describe_retry(snapshot: FleetSnapshot) -> str:
    """Return the state of the retry of one host, without a full stop; empty if no operator ordered one."""
    retry, host = None if snapshot.cluster is None else snapshot.cluster.retry, retried_host(snapshot)
    if retry is None:
        return ""
    if host is None and not retry.succeeded:
        return f"the retry of {retry.host} begins when its agent is registered"
    name = retry.host if host is None else host.identity.name
    if not retry.succeeded:
        return f"only {name} tries again"
    is_last = all(stop.repaired for stop in stops_in_force(snapshot))
    return f"{name} is repaired; 'zkdeployment resume' continues" if is_last else f"{name} is repaired"


def _sentence(group: Sequence[Stop]) -> str:
    first = group[0]
    if len(group) == 1:
        return str(first)
    hosts = listing([f"{stop.host_name} ({stop.host_id})" for stop in group], _NAMED)
    hosts = f"{hosts} are repaired: they" if first.repaired else hosts
    return f"{hosts} failed at {first.step} of {short(first.revision)}: {first.reason}"


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The fleet in ZooKeeper at one moment.

    ``cluster`` is ``None`` without the node ``/hosts``; ``changed`` is when that node was last written, in seconds
    since the epoch. ``published`` is the last revision that was published completely, ``publication`` the record
    of the last publication without the results of hosts. ``since`` is the sequence of the last publication that
    changed anything for hosts; later ones changed only documents. ``hosts`` and ``stops`` are sorted by host id.
    ``absent`` hosts are known but not registered. ``targets`` are the names of the published targets.
    ``out_of_service`` maps the id of each host that released the lock of its role before it finished to that role.

    ``refusal`` is the refusal of the tip of the branch, if the syncer refuses to publish the tip. ``failures`` are
    the daemons whose cycles fail unexpectedly. ``group_stops`` are the stops of deployment intent groups, sorted
    by group.

    ``maintenance`` is the maintenance of hosts in force when the fleet was read, by host id. ``disappeared`` maps
    the ids of absent hosts to the times at which a syncer noticed their absence, ``None`` for an unknown time.
    ``completed`` maps the sequences of the publications that absent hosts completed last to their revisions.
    ``decisions`` are the decisions of persons for which features wait. ``reboots`` are the recorded reboots,
    by host id; those that were overdue when the fleet was read are expired.

    If a strategy is published, ``strategy`` is its name, ``rollout`` the rollout of the present publication once
    begun, and ``coordinator`` the leading coordinator. ``governed`` means that hosts deploy the cluster version in
    the order of the strategy: the version was not set by hand.
    """

    cluster: Cluster | None = None
    published: Revision | None = None
    changed: float | None = None
    hosts: tuple[Host, ...] = ()
    stops: tuple[Stop, ...] = ()
    request: PublicationRequest | None = None
    absent: tuple[KnownHost, ...] = ()
    targets: frozenset[str] = frozenset()
    out_of_service: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    governed: bool = False
    rollout: RolloutState | None = None
    coordinator: str | None = None
    since: int = 0
    refusal: Refusal | None = None
    failures: tuple[DaemonFailure, ...] = ()
    group_stops: tuple[GroupStop, ...] = ()
    maintenance: Mapping[str, Maintenance] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    publication: PublicationRecord | None = None
    disappeared: Mapping[str, float | None] = field(default_factory=dict)
    completed: Mapping[int, Revision] = field(default_factory=dict)
    reboots: Mapping[str, RebootRecord] = field(default_factory=dict)

    @property
    def expected_back(self) -> Mapping[str, RebootRecord]:
        """The reboots of the hosts that are away for a reboot and not overdue, by host id."""
        if not self.reboots:
            return self.reboots
        registered = {host.identity.id for host in self.hosts}
        return {
            host_id: reboot
            for host_id, reboot in self.reboots.items()
            if host_id not in registered and not reboot.expired
        }

    def absent_since(self, known: KnownHost) -> float | None:
        """Return when an absent host disappeared; ``None`` if no syncer saw that or if it returned since."""
        since = self.disappeared.get(known.identity.id)
        return None if since is None or since < known.time else since

    def last_version(self, known: KnownHost) -> Revision | None:
        """Return the revision that an absent host completed last, as far as it reported that."""
        return None if known.completed is None else self.completed.get(known.completed)

    @property
    def failed_deployments(self) -> frozenset[str]:
        """The ids of the hosts whose deployments failed, unlike hosts that refuse what ZooKeeper has."""
        stopping = (stop.host_id for stop in stops_in_force(self) if stop.is_failure)
        return frozenset((*(host.identity.id for host in self.hosts if host.failed is not None), *stopping))

    def retry_objection(self, host: Host | None) -> str:
        """Return why a host cannot try again on an operator's order; empty if it can."""
        if self.cluster is None:
            return NO_HOSTS
        return retry_objection(host, self.cluster.state, self.stops, self.published, self.maintenance)

    def is_outdated(self, now: float) -> bool:
        """Whether a maintenance has ended by itself since the fleet was read."""
        return not all(each.is_in_force(now) for each in self.maintenance.values())

    @property
    def identities(self) -> tuple[Identity, ...]:
        """The identities of all registered and absent hosts."""
        return (*(host.identity for host in self.hosts), *(host.identity for host in self.absent))

    def find_identity(self, name: str) -> Identity | None:
        """Return the identity of the known host with this id, or else with this name, registered hosts first."""
        same = [each for each in self.identities if name in {each.id, each.name}]
        return min(same, key=lambda each: each.id != name, default=None)

    def find_host(self, name: str) -> Host | None:
        """Return the host that ``find_identity`` finds, if it is registered."""
        identity = self.find_identity(name)
        return next((host for host in self.hosts if host.identity == identity), None)

    @property
    def facts(self) -> Mapping[str, Facts]:
        """The facts of all registered and absent hosts, by host id."""
        known = {host.identity.id: host.facts for host in self.absent}
        return known | {host.identity.id: host.facts for host in self.hosts}


def completed_revisions(
    absent: Iterable[KnownHost], find: Callable[[int], PublicationRecord | None]
) -> dict[int, Revision]:
    """Return the revisions of the publications that absent hosts completed last, by sequence.

    ``find`` returns the record of a publication; ``None`` if the history no longer has it.
    """
    records = {host.completed: find(host.completed) for host in absent if host.completed is not None}
    return {sequence: record.revision for sequence, record in records.items() if record is not None}
