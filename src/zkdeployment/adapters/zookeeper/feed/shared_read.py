"""Reads that many clients share: at most one for each value and second, whatever clients ask for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.adapters.shared_calls import SharedCall
from zkdeployment.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

#: The highest age of a returned value, in seconds.
MAX_AGE = 1.0

#: Seconds that a client waits for the read of another client.
PATIENCE = 2.0

#: How many values are kept; those used longest ago are dropped.
_KEPT = 64


def late_read(seconds: float) -> UnreachableError:
    """Return the error for clients who would wait longer for the read of another client."""
    return UnreachableError(f"ZooKeeper has not answered for {seconds:g} s; the service tries again by itself")


class SharedReads:
    """Values by key, each read by one thread while others wait for it. Failures are shared, too."""

    def __init__(self, *, max_age: float = MAX_AGE) -> None:
        self._max_age = max_age
        self._lock = threading.Lock()
        self._reads: OrderedDict[Hashable, SharedCall[Any]] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the value of ``key``; ``read`` returns it anew and may raise ``ZkdeploymentError``."""
        with self._lock:
            shared = self._reads.setdefault(key, SharedCall(patience=PATIENCE, late=late_read))
            self._reads.move_to_end(key)
            while len(self._reads) > _KEPT:
                self._reads.popitem(last=False)
        value: T = shared.get(read, self._max_age)
        return value
