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
    ThrottleKind,
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
    """The counts of failed logins below ``/zkdeployment/logins/throttle``, by digests of names and addresses."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...]) -> None:
        self._session, self._acl = session, acl
        self._waits: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def claim(self, name: str, address: str, now: float) -> float:
        """Count an attempt as failed, in advance; return 0, or the seconds to wait if it is not accepted.

        Attempts at the same time at any services are counted one after the other. A client that does not wait is
        refused without a request to ZooKeeper.
        """
        wait = self._remembered_wait(name, address, now)
        if wait > 0:
            return wait

        def count(counts: dict[str, FailureCount], keys: dict[str, ThrottleKind]) -> bool:
            nonlocal wait
            wait = max(seconds_to_wait(kind, counts.get(key), now) for key, kind in keys.items())
            if wait == 0:
                counts.update({key: after_failure(counts.get(key), now) for key in keys})
            return wait == 0

        if not self._change(name, address, now, count):
            return _BUSY
        if wait > 0:
            self._remember_wait(name, address, now + wait)
        return wait

    def release(self, name: str, address: str, now: float) -> None:
        """Withdraw the claim of an attempt that succeeded."""

        def discount(counts: dict[str, FailureCount], keys: dict[str, ThrottleKind]) -> bool:
            for key, kind in keys.items():
                left = after_success(kind, counts.pop(key, None))
                if left is not None:
                    counts[key] = left
            return True

        self._change(name, address, now, discount)

    def _remembered_wait(self, name: str, address: str, now: float) -> float:
        with self._lock:
            wait = self._waits.get(_attempt_key(name, address), 0.0) - now
        return wait if 0 < wait <= LONGEST_WAIT else 0.0  # more: the clock was set back

    def _remember_wait(self, name: str, address: str, until: float) -> None:
        with self._lock:
            self._waits[_attempt_key(name, address)] = until
            if len(self._waits) > _REMEMBERED:
                self._waits.popitem(last=False)

    def _change(
        self,
        name: str,
        address: str,
        now: float,
        change: Callable[[dict[str, FailureCount], dict[str, ThrottleKind]], bool],
    ) -> bool:
        """Apply ``change``, which returns whether to write; return whether it was applied in time."""
        keys = {
            _digest(ThrottleKind.NAME, name): ThrottleKind.NAME,
            _digest(ThrottleKind.ADDRESS, throttled_address(address)): ThrottleKind.ADDRESS,
        }
        names = sorted({key[:_NODE_DIGITS] for key in keys})
        for _ in range(_ATTEMPTS):
            nodes = dict(zip(names, self._session.get_many(map(_path, names)), strict=True))
            counts = {key: count for node in nodes.values() for key, count in _decode(node).items()}
            if not change(counts, keys):
                return True
            try:
                self._session.commit(
                    *(self._writing(node_name, nodes[node_name], counts, now) for node_name in names)
                )
            except ConflictError:
                make_parents(self._session, self._acl, paths.LOGIN_THROTTLE)
                continue
            return True
        return False

    def _writing(self, name: str, node: Node | None, counts: dict[str, FailureCount], now: float) -> Operation:
        own = {key: count for key, count in counts.items() if key.startswith(name)}
        kept = kept_counts(own, now, _COUNTS)
        data = encode({key: [count.count, count.last] for key, count in kept.items()})
        return Create(_path(name), data, acl=self._acl) if node is None else Set(_path(name), data, node.version)


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


def _attempt_key(name: str, address: str) -> str:
    return _digest(ThrottleKind.NAME, f"{throttled_address(address)} {name}")


def _path(name: str) -> str:
    return f"{paths.LOGIN_THROTTLE}/{name}"


def _digest(kind: ThrottleKind, text: str) -> str:
    return hashlib.sha256(f"{kind.value}:{text}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


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
