"""When a fleet is converged: which hosts have to have a revision, and whether the rollout of it is completed.

Everything that judges convergence decides here: the syncer, ``status``, the monitor, the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.cluster import short
from zkdeployment.model.listing import listing
from zkdeployment.rollout.groups import is_selected
from zkdeployment.rollout.state import Ending
from zkdeployment.rollout.state_machine import RolloutResult

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.strategy import Facts, Strategy
    from zkdeployment.planning.published_state import PublicationSnapshot
    from zkdeployment.rollout.state import RolloutState

#: How many hosts of a rollout a sentence names.
_NAMED = 5


def behind(cluster: Cluster, hosts: Iterable[Host]) -> tuple[Host, ...]:
    """Return the hosts that are not at the cluster version; a host without a version is not."""
    return tuple(host for host in hosts if not host.has(cluster.version))


def is_excluded(running: RolloutState | None, host_id: str, facts: Facts) -> bool:
    """Whether a host is in no group of the rollout's strategy, so that it keeps what it has and is not waited for.

    A host that is a member of a group stays one, whatever its facts are now.
    """
    if running is None:
        return False
    is_member = any(host_id in hosts for hosts in running.rollout.members.values())
    return not is_member and not is_selected(running.rollout.strategy, host_id, facts)


def count_excluded(strategy: Strategy | None, hosts: Iterable[Host]) -> int:
    """Return how many hosts are in no group of a strategy; none without a strategy."""
    if strategy is None:
        return 0
    return sum(not is_selected(strategy, host.identity.id, host.facts) for host in hosts)


def is_completed(running: RolloutState) -> bool:
    """Whether a rollout ended as its strategy accepts: no group is left, and no critical group failed."""
    return running.ending is Ending.COMPLETED and running.rollout.result is not RolloutResult.FAILED


def is_converged(snapshot: PublicationSnapshot) -> bool:
    """Whether nothing has to end before the next publication.

    Without a strategy all registered hosts have to have the cluster version. Under a strategy the rollout has to
    be completed: hosts that failed within the criteria, are absent or in no group do not hold up others. Where
    every host has the version, no rollout needs to begin.
    """
    if snapshot.cluster is None:
        return True
    if snapshot.rollout is None or not snapshot.published.governs(snapshot.cluster):
        return not behind(snapshot.cluster, snapshot.hosts)
    return is_completed(snapshot.rollout)


def refusal(snapshot: PublicationSnapshot, tip: Revision) -> str:
    """Say what is in the way of a publication: which hosts, or how far the rollout is."""
    ordered = snapshot.published.governs(snapshot.cluster)
    if ordered and snapshot.rollout is not None:
        progress = _rollout(snapshot.rollout, snapshot.hosts)
        words = f"{progress}; see 'zkdeployment rollout show', wait for its end"
    else:
        words = f"{_late(snapshot)}; wait for {'the rollout' if ordered else 'these hosts'}"
    return f"not converged, so {tip} is not published: {words} or use --force"


def _late(snapshot: PublicationSnapshot) -> str:
    cluster, strategy = snapshot.cluster, snapshot.published.strategy
    late = () if cluster is None else behind(cluster, snapshot.hosts)
    version = None if cluster is None else cluster.version
    listed = ", ".join(f"{host.identity} has {host.shown_version}" for host in late)
    words = f"expected version {version}, but {listed}"
    if snapshot.published.governs(cluster):
        words = f"no coordinator has begun the rollout by {strategy}; {words}"
    return words


def _rollout(running: RolloutState, hosts: Iterable[Host]) -> str:
    """Say what a rollout is at."""
    what = f"the rollout {running.id} of {short(running.revision)} by {running.rollout.strategy.name}"
    if running.ended is not None:
        return f"{what} failed, and the next has not begun"
    parts = [f"{what} is under way"]
    if running.active_phase is not None:
        task = running.active_phase.task
        names = {host.identity.id: str(host.identity) for host in hosts}
        busy = [
            names.get(one, one)
            for one in sorted(running.active_phase.granted.keys() - running.active_phase.reports.keys())
        ]
        at_work = f", with {listing(busy, _NAMED)} at work" if busy else ""
        parts.append(f"group {task.group} is in its {task.phase.value} phase{at_work}")
    if running.paused is not None:
        parts.append(f"it is paused ({running.paused})")
    elif running.waiting:
        parts.append(running.waiting)
    return "; ".join(parts)
