"""Judging locks: which one is meant, what keeps it taken, and whether that may be taken away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.fleet.ages import age
from zkdeployment.model.lock import LockKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.model.host import Host
    from zkdeployment.model.lock import Contender, Lock
    from zkdeployment.model.tree import Value
    from zkdeployment.model.work import LockedWork


@dataclass(frozen=True, slots=True)
class Release:
    """What frees a lock: removing ``node``, which is ``whose``; ``objection`` says why one had better not."""

    lock: Lock
    node: str
    whose: str
    objection: str | None = None


def find_lock(locks: Iterable[Lock], name: str) -> Lock:
    """Return the lock of a service (its path), of a role, or the one at a path in ZooKeeper.

    Raises ``RefusedError`` if nobody has it.
    """
    role = name.removeprefix("/roles/")
    for lock in locks:
        names = {lock.path} | ({lock.name} if lock.kind is not LockKind.ROLE else set())
        if name in names or (lock.kind is LockKind.ROLE and role == lock.name):
            return lock
    raise RefusedError(
        f"nobody has a lock {name!r} (expected a service's path or a role, as 'zkdeployment locks' shows)"
    )


def plan_release(lock: Lock, hosts: Iterable[Host], *, now: float) -> Release:
    """Say what is to be removed for the lock to go on to the next, and what speaks against it."""
    registered = {host.identity.id: host for host in hosts}
    if lock.abandoned_work is not None:
        host = registered.get(lock.abandoned_work.host_id)
        working = host is not None and host.deploying is not None
        objection = f"{lock.abandoned_work.host_name} is registered and deploying: its script may still run"
        return Release(lock, lock.record, f"the record of {lock.abandoned_work}", objection if working else None)
    holder = lock.holder
    if holder is None:
        raise RefusedError(f"nobody has {lock}")
    return Release(lock, holder.node, holder.identity, _objection(lock, holder, registered, now))


def _objection(lock: Lock, holder: Contender, registered: Mapping[str, Host], now: float) -> str | None:
    if lock.kind is LockKind.SYNCER:
        return "a syncer with a live session is publishing under it"
    if lock.kind is LockKind.SERVICE:
        if lock.work is None:
            return None
        return f"{holder.identity} is at work under it: {lock.work.step}, since {age(now - lock.work.since)}"
    host = registered.get(holder.host_id or "")
    if host is None or host.deploying is None:
        return None
    return f"{holder.identity} is registered and deploying {host.deploying}"


def by_urgency(locks: Iterable[Lock], hosts: Iterable[Host]) -> list[Lock]:
    """Return locks, those first that nobody will give back soon, then the oldest."""
    registered = {host.identity.id for host in hosts}

    def key(lock: Lock) -> tuple[bool, float]:
        return not (lock.abandoned_work is not None or is_orphaned(lock, registered)), min(
            _times(lock), default=0.0
        )

    return sorted(locks, key=key)


def is_orphaned(lock: Lock, registered: set[str]) -> bool:
    """Whether a role's lock belongs to a host that is not there: it stays taken until that is back."""
    return lock.kind is LockKind.ROLE and lock.holder is not None and lock.holder.host_id not in registered


def to_json(locks: Sequence[Lock], hosts: Iterable[Host]) -> list[Value]:
    """Return locks as ``-o json`` prints them."""
    registered = {host.identity.id for host in hosts}
    return [
        {
            "kind": lock.kind.value,
            "name": lock.name,
            "path": lock.path,
            "holder": None if lock.holder is None else _contender_json(lock.holder, registered),
            "waiting": [_contender_json(one, registered) for one in lock.contenders[1:]],
            "work": _work_json(lock.work),
            "left": lock.abandoned_work is not None,
        }
        for lock in locks
    ]


def _contender_json(one: Contender, registered: set[str]) -> dict[str, Value]:
    known = None if one.host_id is None else one.host_id in registered
    return {"identity": one.identity, "host": one.host_id, "since": one.since, "registered": known}


def _work_json(work: LockedWork | None) -> dict[str, Value] | None:
    return None if work is None else work.properties()


def _times(lock: Lock) -> list[float]:
    return [lock.since] if lock.holder is not None else [lock.work.since] if lock.work is not None else []
