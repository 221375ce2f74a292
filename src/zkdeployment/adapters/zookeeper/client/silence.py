"""How long a server has not answered: then clients do not ask it any more, and later the client is replaced."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Silence:
    """The time without answers, counted only while calls are made; too long after ``patience`` seconds."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.renewed = False
        self._since: float | None = None
        self._lock = threading.Lock()
        self._waiting: dict[object, float] = {}  # when each call that waits for its answer was made
        self._answered = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in which a call waits for its answer."""
        call = object()
        with self._lock:
            self._waiting[call] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._waiting[call]

    @property
    def seconds(self) -> float:
        """The seconds for which calls have waited and none has got an answer; 0 if no call waits."""
        with self._lock:
            if not self._waiting:
                return 0.0
            return time.monotonic() - max(self._answered, min(self._waiting.values()))

    def begin(self) -> None:
        """Record a call without an answer."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Record an answer, which ends the silence."""
        self._since, self.renewed = None, False
        self._answered = time.monotonic()

    def renew(self) -> None:
        """Start the time again for a new client."""
        self._since, self.renewed = time.monotonic(), True

    @property
    def too_long(self) -> bool:
        """Whether the silence has lasted longer than ``patience``."""
        return self._since is not None and time.monotonic() - self._since >= self.patience
