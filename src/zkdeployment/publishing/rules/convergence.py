"""The published state, and whether the fleet has converged to it.

Whether a tip is published is decided in ``decision``. The syncer, ``status``, the monitor and the history judge
convergence by this module.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Cluster, Revision, short
from zkdeployment.base.host import is_host_name
from zkdeployment.base.publication import Published
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.state import Ending, RolloutState
from zkdeployment.strategies.state_machine import RolloutResult
from zkdeployment.strategies.strategy import Strategy, is_selected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.host import Facts, Host, Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.publishing.records import SyncerReport


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The record of the last publication in ZooKeeper; ``cluster`` is ``None`` if ``/hosts`` does not exist.

    ``stops`` is the data version of the node above the stops, as in ``RequestState``. ``refused`` is the tip that
    is recorded as refused. ``signed`` are the data of the node that holds the signed statement, ``buckets`` is the
    number of nodes below it.
    """

    cluster: Cluster | None
    published: Published = Published()
    stops: int | None = None
    refused: Revision | None = None
    signed: bytes | None = None
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class FleetHosts:
    """The hosts of the fleet before a publication: ``registered`` ones, and ``absent`` ones, which are known.

    ``unfinished`` are the hosts, by the path of a service, that were to gain it in the published revision and have
    not got it. ``maintenance`` are the ids of the hosts in maintenance, ``reboots`` the recorded reboots.
    """

    registered: Sequence[Host] = ()
    absent: Sequence[KnownHost] = ()
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()
    reboots: Sequence[RebootRecord] = ()


@dataclass(frozen=True, slots=True)
class PublicationSnapshot(PublishedState):
    """The published state and the hosts, read once before a publication.

    ``hosts`` are registered, ``absent`` are known but not registered. ``rollout`` is the newest rollout of the
    published revision, if one has begun. ``held_by_operator``: a hold of an operator is on record. ``unfinished``
    are the hosts, by the path of a service, that were to gain it in the published revision and have not got it.
    ``maintenance`` are the ids of the hosts in maintenance, for which no publication waits. ``reboots`` are the
    recorded reboots.
    """

    hosts: Sequence[Host] = ()
    absent: Sequence[KnownHost] = ()
    rollout: RolloutState | None = None
    held_by_operator: bool = False
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()
    reboots: Sequence[RebootRecord] = ()

    @property
    def awaited_reboots(self) -> tuple[RebootRecord, ...]:
        """The reboots of unregistered hosts, except hosts whose failure to come back is reported.

        Hosts in maintenance and hosts that can be leased do not count, as in ``behind``.
        """
        not_awaited = self.maintenance.union(host.identity.id for host in self.hosts)
        return tuple(
            reboot
            for reboot in self.reboots
            if not reboot.expired and not reboot.alone and reboot.host_id not in not_awaited
        )

    @property
    def known(self) -> tuple[Identity, ...]:
        """The identities of all hosts, registered and absent."""
        return (*(host.identity for host in self.hosts), *(host.identity for host in self.absent))


#: The limit of hosts of a rollout that a sentence names.
_NAMED = 5


def behind(
    cluster: Cluster, hosts: Iterable[Host], maintenance: Collection[str] = frozenset()
) -> tuple[Host, ...]:
    """Return the hosts that are not at the cluster version, including hosts without a version.

    Hosts that can be leased do not count, because no other host waits for them. Hosts in ``maintenance``, given by
    their ids, do not count either.
    """
    return tuple(
        host
        for host in hosts
        if not host.is_leasable and not host.has(cluster.version) and host.identity.id not in maintenance
    )


def is_excluded(rollout: RolloutState | None, host_id: str, facts: Facts) -> bool:
    """Whether a host is in no group of the rollout's strategy, so that it keeps its version and is not awaited.

    A host that is a member of a group remains one, even if its facts have changed. A host that can be leased is in
    no group, but follows when the rollout has ended.
    """
    if rollout is None or facts.is_leasable:
        return False
    is_member = any(host_id in hosts for hosts in rollout.rollout.members.values())
    return not is_member and not is_selected(rollout.rollout.strategy, host_id, facts)


def count_excluded(
    strategy: Strategy | None, hosts: Iterable[Host], maintenance: Collection[str] = frozenset()
) -> int:
    """Return the number of hosts that no publication awaits: they are in ``maintenance``, or in no group."""
    return sum(
        host.identity.id in maintenance
        or (
            strategy is not None
            and not host.is_leasable
            and not is_selected(strategy, host.identity.id, host.facts)
        )
        for host in hosts
    )


def unserved(targets: Iterable[str], hosts: Collection[Host | KnownHost]) -> tuple[str, ...]:
    """Return the targets that none of ``hosts`` serves, in order.

    Any name that is no host name may become the role of a host that can be leased.
    """
    served = {name for host in hosts for name in host.identity.target_names}
    may_be_leased = any(host.idle_role is not None for host in hosts)
    return tuple(sorted(name for name in {*targets} - served if is_host_name(name) or not may_be_leased))


#: The limit of targets that a sentence names.
_NAMED_TARGETS = 3


def describe_unserved(targets: Sequence[str]) -> list[str]:
    """Return a sentence on the targets that no host serves, or nothing."""
    return [f"no host runs what the tree deploys to {listing(targets, _NAMED_TARGETS)}"] if targets else []


def is_completed(rollout: RolloutState) -> bool:
    """Whether a rollout ended successfully: all groups are finished, and no critical group failed."""
    return rollout.ending is Ending.COMPLETED and rollout.rollout.result is not RolloutResult.FAILED


def is_converged(snapshot: PublicationSnapshot) -> bool:
    """Whether the next revision may be published.

    Without a strategy, all registered hosts must have the cluster version, and no host may be away for a reboot.
    With a strategy, the rollout must be completed: hosts that failed within the criteria, are absent or in no
    group do not block it. If all hosts have the version, no rollout needs to begin.
    """
    if snapshot.cluster is None:
        return True
    if snapshot.rollout is None or not snapshot.published.governs(snapshot.cluster):
        late = behind(snapshot.cluster, snapshot.hosts, snapshot.maintenance)
        return not late and not snapshot.awaited_reboots
    return is_completed(snapshot.rollout)


def is_under_way(snapshot: PublicationSnapshot, tip: Revision) -> bool:
    """Whether a rollout of this revision is active, so that another publication of the revision continues it.

    After a stop another publication begins a new rollout, so that hosts that failed try again.
    """
    published, cluster = snapshot.published, snapshot.cluster
    if snapshot.rollout is None or snapshot.rollout.ended is not None or published.strategy is None:
        return False
    is_running = cluster in {Cluster(tip), Cluster(False)}
    return is_running and published.revision == published.ordered == snapshot.rollout.revision == tip


def has_unfinished_hosts(snapshot: PublicationSnapshot) -> bool:
    """Whether registered hosts of a rollout's groups lack the publication: they failed or never began."""
    return snapshot.rollout is not None and any(
        not host.is_leasable
        and host.identity.id not in snapshot.maintenance
        and not is_excluded(snapshot.rollout, host.identity.id, host.facts)
        and not host.has_reached(snapshot.published.effective_since)
        for host in snapshot.hosts
    )


def refusal(snapshot: PublicationSnapshot, tip: Revision) -> str:
    """Return the message that a tip must wait for hosts, or for a state of the rollout."""
    ordered = snapshot.published.governs(snapshot.cluster)
    if ordered and snapshot.rollout is not None:
        progress = _rollout_progress(snapshot.rollout, snapshot.hosts)
        reason = f"{progress}; see 'zkdeployment rollout show', wait for its end"
    else:
        reason = f"{_hosts_behind(snapshot)}; wait for {'the rollout' if ordered else 'these hosts'}"
    return f"not converged, so {tip} is not published: {reason} or use --force"


def _hosts_behind(snapshot: PublicationSnapshot) -> str:
    """Return the expected version, the versions of the hosts that are behind, and the hosts that reboot."""
    cluster, strategy = snapshot.cluster, snapshot.published.strategy
    late = () if cluster is None else behind(cluster, snapshot.hosts, snapshot.maintenance)
    version = None if cluster is None else cluster.version
    listed = [f"{host.identity} has {host.shown_version}" for host in late]
    listed += [
        f"{each.host_name} ({each.host_id}) reboots, {each.return_text}" for each in snapshot.awaited_reboots
    ]
    message = f"expected version {version}, but {', '.join(listed)}"
    if snapshot.published.governs(cluster):
        message = f"no coordinator has begun the rollout by {strategy}; {message}"
    return message


def _rollout_progress(state: RolloutState, hosts: Iterable[Host]) -> str:
    """Return the phase of a rollout and its busy hosts, or why the rollout waits."""
    title = f"the rollout {state.id} of {short(state.revision)} by {state.rollout.strategy.name}"
    if state.ended is not None:
        return f"{title} failed, and the next has not begun"
    parts = [f"{title} is under way"]
    if state.active_phase is not None:
        task = state.active_phase.task
        names = {host.identity.id: str(host.identity) for host in hosts}
        busy = [
            names.get(host_id, host_id)
            for host_id in sorted(state.active_phase.granted.keys() - state.active_phase.reports.keys())
        ]
        busy_hosts = f", {listing(busy, _NAMED)} busy" if busy else ""
        parts.append(f"group {task.group} is in its {task.phase.value} phase{busy_hosts}")
    if state.paused is not None:
        parts.append(f"it is paused ({state.paused})")
    elif state.waiting:
        parts.append(state.waiting)
    return "; ".join(parts)


def disappearances(last: SyncerReport | None, absent: Collection[str], now: float) -> dict[str, float | None]:
    """Return when each of these ``absent`` hosts disappeared, by id; ``None`` for a time that no syncer saw.

    A host that the ``last`` report does not name was registered then, or has appeared since. A late report, or
    one without the key ``absent``, does not show when such a host disappeared.
    """
    named = None if last is None else last.absent
    is_seen = last is not None and named is not None and now <= last.time + last.patience
    return {host: named[host] if named and host in named else (now if is_seen else None) for host in absent}
