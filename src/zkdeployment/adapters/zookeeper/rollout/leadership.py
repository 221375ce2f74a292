"""The lead of the coordinators: one of them holds it, and only that one can write the records of rollouts.

Every write is a transaction that fails unless the leader's lock node still exists: a coordinator whose session
expired can write nothing, whatever it believes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Check, TransactionError
from zkdeployment.adapters.zookeeper.locks.contender_lock import ContenderLock
from zkdeployment.errors import LockLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation

_Item = TypeVar("_Item")

#: Operations of one transaction, besides the check of the lead; a large transaction blocks the whole ensemble.
_BATCH = 499


class RolloutLeadership:
    """One coordinator's contention for the lead, and the transactions that it may commit as the leader.

    ``identity`` is the coordinator's name in the queue. ``reach`` is called before and after each commit with
    ``before:PLACE`` and ``after:PLACE``.
    """

    def __init__(self, session: Session, identity: str, reach: Callable[[str], None]) -> None:
        self._session = session
        self._reach = reach
        self._lock = ContenderLock(session, paths.COORDINATORS, identity)
        self._node: str | None = None

    @property
    def node(self) -> str | None:
        """The path of the lock node that gives the lead; ``None`` while another coordinator leads."""
        return self._node

    def acquire(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this coordinator leads now."""
        leads = False
        try:
            leads = self._lock.acquire(timeout)
        finally:
            # While this coordinator goes on leading, other threads find the node at all times.
            self._node = self._lock.path if leads else None
        return leads

    def release(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._node = None
        self._lock.release()

    def commit(self, place: str, *operations: Operation) -> None:
        """Commit a transaction as the leader; raises ``LockLostError`` if another coordinator leads."""
        if self._node is None:
            raise LockLostError(
                "this coordinator does not lead any more: another coordinator leads; it queues for the lead again"
            )
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(self._node, 0), *operations)
        except TransactionError as error:
            if error.path == self._node:
                raise LockLostError(
                    "this coordinator lost the lead: its ZooKeeper session expired; it queues for the lead again"
                ) from error
            raise
        self._reach(f"after:{place}")

    def commit_in_batches(self, place: str, operations: Iterable[Operation]) -> None:
        """Commit operations that do not depend on each other, in as many transactions as they need."""
        for batch in batches([*operations]):
            self.commit(place, *batch)


def batches(items: list[_Item]) -> Iterator[list[_Item]]:
    """Return the items in lists that are short enough for the operations of one transaction."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
