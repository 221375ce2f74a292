"""The requests to the receivers of webhooks, and the election of the service that sends them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import urllib3

from zkdeployment.base.errors import LockLostError
from zkdeployment.fleet.webhooks.sender import WebhookAnswer, WebhookOutcome
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.transactions import Check, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zkdeployment.zookeeper.session import Session


#: Seconds.
_TIMEOUT = urllib3.Timeout(connect=3.0, read=5.0)

#: Statuses with which a receiver rejects an event for good. Others may be temporary, such as 404 during an
#: upgrade.
_REFUSALS = frozenset({400, 413, 415, 422})


class HttpWebhookSender:
    """Requests without redirects, from any thread; answers are not read beyond their headers.

    ``ca`` is a file of certificates to trust (``None``: those of the system).
    """

    def __init__(self, ca: Path | None = None) -> None:
        self._http = urllib3.PoolManager(timeout=_TIMEOUT, retries=False, ca_certs=None if ca is None else str(ca))

    def send(self, url: str, body: bytes, headers: Mapping[str, str]) -> WebhookAnswer:
        """Send one request and return its outcome within a few seconds; never raises."""
        try:
            response = self._http.request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
            response.close()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:  # the texts contain the URL
            return WebhookAnswer(WebhookOutcome.FAILED, f"the receiver cannot be reached: {type(error).__name__}")
        if 200 <= response.status < 300:
            return WebhookAnswer(WebhookOutcome.ACCEPTED)
        outcome = WebhookOutcome.REFUSED if response.status in _REFUSALS else WebhookOutcome.FAILED
        return WebhookAnswer(outcome, f"expected a status between 200 and 299, found {response.status}")


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
        """Return the last transaction whose changes each receiver got, by the digest of its URL."""
        node = self._session.get(paths.WEBHOOKS)
        recorded = {} if node is None else node.properties.get("acknowledged")
        if not isinstance(recorded, dict):
            return {}
        return {digest: number for digest, number in recorded.items() if type(number) is int}

    def acknowledge(self, transactions: Mapping[str, int]) -> None:
        """Replace the value of ``acknowledged``; raises ``LockLostError`` if this service is no longer elected."""
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
        """End this service's contention, so that another service can be elected; never raises."""
        self._lock.release()
