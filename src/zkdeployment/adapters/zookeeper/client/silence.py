"""How long no server has answered: a client that lives, but never gets through, is not waited for without end."""

from __future__ import annotations

import time


class Silence:
    """A time without answers; it is too long after ``patience`` seconds. Nobody asks, nobody counts."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.renewed = False
        self._since: float | None = None

    def begin(self) -> None:
        """Note that a call had no answer."""
        if self._since is None:
            self._since = time.monotonic()

    def end(self) -> None:
        """Note an answer: the next silence is another one."""
        self._since, self.renewed = None, False

    def renew(self) -> None:
        """Note that a new client tries: it has as long as the last one had."""
        self._since, self.renewed = time.monotonic(), True

    @property
    def too_long(self) -> bool:
        """Whether it has lasted longer than one waits."""
        return self._since is not None and time.monotonic() - self._since >= self.patience
