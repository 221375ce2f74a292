"""The contents of a configured ZooKeeper, for hover and completion; an editor never waits for ZooKeeper."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.editors.rules.context import Live
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.zookeeper.session import Session, verb_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.zookeeper.servers import Servers

#: Seconds between two reads of the hosts, and between two attempts to connect.
_INTERVAL = 30.0


class PublishedFleet:
    """The known hosts, read in the background, and the published properties of nodes.

    ``report`` receives a message when ZooKeeper becomes unreachable; it is called in another thread.
    """

    def __init__(self, servers: Servers, report: Callable[[str], None]) -> None:
        self._servers = servers
        self._report = report
        self._session: Session | None = None
        self._live = Live()
        self._thread = threading.Thread(target=self._follow, name="published", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def live(self, path: str | None = None) -> Live:
        """Return the hosts that were read last, with the published properties of the node at ``path``.

        The node is missing if it does not exist, or if ZooKeeper does not answer.
        """
        session = self._session
        if session is None or path is None:
            return self._live
        try:
            node = session.get(path)
        except ZkdeploymentError:
            return self._live
        return Live(self._live.hosts, {} if node is None else {path: node.properties})

    def _follow(self) -> None:
        reported = False
        while True:
            try:
                with verb_session(self._servers) as session:
                    reported = False
                    self._read(session)
            except ZkdeploymentError as error:
                if not reported:
                    self._report(f"published values and hosts are not shown: {error}")
                reported = True
            finally:
                self._session = None
            time.sleep(_INTERVAL)

    def _read(self, session: Session) -> None:
        fleet = ZooKeeperFleetReader(session)
        while True:
            self._live = Live(fleet.known_hosts())
            self._session = session
            time.sleep(_INTERVAL)
