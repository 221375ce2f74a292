"""Decisions about locks: find a lock by name, decide whether it may be released, sort locks by urgency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.durations import age
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.lock import Contender, Lock, LockedWork, LockKind
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.names import check_node_path
from zkdeployment.base.records import OMITTED, Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.host import Host
    from zkdeployment.fleet.views.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Release:
    """A planned release of a lock: remove ``node``, which belongs to ``owner``.

    ``objection`` is a reason against the release, if there is one.
    """

    lock: Lock
    node: str
    owner: str
    objection: str | None = None

    @property
    def description(self) -> str:
        """The release as text for the record of acts."""
        return f"release {self.lock}, from {self.owner}"


def find_lock(locks: Iterable[Lock], name: str) -> Lock:
    """Return the lock of a service (named by its path), of a role, or at a path in ZooKeeper.

    Raises ``NotFoundError`` if there is no such lock, and ``ConfigurationError`` for a path without its slash.
    """
    if "/" in name:
        check_node_path(name)
    role = name.removeprefix("/roles/")
    for lock in locks:
        names = {lock.path} | ({lock.name} if lock.kind is not LockKind.ROLE else set())
        if name in names or (lock.kind is LockKind.ROLE and role == lock.name):
            return lock
    raise NotFoundError(
        f"there is no lock {name!r}: expected the path of a service or the name of a role whose lock is held;"
        " 'zkdeployment locks' lists all"
    )


def plan_release(lock: Lock, fleet: FleetSnapshot, *, now: float) -> Release:
    """Return the node to remove so that the next contender acquires the lock, with an objection, if any.

    ``now`` is in seconds since the epoch. Raises ``RefusedError`` if no contender holds the lock.
    """
    registered = {host.identity.id: host for host in fleet.hosts}
    if lock.abandoned_work is not None:
        host = registered.get(lock.abandoned_work.host_id)
        working = host is not None and host.deploying is not None
        objection = f"{lock.abandoned_work.host_name} is registered and deploying: its script may still run"
        return Release(lock, lock.record, f"the record of {lock.abandoned_work}", objection if working else None)
    holder = lock.holder
    if holder is None:
        raise RefusedError(f"{lock} has no holder")
    reboot = reboot_of_holder(lock, fleet)
    risk = _objection(lock, holder, registered, now) if reboot is None else reboot.sentence
    return Release(lock, holder.node, holder.identity, risk)


def check_release(planned: Release, *, force: bool) -> None:
    """Raise ``RefusedError`` if there is an objection to a release, unless it is forced."""
    if planned.objection is not None and not force:
        raise RefusedError(
            f"{planned.lock} is not released: {planned.objection}; use --force to release it anyway"
        )


def _objection(lock: Lock, holder: Contender, registered: Mapping[str, Host], now: float) -> str | None:
    if lock.kind is LockKind.SYNCER:
        return "a syncer with a live session holds the lock and may be publishing"
    if lock.kind is LockKind.SERVICE and not lock.is_kept:
        if lock.work is None:
            return None
        return f"{holder.identity} has worked under the lock for {age(now - lock.work.since)}: {lock.work.step}"
    host = registered.get(holder.host_id or "")
    if host is None or host.deploying is None:
        return None
    return f"{holder.identity} is registered and deploying {host.deploying}"


def reboot_of_holder(lock: Lock, fleet: FleetSnapshot) -> RebootRecord | None:
    """Return the reboot after which the holder of a lock is expected back; ``None`` for another holder."""
    return None if lock.holder is None else fleet.expected_back.get(lock.holder.host_id or "")


def present_hosts(fleet: FleetSnapshot) -> frozenset[str]:
    """Return the ids of the hosts that are registered, or are expected back after a reboot."""
    return frozenset((*(host.identity.id for host in fleet.hosts), *fleet.expected_back))


def by_urgency(locks: Iterable[Lock], fleet: FleetSnapshot) -> list[Lock]:
    """Return the locks sorted: first those whose holder is absent or lost the session, then the oldest.

    A holder that reboots in time is not absent.
    """
    present = present_hosts(fleet)

    def key(lock: Lock) -> tuple[bool, float]:
        return not (lock.abandoned_work is not None or is_orphaned(lock, present)), min(_times(lock), default=0.0)

    return sorted(locks, key=key)


def is_orphaned(lock: Lock, present: Collection[str]) -> bool:
    """Return whether the holder is absent and the lock stays held until that host is back.

    Such records exist for the locks of roles, and locks of services that are kept for a host.
    """
    stays = lock.kind is LockKind.ROLE or lock.is_kept
    return stays and lock.holder is not None and lock.holder.host_id not in present


@dataclass(frozen=True, slots=True)
class ContenderView(Record):
    """The holder of a lock, or a host that waits for it; ``registered`` is ``None`` for other processes."""

    identity: str
    host: str | None
    since: float
    registered: bool | None


@dataclass(frozen=True, slots=True)
class LockView(Record):
    """A lock; ``left``: the host that worked under it has lost it; ``kept``: it is kept for the holder.

    ``reboot`` is the reboot after which the holder is expected back.
    """

    kind: LockKind
    name: str
    path: str
    holder: ContenderView | None
    waiting: tuple[ContenderView, ...]
    work: LockedWork | None
    left: bool
    kept: bool
    reboot: Annotated[RebootRecord | None, OMITTED] = None


def lock_views(locks: Sequence[Lock], fleet: FleetSnapshot) -> list[LockView]:
    """Return the locks as ``-o json`` prints them."""
    registered = {host.identity.id for host in fleet.hosts}

    def view(one: Contender) -> ContenderView:
        is_registered = None if one.host_id is None else one.host_id in registered
        return ContenderView(one.identity, one.host_id, one.since, is_registered)

    return [
        LockView(
            lock.kind,
            lock.name,
            lock.path,
            None if lock.holder is None else view(lock.holder),
            tuple(map(view, lock.waiting)),
            lock.work,
            lock.abandoned_work is not None,
            lock.is_kept,
            reboot_of_holder(lock, fleet),
        )
        for lock in locks
    ]


def _times(lock: Lock) -> list[float]:
    return [lock.since] if lock.holder is not None else [lock.work.since] if lock.work is not None else []
