"""The use of pools, from the records of all sessions; a process reads the record of each ended session once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.pools.rules.tenant_session import TenantSession
from zkdeployment.pools.rules.usage import session_use
from zkdeployment.pools.store.store import EndedRecords, decode_record
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.pools.rules.usage import SessionUse
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


class ZooKeeperSessionUses:
    """The uses through one session with ZooKeeper; all methods may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ended = EndedRecords(session, paths.POOL_SESSIONS_ENDED)
        self._known: dict[str, SessionUse | None] = {}  # the uses by ended sessions, whose records never change
        self._lock = threading.Lock()

    def read(self) -> Sequence[SessionUse]:
        """Return the use by each active session, and by each ended one whose record is kept, once.

        Raises ``UnreachableError``.
        """
        # The active sessions come first, so a session that ends in between is read twice, never missed.
        names = self._session.children(paths.POOL_SESSIONS) or ()
        found = [f"{paths.POOL_SESSIONS}/{name}" for name in names]
        nodes = zip(found, self._session.get_many(found), strict=True)
        active = [_use(path, node) for path, node in nodes if node is not None]
        uses = {use.session: use for use in (*active, *self._read_ended()) if use is not None}
        return tuple(uses.values())

    def _read_ended(self) -> Sequence[SessionUse | None]:
        """Return the uses by ended sessions; ``None`` stands for a damaged record."""
        with self._lock:
            listed = self._ended.paths()
            known = {path: self._known[path] for path in listed if path in self._known}
            new = [path for path in listed if path not in known]
            nodes = zip(new, self._session.get_many(new), strict=True)
            self._known = known | {path: _use(path, node) for path, node in nodes if node is not None}
            return tuple(self._known.values())


def _use(path: str, node: Node) -> SessionUse | None:
    session = decode_record(path, node, TenantSession)
    return None if session is None else session_use(session)
