"""Explains why a host waits for a lock: the holder, the queue, or the lock delay after a lost session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age, ago
from zkdeployment.fleet.explanations.explanation import Cause, Explanation
from zkdeployment.model.lock import LockKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.host import Host
    from zkdeployment.model.lock import Contender, Lock
    from zkdeployment.model.work import LockedWork


def explain_wait_for_lock(
    snapshot: FleetSnapshot, locks: Sequence[Lock], host: Host, now: float
) -> Explanation | None:
    """Explain the lock that a host waits for, if any: a host waits for one lock at a time."""
    for lock in locks:
        contender = next((one for one in lock.contenders if one.host_id == host.identity.id), None)
        if contender is None:
            continue
        left = lock.abandoned_work
        if left is not None and left.host_id != host.identity.id:
            return _explain_lock_delay(lock, left, host, now)
        if lock.holder is not None and contender in lock.waiting:
            return _explain_queue(snapshot, lock, lock.holder, contender, host, now)
    return None


def _explain_lock_delay(lock: Lock, left: LockedWork, host: Host, now: float) -> Explanation:
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits because {left.host_name} ({left.host_id}) lost {lock} in the middle of a script.",
        (
            f"that script was {left.step}, begun {ago(left.since, now)}",
            "the wait ends when the lock delay is over, at the latest",
        ),
        (
            f"'zkdeployment why {left.host_id}' explains the present state of that host",
            f"if that script has certainly ended: zkdeployment locks release {lock.name} --reason TEXT",
        ),
    )


def _explain_queue(
    snapshot: FleetSnapshot, lock: Lock, holder: Contender, waiting: Contender, host: Host, now: float
) -> Explanation:
    place = 1 + lock.waiting.index(waiting)
    holding = next((host for host in snapshot.hosts if host.identity.id == holder.host_id), None)
    waited = age(now - waiting.since)
    facts = [f"the host is number {place} of {len(lock.waiting)} in the queue and has waited for {waited}"]
    advice = [f"'zkdeployment why {holder.host_id}' shows what the holder is doing"] if holder.host_id else []
    if lock.is_kept and lock.work is not None:
        facts.append(f"the lock is kept for the holder, which has not completed {lock.work.step}")
        if holding is None:
            facts.append("the holder is not registered: the lock stays kept until that host is back")
        advice.append(
            "if the holder never comes back, or is in the way: make sure that its script does not run, then"
            f" zkdeployment locks release {lock.name} --reason TEXT"
        )
    elif lock.work is not None:
        facts.append(f"the holder is at {lock.work.step}")
    elif holding is not None and holding.step is not None:
        facts.append(f"the holder is at: {holding.step}")
    if lock.kind is LockKind.ROLE and (holding is None or holding.error is not None):
        facts.append("the holder failed" if holding is not None else "the holder is not registered")
        facts.append(
            "a host keeps the lock of its role until it has succeeded"
            + (", or until the rollout continues without the host" if snapshot.governed else "")
        )
        advice.append(
            "if the holder never comes back and certainly runs no script:"
            f" zkdeployment locks release {lock.name} --reason TEXT"
        )
    return Explanation(
        Cause.LOCK,
        f"{host.identity} waits for {lock}, which {holder.identity} has held for {age(now - lock.since)}.",
        tuple(facts),
        tuple(advice),
    )
