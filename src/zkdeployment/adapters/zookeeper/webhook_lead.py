"""The election of the service that sends webhooks, and what their receivers got."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Check, Set, TransactionError
from zkdeployment.adapters.zookeeper.locks.contender_lock import ContenderLock
from zkdeployment.errors import LockLostError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session


class ZooKeeperWebhookLead:
    """One service's contention; ``identity`` is its name in the queue.

    Every write fails unless the contender's node still exists, so that a service whose session has expired writes
    nothing. Only one thread may call the methods. Except for ``release``, they raise ``UnreachableError`` while
    ZooKeeper is away.
    """

    def __init__(self, session: Session, identity: str) -> None:
        self._session = session
        self._lock = ContenderLock(session, paths.WEBHOOKS, identity)

    def acquire(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the election of this service; return whether it is elected."""
        return self._lock.acquire(timeout)

    def acknowledged(self) -> Mapping[str, int]:
        """Return the last transaction whose changes a receiver got, by the digest of its URL."""
        node = self._session.get(paths.WEBHOOKS)
        recorded = {} if node is None else node.properties.get("acknowledged")
        if not isinstance(recorded, dict):
            return {}
        return {digest: number for digest, number in recorded.items() if type(number) is int}

    def acknowledge(self, transactions: Mapping[str, int]) -> None:
        """Replace what ``acknowledged`` returns; raises ``LockLostError`` if this service is no longer elected."""
        node = self._lock.path
        if node is None:
            raise LockLostError("this service is not elected to send webhooks")
        data = json.dumps({"acknowledged": dict(sorted(transactions.items()))}).encode()
        try:
            self._session.commit(Check(node, 0), Set(paths.WEBHOOKS, data))
        except TransactionError as error:
            raise LockLostError("another service was elected to send webhooks: the session expired") from error

    def check(self) -> None:
        """Raise ``LockLostError`` if this service is no longer elected."""
        self._lock.check()

    def release(self) -> None:
        """Let another service be elected; never raises."""
        self._lock.release()
