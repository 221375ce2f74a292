"""Reads that many clients share: at most one for each value and second, whatever clients ask for."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from zkdeployment.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")

#: The highest age of a returned value, in seconds.
MAX_AGE = 1.0

#: How many values are kept; those used longest ago are dropped.
_KEPT = 64


class SharedReads:
    """Values by key, each read by one thread while others wait for it. Failures are shared, too."""

    def __init__(self, *, max_age: float = MAX_AGE) -> None:
        self._max_age = max_age
        self._lock = threading.Lock()
        self._reads: OrderedDict[Hashable, _SharedRead] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return the value of ``key``; ``read`` returns it anew and may raise ``ZkdeploymentError``."""
        with self._lock:
            shared = self._reads.setdefault(key, _SharedRead())
            self._reads.move_to_end(key)
            while len(self._reads) > _KEPT:
                self._reads.popitem(last=False)
        return shared.get(read, self._max_age)


class _SharedRead:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: float | None = None
        self._outcome: Any = None

    def get(self, read: Callable[[], T], max_age: float) -> T:
        """Return the value, read again if it is too old; raises the error of the read."""
        with self._lock:
            if self._done is None or time.monotonic() - self._done > max_age:
                try:
                    self._outcome = read()
                except ZkdeploymentError as error:
                    self._outcome = error
                self._done = time.monotonic()
            if isinstance(self._outcome, ZkdeploymentError):
                raise self._outcome
            outcome: T = self._outcome
            return outcome
