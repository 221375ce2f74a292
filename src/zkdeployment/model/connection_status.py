"""The state of the ZooKeeper connection as a value, for telemetry that must not depend on the adapters."""

from dataclasses import dataclass, field

#: Seconds without an answer after which a client had better not wait for one, too.
_SILENT = 1.0


@dataclass(frozen=True)
class ConnectionStatus:
    """Whether a server is connected, and how many connections and sessions this process has established.

    ``silent`` is for how many seconds requests have waited while no answer came. ``granted`` is how many seconds
    the session survives a silent client, as the server granted it; ``None`` before the first connection.
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
