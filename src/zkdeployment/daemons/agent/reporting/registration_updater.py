"""The host's node in ZooKeeper: creates it, recreates it in a new session, keeps its content up to date."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, ZkdeploymentError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.daemons.agent.agent_adapters import ReportingAdapters
    from zkdeployment.daemons.agent.reporting.local_host import LocalHost
    from zkdeployment.daemons.agent.reporting.zookeeper_retry import ZooKeeperRetry
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.deployment import Deployment
    from zkdeployment.model.host import Host

_PACE = 1.0  # seconds between two updates of the node with progress


class RegistrationUpdater:
    """Keeps the host's node equal to the local host.

    Methods wait until ZooKeeper answers unless their docstrings name an exception.
    """

    def __init__(self, local: LocalHost, adapters: ReportingAdapters, retry: ZooKeeperRetry) -> None:
        self._local = local
        self._adapters = adapters
        self._retry = retry
        self._written: tuple[Host, int | None] | None = None  # the node's content, and the session that wrote it
        self._written_at = 0.0

    def register(self) -> None:
        """Connect and create the host's node; adopt the version of a persistent node of zc.zkdeployment.

        No version is adopted from such a node if a deployment was interrupted on this host, or if the host has
        publishers: no publisher signed that the host has the content of that version.
        """
        self._retry.retry_until_reachable(self._adapters.connect)
        self._update_address()
        adopt = self._adapters.adopts_versions and not self._adapters.run.is_changing()
        adopted = self._retry.retry_until_reachable(
            lambda: self._adapters.fleet.register(self._local.host, adopt=adopt)
        )
        if adopted is not None:
            self._local.host = replace(self._local.host, version=adopted, sequence=0)
            self._record_adopted(adopted)
        self._written = self._local.host, self._adapters.session()

    def ensure_registered(self) -> None:
        """Bring the host's node up to date, and create it again if it was removed."""
        if not self._retry.retry_until_reachable(self._adapters.fleet.is_registered):
            self._written = None
        self.refresh()

    def refresh(self) -> None:
        """Bring the host's node up to date if its content or its session is outdated."""
        if self._written != (self._local.host, self._adapters.session()):
            self._retry.retry_until_reachable(self._write)

    def refresh_session(self) -> None:
        """Register again if the session that owned the host's node has ended."""
        if self._written is None or self._written[1] != self._adapters.session():
            self._retry.retry_until_reachable(self._write)

    def refresh_at_pace(self) -> None:
        """Update the host's node at most once a second; never waits for ZooKeeper or a host, and never fails.

        A script may be running, which has to be watched; the next step reports what goes wrong here.
        """
        if self._adapters.session() is None:
            return
        due = self._written is not None and self._adapters.clock.monotonic() - self._written_at >= _PACE
        if due and self._written != (self._local.host, self._adapters.session()):
            self._written_at = self._adapters.clock.monotonic()
            try:
                self._write(patient=False)
            except ZkdeploymentError as error:
                get_logger().debug("progress-not-shown", reason=str(error))

    def hand_on_work(self, pending: Collection[Deployment] = ()) -> None:
        """Hand on the locks that are kept for this host, except those of the services of ``pending``.

        Call this when the host has nothing left to do under these locks, or has to wait for another host.
        """
        fleet, identity = self._adapters.fleet, self._local.host.identity
        if self._retry.retry_until_reachable(lambda: fleet.hand_on_work(identity, pending)):
            get_logger().warning("work-handed-on")

    def note_written(self) -> None:
        """Note that a transaction of another kind has just written the host's node, too."""
        # In a new session the node did not belong to this agent and is still to be created.
        if self._written is not None and self._written[1] == self._adapters.session():
            self._written = self._local.host, self._written[1]

    def _write(self, *, patient: bool = True) -> None:
        self._update_address()
        self._adapters.fleet.update_host(self._local.host, patient=patient)
        self._written = self._local.host, self._adapters.session()
        self._written_at = self._adapters.clock.monotonic()

    def _update_address(self) -> None:
        """Take over the host's address; while there is no connection, the last one stays."""
        self._local.host = replace(self._local.host, address=self._adapters.address() or self._local.host.address)

    def _record_adopted(self, version: Revision) -> None:
        try:
            self._adapters.run.write_version(version)
        except HostFilesError as error:
            get_logger().warning("version-not-recorded", reason=str(error))
