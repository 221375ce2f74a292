"""The page of locks: the holder of each lock, for how long, and the hosts that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.locks import by_urgency, is_orphaned, present_hosts, reboot_of_holder
from zkdeployment.service.acts import ReleaseLock
from zkdeployment.service.views.fleet import HostLink
from zkdeployment.service.views.frame import act_page, host_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.lock import Contender, Lock, LockedWork
    from zkdeployment.base.machine.reboots import RebootRecord
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.service.users.user import User

#: The most waiting hosts that a row names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class LockRow:
    """A lock: its holder (without an address if it is not a host), the work under it, and the waiting hosts.

    ``warning`` is why the lock needs attention, or empty. ``release`` is the form that releases it, if offered.
    """

    name: str
    kind: str
    holder: HostLink | None
    held_for: str
    work: str
    warning: str
    waiting: tuple[HostLink, ...]
    more_waiting: int
    release: str | None


def lock_rows(
    locks: Sequence[Lock], fleet: FleetSnapshot, *, now: float, user: User | None
) -> tuple[LockRow, ...]:
    """Return the locks at ``now``, those that need attention first, then the oldest.

    ``user`` is the user who may act; ``None`` if no user can act at present.
    """
    return tuple(_row(lock, fleet, now, user) for lock in by_urgency(locks, fleet))


def _row(lock: Lock, fleet: FleetSnapshot, now: float, user: User | None) -> LockRow:
    holder, left = lock.holder, lock.abandoned_work
    warning = ""
    if left is not None:
        warning = (
            f"{left.host_name} lost the lock at {left.step}, {age(now - left.since)} ago; its script may still run"
        )
    elif is_orphaned(lock, present_hosts(fleet)):
        warning = (
            "The holder is not registered. The lock stays held until that host is back, or the lock is released."
        )
    may_release = user is not None and user.may_act(ReleaseLock.RIGHT, *lock.services)
    releasable = may_release and (holder is not None or left is not None)
    return LockRow(
        name=lock.name,
        kind=lock.kind.value,
        holder=None if holder is None else _link(holder),
        held_for="" if holder is None else age(now - lock.since),
        work=""
        if lock.work is None or left is not None
        else _step(lock, lock.work, reboot_of_holder(lock, fleet)),
        warning=warning,
        waiting=tuple(map(_link, lock.waiting[:_NAMED])),
        more_waiting=max(0, len(lock.waiting) - _NAMED),
        release=act_page("release", "/locks", lock=lock.path) if releasable else None,
    )


def _step(lock: Lock, work: LockedWork, reboot: RebootRecord | None) -> str:
    if reboot is not None:
        return f"{work.step}; the host {reboot}"
    return f"{work.step}; the lock is kept for this host until the step is complete" if lock.is_kept else work.step


def _link(contender: Contender) -> HostLink:
    return HostLink(contender.identity, "" if contender.host_id is None else host_page(contender.host_id))
