"""The time since a server last answered, after which a client that is alive but cannot connect is replaced."""

from __future__ import annotations

import time


class Silence:
    """The time without answers, counted only while calls are made; too long after ``patience`` seconds."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.renewed = False
        self._since: float | None = None

    def begin(self) -> None:
        """Record a call without an answer."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Record an answer, which ends the silence."""
        self._since, self.renewed = None, False

    def renew(self) -> None:
        """Start the time again for a new client."""
        self._since, self.renewed = time.monotonic(), True

    @property
    def too_long(self) -> bool:
        """Whether the silence has lasted longer than ``patience``."""
        return self._since is not None and time.monotonic() - self._since >= self.patience
