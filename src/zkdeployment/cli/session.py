"""The session in which a verb reads or changes the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers

#: Seconds without a sign of life after which ZooKeeper ends the session of a verb.
_TIMEOUT = 10.0


def verb_session(servers: Servers) -> Session:
    """Return a session, which is opened as a context manager; that raises ``UnreachableError``."""
    return Session(servers, session_timeout=_TIMEOUT)
