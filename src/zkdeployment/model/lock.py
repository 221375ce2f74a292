"""Locks as they stand at one moment: who has them, who waits, and what is done under them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.work import LockedWork


class LockKind(Enum):
    """What a lock protects."""

    SERVICE = "service"  # a service node: one host deploys it at a time
    ROLE = "role"  # a role with a controller: one host of it works at a time
    SYNCER = "syncer"  # publication


@dataclass(frozen=True, slots=True)
class Contender:
    """One who has a lock or waits: what it calls itself, since when (seconds since the epoch), and its node.

    ``host_id`` is ``None`` for whoever is not known to be a host.
    """

    identity: str
    since: float
    node: str
    host_id: str | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that somebody has, waits for, or left at work.

    ``name`` is the service's path, the role, or the syncer lock's path; ``path`` the node whose children are the
    ``contenders``, the holder first. ``work`` is on record at the node ``record``.
    """

    kind: LockKind
    name: str
    path: str
    contenders: tuple[Contender, ...] = ()
    work: LockedWork | None = None
    record: str = ""

    def __str__(self) -> str:
        match self.kind:
            case LockKind.SERVICE:
                return f"the lock of {self.name}"
            case LockKind.ROLE:
                return f"the lock of role {self.name}"
            case LockKind.SYNCER:
                return "the syncer's lock"

    @property
    def holder(self) -> Contender | None:
        """Who has it."""
        return self.contenders[0] if self.contenders else None

    @property
    def abandoned_work(self) -> LockedWork | None:
        """What a host was at when it lost the lock: until that is over, or the lock delay, nobody may use it."""
        return None if self._is_holders_work else self.work

    @property
    def since(self) -> float:
        """Since when the holder works under it, or at least contends for it; 0 if nobody does."""
        if self.work is not None and self._is_holders_work:
            return self.work.since
        return 0.0 if self.holder is None else self.holder.since

    @property
    def _is_holders_work(self) -> bool:
        return self.holder is not None and self.work is not None and self.work.host_id == self.holder.host_id
