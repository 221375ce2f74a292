"""The connection to ZooKeeper as a value, for those who only tell of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """Whether a server answers, how often a connection was made, and in how many sessions."""

    connected: bool = False
    connections: int = 0
    sessions: int = 0
