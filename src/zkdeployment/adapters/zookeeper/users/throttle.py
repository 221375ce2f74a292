"""Counts of failed logins, shared by all services: a fixed number of nodes with a bounded number of counts."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Operation, Set
from zkdeployment.errors import ConflictError
from zkdeployment.model.logins.login_throttle import (
    LONGEST_WAIT,
    FailureCount,
    after_failure,
    after_success,
    kept_counts,
    seconds_to_wait,
    throttled_address,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.servers import AclEntry

#: Attempts at a write while other services write to the same nodes.
_ATTEMPTS = 10

#: Counts in a node; there are 256 nodes.
_COUNTS = 64

#: Hexadecimal digits of a digest that name the node, and that name a count.
_NODE_DIGITS, _DIGITS = 2, 24

#: Clients that have to wait, which a service remembers.
_REMEMBERED = 1000

#: Seconds to wait when others change the same counts all the time.
_BUSY = 1.0


class LoginThrottle:
    """The counts of failed logins below ``/zkdeployment/logins/throttle``, by digests of clients' addresses."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...]) -> None:
        self._session, self._acl = session, acl
        self._waits: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def known_wait(self, address: str, now: float) -> float:
        """Return the seconds that a client still has to wait, as far as this service knows; sends no request."""
        with self._lock:
            wait = self._waits.get(throttled_address(address), 0.0) - now
        return wait if 0 < wait <= LONGEST_WAIT else 0.0  # more: the clock was set back

    def claim(self, address: str, now: float) -> float:
        """Count an attempt as failed, in advance; return 0, or the seconds to wait if it is not accepted.

        Attempts at the same time at any services are counted one after the other.
        """
        wait = 0.0

        def count(failures: FailureCount | None) -> FailureCount | None:
            nonlocal wait
            wait = seconds_to_wait(failures, now)
            return failures if wait > 0 else after_failure(failures, now)

        if not self._change(address, now, count):
            return _BUSY
        if wait > 0:
            self._remember_wait(address, now + wait)
        return wait

    def release(self, address: str, now: float) -> None:
        """Withdraw the claim of an attempt that succeeded."""
        self._change(address, now, after_success)

    def _remember_wait(self, address: str, until: float) -> None:
        with self._lock:
            self._waits[throttled_address(address)] = until
            if len(self._waits) > _REMEMBERED:
                self._waits.popitem(last=False)

    def _change(
        self, address: str, now: float, change: Callable[[FailureCount | None], FailureCount | None]
    ) -> bool:
        """Apply ``change`` to the count of an address; return whether it was applied in time."""
        key = _digest(throttled_address(address))
        path = f"{paths.LOGIN_THROTTLE}/{key[:_NODE_DIGITS]}"
        for _ in range(_ATTEMPTS):
            node = self._session.get(path)
            counts = _decode(node)
            before = counts.pop(key, None)
            after = change(before)
            if after == before:
                return True
            try:
                self._session.commit(
                    self._writing(path, node, counts if after is None else {**counts, key: after}, now)
                )
            except ConflictError:
                make_parents(self._session, self._acl, paths.LOGIN_THROTTLE)
                continue
            return True
        return False

    def _writing(self, path: str, node: Node | None, counts: dict[str, FailureCount], now: float) -> Operation:
        kept = kept_counts(counts, now, _COUNTS)
        data = encode({key: [count.count, count.last] for key, count in kept.items()})
        return Create(path, data, acl=self._acl) if node is None else Set(path, data, node.version)


def make_parents(session: Session, acl: tuple[AclEntry, ...], path: str) -> None:
    """Create ``/zkdeployment/logins`` and the node at ``path`` below it, if they are missing."""
    session.ensure(paths.OURS)
    for missing in _missing(session, [paths.LOGINS, path]):
        try:
            session.commit(Create(missing, acl=acl))
        except ConflictError:
            continue  # another service created it


def _missing(session: Session, wanted: list[str]) -> Iterable[str]:
    return [path for path, node in zip(wanted, session.get_many(wanted), strict=True) if node is None]


def _digest(address: str) -> str:
    return hashlib.sha256(f"address:{address}".encode()).hexdigest()[:_DIGITS]


def _decode(node: Node | None) -> dict[str, FailureCount]:
    """Decode the counts in a node; malformed ones are left out."""
    counts: dict[str, FailureCount] = {}
    for key, value in ({} if node is None else node.properties).items():
        match value:
            case [int(count), int(last) | float(last)]:
                counts[key] = FailureCount(count, last)
            case _:
                continue
    return counts
