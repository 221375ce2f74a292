"""The state of the ZooKeeper connection as a value, for telemetry that must not depend on the adapters."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ConnectionStatus:
    """Whether a server answers now, and how many connections and sessions this process has established."""

    connected: bool = False
    connections: int = 0
    sessions: int = 0
