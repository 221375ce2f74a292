"""Locks: holders, waiting contenders, and the work that is done under each lock.

The record of the work outlives the lock: a host whose session expired may still be running the script. A record
may also be kept for its host: the script was cut off, or runs without its agent, and the host has to complete the
step first.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import Annotated, ClassVar

from zkdeployment.base.records import Key, Record
from zkdeployment.base.values import dataclass


@dataclass(frozen=True)
class LockedWork(Record):
    """A step that a host executes under a lock; ``since`` is when it started, in seconds since the epoch.

    A ``kept`` record blocks other hosts until its host has completed the step, or until an operator releases the
    lock. Any other record blocks them for the lock delay.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, Key("host")]
    host_name: Annotated[str, Key("name")]
    step: str
    since: float
    kept: Annotated[bool, Key(omit=True)] = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.host_name} ({self.host_id}) at {self.step}"


class LockKind(Enum):
    """The resource that a lock protects."""

    SERVICE = "service"  # a service node: one host at a time deploys it
    ROLE = "role"  # a role with a controller: one host of the role at a time deploys
    SYNCER = "syncer"  # publishing


@dataclass(frozen=True, slots=True)
class Contender:
    """A process that holds a lock or waits for it.

    ``identity`` is the name it gives itself, ``since`` the time in seconds since the epoch at which its ``node``
    was created. ``host_id`` is ``None`` if the contender is not known to be a host.
    """

    identity: str
    since: float
    node: str
    host_id: str | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is held, waited for, or was lost while work was in progress.

    ``name`` is the path of the service, the role, or the path of the syncer lock. ``path`` is the node whose
    children are the ``contenders`` in queue order. ``work`` is recorded at the node ``record``.
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
    def services(self) -> tuple[str, ...]:
        """The path of the service that the lock protects; none for the locks of roles and of the syncer."""
        return (self.name,) if self.kind is LockKind.SERVICE else ()

    @property
    def holder(self) -> Contender | None:
        """The holder: the host for which the lock is kept, or else the first contender."""
        if self.is_kept and self.work is not None:
            name = f"{self.work.host_name} ({self.work.host_id})"
            return Contender(name, self.work.since, self.record, self.work.host_id)
        return self.contenders[0] if self.contenders else None

    @property
    def waiting(self) -> tuple[Contender, ...]:
        """The contenders that wait for the holder, in queue order."""
        if self.is_kept and self.work is not None:
            return tuple(contender for contender in self.contenders if contender.host_id != self.work.host_id)
        return self.contenders[1:]

    @property
    def is_kept(self) -> bool:
        """Whether the lock is kept for a host that has to complete a step; that host need not be in the queue."""
        return self.work is not None and self.work.kept

    @property
    def abandoned_work(self) -> LockedWork | None:
        """The work of a host that lost the lock: the lock stays blocked until that work or the lock delay ends."""
        return None if self._is_holders_work else self.work

    @property
    def since(self) -> float:
        """When the holder started its work, or else joined the contenders, in epoch seconds; 0: no holder."""
        if self.work is not None and self._is_holders_work:
            return self.work.since
        return 0.0 if self.holder is None else self.holder.since

    @property
    def _is_holders_work(self) -> bool:
        return self.holder is not None and self.work is not None and self.work.host_id == self.holder.host_id
