"""The state of the connection of a process to ZooKeeper."""

from __future__ import annotations

from dataclasses import field

from zkdeployment.base.values import dataclass

#: Seconds without an answer after which further clients should not wait, either.
_SILENT = 1.0


@dataclass(frozen=True)
class ConnectionStatus:
    """Whether a server is connected, and how many connections and sessions this process has established.

    ``silent`` is the number of seconds for which requests have waited without any answer. ``granted`` is the
    session timeout that the server granted, in seconds; ``None`` before the first connection.
    """

    connected: bool = False
    connections: int = 0
    sessions: int = 0
    silent: float = 0.0
    granted: float | None = field(default=None, compare=False)

    @property
    def answers(self) -> bool:
        """Whether the server answers, as far as this process knows."""
        return self.connected and self.silent < _SILENT
