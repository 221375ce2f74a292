"""The lead among daemons that direct rollouts, and the transactions that only the leader can commit.

Every write is a transaction that fails unless the leader's lock node still exists: a daemon whose session expired
cannot write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zkdeployment.base.errors import LockLostError
from zkdeployment.strategies.store.records import NODES
from zkdeployment.zookeeper.contender_lock import ContenderLock, process_identity
from zkdeployment.zookeeper.transactions import Check, Operation, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zkdeployment.strategies.strategy import MemberKind
    from zkdeployment.zookeeper.session import Session

_Item = TypeVar("_Item")

#: Operations of one transaction, besides the check of the lead; a large transaction blocks the whole ensemble.
_BATCH = 499


class FencedLead:
    """One daemon's contention for the lead, and the transactions that it may commit as the leader.

    The daemon leads rollouts over members of a ``kind``. ``identity`` is its name in the queue (default: its host
    and process). ``reach`` is called before and after each commit with ``before:PLACE`` and ``after:PLACE``.
    """

    def __init__(
        self,
        session: Session,
        kind: MemberKind,
        reach: Callable[[str], None] = lambda _place: None,
        *,
        identity: str | None = None,
    ) -> None:
        self._session = session
        self._reach = reach
        self._role = kind.leader
        self._lock = ContenderLock(session, NODES[kind].leaders, identity or process_identity())
        self._node: str | None = None

    @property
    def node(self) -> str | None:
        """The path of the lock node that gives the lead; ``None`` while another daemon leads."""
        return self._node

    def acquire(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this daemon leads now."""
        leads = False
        try:
            leads = self._lock.acquire(timeout)
        finally:
            # While this daemon continues to lead, other threads always find the node.
            self._node = self._lock.path if leads else None
        return leads

    def release(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._node = None
        self._lock.release()

    def confirm(self) -> None:
        """Raise ``LockLostError`` if this daemon does not lead any more."""
        self.commit("lead")

    def commit(self, place: str, *operations: Operation) -> None:
        """Commit a transaction as the leader; raises ``LockLostError`` if another daemon leads."""
        if self._node is None:
            raise LockLostError(
                f"this {self._role} does not lead any more: another one leads; it queues for the lead again"
            )
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(self._node, 0), *operations)
        except TransactionError as error:
            if error.path == self._node:
                raise LockLostError(
                    f"this {self._role} lost the lead: its ZooKeeper session expired; it queues for the lead again"
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
