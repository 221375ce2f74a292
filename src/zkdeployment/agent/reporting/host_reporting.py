"""Reports a host's state: registration, progress, refusals, the inventory and the results of deployments.

The modules ``failures`` and ``telemetry`` report failures and metrics.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from zkdeployment.agent.reporting.failures import FailureReporter
from zkdeployment.agent.rules.grants import needs_grant
from zkdeployment.agent.rules.system import host_system
from zkdeployment.base.deployment import Deployment, DeploymentFailure, DeploymentResult, HostResult
from zkdeployment.base.errors import (
    DeniedError,
    HostFilesError,
    ShutdownError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.base.cluster import Cluster, Mandate, Revision
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.host import Host
    from zkdeployment.base.publication import Published
    from zkdeployment.base.stop import LackingGroup
    from zkdeployment.base.system import HostSystem


class AgentEvents:
    """Receives the events of one agent without recording them, for an agent without metrics."""

    def observe(self, cluster: Cluster | None) -> None:
        """Record the cluster version that was just read."""

    def begin(self) -> None:
        """Record the start of a deployment."""

    def end(self, result: DeploymentResult) -> None:
        """Record the outcome of the deployment in progress, if there is one."""

    def beat(self, host: Host) -> None:
        """Write all metrics unless they were written recently."""

    def write(self, host: Host, *, up: bool = True) -> None:
        """Write all metrics; ``up`` is whether the agent continues."""


T = TypeVar("T")

_UNREACHABLE_PAUSE = 0.5  # seconds between two attempts to reach ZooKeeper
_DENIED_PAUSE = 5.0  # the same after ZooKeeper denied access, which only people correct, later
_LOG_EVERY = 120  # attempts between two log lines
_PACE = 1.0  # seconds between two updates of the node with progress


class HostPresence:
    """Holds the state ``host``, keeps the host's node equal to it, and shows that the agent is alive.

    Only the agent's thread uses it. Methods wait until ZooKeeper answers unless their docstrings
    name an exception.
    """

    def __init__(self, host: Host, adapters: AgentAdapters, control: Control, telemetry: AgentEvents) -> None:
        self.host = host
        self.adapters = adapters
        self.control = control
        self.telemetry = telemetry
        self._written: tuple[Host, int | None] | None = None  # the node's content, and the session that wrote it
        self._written_at = 0.0

    def end_deployment(self) -> None:
        """Clear the deployment in progress."""
        self.host = replace(self.host, deploying=None, step=None, steps=None)

    def set_error(self, error: str | None) -> None:
        """Replace the host's error and drop the output of a script; ``None`` also clears the failure."""
        self.host = replace(self.host, error=error, output=None)
        if error is None:
            self.host = replace(self.host, failed=None)

    def retry_until_reachable(self, call: Callable[[], T]) -> T:
        """Repeat a call until ZooKeeper answers and return its result.

        Raises ``ShutdownError`` if this process is asked to end while ZooKeeper does not answer.
        """
        return self._retry(call, lambda: self.control.stopping)

    def retry_until_overdue(self, call: Callable[[], T]) -> T:
        """Like ``retry_until_reachable``, but use the whole grace period of a shutdown before giving up."""
        return self._retry(call, lambda: self.control.overdue)

    def read_cluster(self, changed: Callable[[], None] | None = None) -> Cluster | None:
        """Return the cluster version from ZooKeeper, once ZooKeeper answers.

        ``changed`` (which must not block) is called once, when the cluster version may have changed.
        """
        cluster = self.retry_until_reachable(lambda: self.adapters.fleet.cluster(self.host.identity, changed))
        self.telemetry.observe(cluster)
        return cluster

    def mandate(self, cluster: Cluster | None) -> Mandate | None:
        """Return the mandate of this host in a cluster; ``None`` if the host may start nothing."""
        if cluster is None:
            return None
        host_id = self.host.identity.id
        mandate = cluster.mandate(host_id)
        # A maintenance is not signed, so a host with publishers undeploys nothing for it.
        return cluster.drain(host_id) if mandate is None and self.adapters.trusted is None else mandate

    def needs_grant(
        self, mandate: Mandate, cluster: Cluster | None, published: Published, *, follows_lease: bool
    ) -> bool:
        """Whether this host needs a grant of the rollout of the last publication."""
        lacking_since = (self.adapters.run.version.read().completed or 0) if self.host.lacking else 0
        return needs_grant(mandate, cluster, published, follows_lease=follows_lease, lacking_since=lacking_since)

    def _retry(self, call: Callable[[], T], give_up: Callable[[], bool]) -> T:
        attempt = 0
        while True:
            attempt += 1
            try:
                result = call()
            except (UnreachableError, DeniedError) as error:
                if give_up():
                    raise ShutdownError(f"asked to end while ZooKeeper did not answer ({error})") from error
                self._show_waiting(attempt, str(error))
                pause = _DENIED_PAUSE if isinstance(error, DeniedError) else _UNREACHABLE_PAUSE
            else:
                if attempt > 1:
                    self._write_status(self.host.step)
                return result
            time.sleep(pause)

    def _show_waiting(self, attempt: int, reason: str) -> None:
        self.adapters.notifier.watchdog()
        self.telemetry.beat(self.host)
        if attempt == 1:
            self._write_status("wait for ZooKeeper")
        if attempt % _LOG_EVERY == 1:
            get_logger().warning("waiting-for-zookeeper", reason=reason)
            self.adapters.notifier.ready()  # an agent without ZooKeeper is up and must not delay the boot
            self.adapters.notifier.status(f"waiting for ZooKeeper: {reason}")

    def _write_status(self, step: str | None) -> None:
        """Write the cause of a deployment's wait, or that it continues, with the time, into the status file."""
        deploying = self.host.deploying
        if deploying is not None and step is not None:
            with contextlib.suppress(HostFilesError):  # the next step fails in the same way and reports it
                self.adapters.run.write_status(deploying, step)

    def register(self) -> None:
        """Connect and create the host's node; adopt the version of a persistent node of zc.zkdeployment.

        No version is adopted from such a node if a deployment was interrupted on this host, or if the host has
        publishers: no publisher signed that the host has the content of that version.
        """
        self.retry_until_reachable(self.adapters.session.open)
        self._update_address()
        adopt = self.adapters.trusted is None and not self.adapters.run.version.read().is_changing
        adopted = self.retry_until_reachable(lambda: self.adapters.fleet.register(self.host, adopt=adopt))
        if adopted is not None:
            self.host = replace(self.host, version=adopted, sequence=0)
            self._record_adopted(adopted)
        self._written = self.host, self.adapters.session.id

    def ensure_registered(self) -> None:
        """Bring the host's node up to date, and create it again if it was removed."""
        if not self.retry_until_reachable(self.adapters.fleet.is_registered):
            self._written = None
        self.refresh()

    def refresh(self) -> None:
        """Bring the host's node up to date if its content or its session is outdated."""
        if self._written != (self.host, self.adapters.session.id):
            self.retry_until_reachable(self._write)

    def refresh_session(self) -> None:
        """Register again if the session that owned the host's node has ended."""
        if self._written is None or self._written[1] != self.adapters.session.id:
            self.retry_until_reachable(self._write)

    def refresh_at_pace(self) -> None:
        """Update the host's node at most once a second; never waits for ZooKeeper or a host, and never fails.

        A script may be running, which the agent has to watch; an error here is left to the next step.
        """
        if self.adapters.session.id is None:
            return
        due = self._written is not None and self.adapters.clock.monotonic() - self._written_at >= _PACE
        if due and self._written != (self.host, self.adapters.session.id):
            self._written_at = self.adapters.clock.monotonic()
            try:
                self._write(patient=False)
            except ZkdeploymentError as error:
                get_logger().debug("progress-not-shown", reason=str(error))

    def hand_on_work(self, pending: Collection[Deployment] = ()) -> None:
        """Release the locks that are kept for this host, except those of the services of ``pending``.

        Call this when the host has finished its work under these locks, or has to wait for another host.
        """
        fleet, identity = self.adapters.fleet, self.host.identity
        if self.retry_until_reachable(lambda: fleet.hand_on_work(identity, pending)):
            get_logger().warning("work-handed-on")

    def note_written(self) -> None:
        """Note that a transaction of another kind has just written the host's node, too."""
        # In a new session the node did not belong to this agent and is still to be created.
        if self._written is not None and self._written[1] == self.adapters.session.id:
            self._written = self.host, self._written[1]

    def _write(self, *, patient: bool = True) -> None:
        self._update_address()
        self.adapters.fleet.update_host(self.host, patient=patient)
        self._written = self.host, self.adapters.session.id
        self._written_at = self.adapters.clock.monotonic()

    def _update_address(self) -> None:
        """Take over the host's address; while there is no connection, the last one stays."""
        self.host = replace(
            self.host,
            address=self.adapters.address or self.adapters.session.local_address or self.host.address,
        )

    def _record_adopted(self, version: Revision) -> None:
        try:
            self.adapters.run.version.write(version)
        except HostFilesError as error:
            get_logger().warning("version-not-recorded", reason=str(error))

    def beat(self) -> None:
        """Notify the supervisor; write metrics and the host's node if they are due; never wait for ZooKeeper."""
        self.adapters.notifier.watchdog()
        self.telemetry.beat(self.host)
        self.refresh_at_pace()

    def tick(self) -> None:
        """Beat while a script or a package transaction runs.

        Raises ``ShutdownError`` if the agent was asked to end and the grace period has passed.
        """
        self.beat()
        if self.control.overdue:
            raise ShutdownError("asked to end, and the step in progress did not end in time")

    def write_metrics(self, *, up: bool = True) -> None:
        """Write all metrics now; ``up``: whether the agent continues."""
        self.telemetry.write(self.host, up=up)


class RefusalCause(Enum):
    """The facts that a host could not read, so that it starts no deployment."""

    PUBLICATION = "publication"
    DRAIN = "drain"


class DeploymentStatus:
    """Updates the status file, the host's version on disk, its node and the metrics during a deployment.

    Methods wait until ZooKeeper answers unless their docstrings name an exception.
    """

    def __init__(self, presence: HostPresence) -> None:
        self._presence = presence
        self._run = presence.adapters.run
        self._refusals: dict[RefusalCause, str] = {}

    def begin(self, revision: Revision) -> None:
        """Show that a deployment begins and clear the error of the last one."""
        self._presence.telemetry.begin()
        self._presence.set_error(None)
        self._presence.host = replace(self._presence.host, deploying=str(revision), step=None, steps=None)
        self._presence.refresh()

    @contextlib.contextmanager
    def awaiting_script(self, revision: str, name: str) -> Iterator[None]:
        """Show, during the block, that the host waits for a script that the previous agent began."""
        self._presence.host = replace(self._presence.host, deploying=revision, step=None, steps=None)
        try:
            self.show(revision, f"wait for {name}, which the previous agent began", 0, 0)
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))
        self._presence.refresh()
        try:
            yield
        finally:
            self._presence.end_deployment()

    def restart_timer(self) -> None:
        """Measure the deployment's duration from now on, after a wait that does not count."""
        self._presence.telemetry.begin()

    def give_up_version(self) -> None:
        """Record on disk, then in ZooKeeper, that the host has no version until a deployment succeeded."""
        host = self._presence.host
        self._run.version.clear(host.version)
        former = host.former if host.version is None else host.version
        self._presence.host = replace(host, version=None, sequence=0, former=former)
        self._presence.refresh()

    def show(self, revision: Revision, step: str, done: int, total: int) -> bool:
        """Show the current step: in the status file at once, in ZooKeeper at most once a second.

        Returns whether it differs from the step shown before; an unchanged step keeps its time in the status file.
        Never waits for ZooKeeper.
        """
        host = self._presence.host
        changed = (host.step, host.steps) != (step, (done, total))
        if changed:
            self._run.write_status(revision, step)
            self._presence.adapters.notifier.status(f"{revision}: {step} ({done} of {total} steps done)")
            self._presence.host = replace(host, step=step, steps=(done, total))
        self._presence.beat()
        return changed

    def lack(self, lacking: Mapping[str, LackingGroup]) -> None:
        """Record on disk the services that the host lacks because of stopped groups, before its version."""
        self._run.lacking.save(dict(lacking))
        self._presence.host = replace(self._presence.host, lacking=dict(lacking))

    def succeed(
        self, revision: Revision, sequence: int, lacking: Mapping[str, LackingGroup] | None = None
    ) -> None:
        """Record that the host is at ``revision``: in ZooKeeper, in ``host_version``, in the status file.

        ``sequence`` is that of the publication that the host completed; 0 for a version that was set by hand.
        ``lacking`` are the services that the host lacks because groups are stopped (``None``: the same as before).
        Raises ``HostFilesError`` if a file cannot be written; then the local host keeps its former version, so
        that the deployment is repeated.
        """
        if lacking is not None and lacking != self._presence.host.lacking:
            self.lack(lacking)
        before = self._presence.host
        completed = None if before.lacking else sequence or None
        self._presence.set_error(None)
        self._presence.host = replace(
            self._presence.host, version=revision, sequence=sequence, completed=completed, former=None
        )
        self._presence.end_deployment()
        self._presence.refresh()
        try:
            self._run.version.write(revision, sequence)
            self._run.write_status(revision, "done")
        except HostFilesError:
            self._presence.host = replace(
                self._presence.host,
                version=before.version,
                sequence=before.sequence,
                completed=before.completed,
                former=before.former,
            )
            raise
        self._presence.telemetry.end(DeploymentResult.DONE)
        self._presence.adapters.notifier.status(f"{revision}: done")

    def abandon(self) -> None:
        """Note that no deployment is in progress; the host's node is updated later."""
        self._presence.telemetry.end(DeploymentResult.ABANDONED)
        self._presence.end_deployment()

    def settle(self) -> None:
        """Show that there is nothing to do at the host's version."""
        self._presence.set_error(None)
        self.abandon()
        self._presence.refresh()
        if self._run.read_status() != "done":
            self._run.write_status(self._presence.host.version, "done")

    def refuse(self, reason: str, cause: RefusalCause) -> None:
        """Show, until ``clear_refusal``, why this host starts no deployment; log each reason once."""
        if self._presence.host.error != reason:
            self.stay_failed(reason)
            self._refusals[cause] = reason

    def stay_failed(self, reason: str) -> None:
        """Show the error that excludes this host until its next deployment; log each reason once."""
        if self._presence.host.error == reason:
            return
        get_logger().error("deployment-refused", reason=reason)
        self._presence.set_error(reason)
        self.abandon()
        try:
            self._run.write_status(self._presence.host.version, "error")
        except HostFilesError as error:
            get_logger().error("status-not-written", error=str(error))
        self._presence.adapters.notifier.status(reason)
        self._presence.refresh()

    def clear_refusal(self, cause: RefusalCause) -> None:
        """Clear the error that the last ``refuse`` for this cause showed, if it is still shown."""
        shown = self._refusals.pop(cause, None)
        if shown is not None and self._presence.host.error == shown:
            self._presence.set_error(None)
            self._presence.refresh()


class InventoryReporter:
    """Publishes the inventory and the results of one host.

    Errors are logged and never raised; ``catch_up`` publishes an inventory that could not be published before.
    """

    def __init__(self, presence: HostPresence) -> None:
        self._presence = presence
        self._adapters = presence.adapters
        self._published: KnownHost | None = None
        self._session: int | None = None
        self._system: HostSystem | None = None

    def publish(self) -> None:
        """Read the host's inventory and its operating system, and publish them if they changed."""

        def read() -> KnownHost:
            self._system = self._read_system()
            return self._known(self._adapters.inventory())

        self._write(read)

    def _read_system(self) -> HostSystem | None:
        """Return the operating system of the host; before its first update, without a start of dnf."""
        adapters = self._adapters
        try:
            state = adapters.system.state()
            facts = adapters.system.facts(adapters.packages, asks_dnf=state.updated is not None)
        except HostFilesError as error:  # a host without a system node needs no such report
            get_logger().warning("system-not-reported", reason=str(error))
            return self._system
        return host_system(state, facts, self._system, adapters.clock.now())

    def catch_up(self) -> None:
        """Publish the inventory if the last attempt failed, before the first attempt, and in a new session.

        ZooKeeper may have lost the node together with the session, for example because its data were wiped.
        """
        published = self._published
        if published is None:
            self.publish()
        elif self._session != self._adapters.session.id:
            self._write(lambda: published)

    def refresh(self) -> None:
        """Publish the inventory if markers or other files of this agent changed.

        Without such a change, no packages are read, and no request is sent to ZooKeeper.
        """
        published = self._published
        if published is None or published.inventory is None or self._differs(published, published.inventory):
            self.publish()

    def _write(self, read: Callable[[], KnownHost]) -> None:
        self._published, self._session = None, self._adapters.session.id
        try:
            known = read()
            self._adapters.fleet.publish_inventory(known)
        except ZkdeploymentError as error:
            get_logger().warning("inventory-not-published", reason=str(error))
            return
        self._published = known

    def _differs(self, published: KnownHost, inventory: Inventory) -> bool:
        try:
            found = self._adapters.files.inventory(inventory.packages)
        except HostFilesError as error:
            get_logger().warning("markers-unreadable", reason=str(error))
            return False
        known = self._known(replace(found, lost_scripts=inventory.lost_scripts, installonly=inventory.installonly))
        return replace(known, time=published.time) != published

    def record_result(
        self,
        revision: Revision,
        seconds: float,
        error: str | None = None,
        failed: DeploymentFailure | None = None,
    ) -> None:
        """Record the outcome of a deployment in the history: its duration, and its failure if it failed."""
        identity = self._presence.host.identity
        result = HostResult(identity.id, identity.name, self._adapters.clock.now(), seconds, error, failed)
        try:
            self._adapters.fleet.record_result(revision, result)
        except ZkdeploymentError as unrecorded:
            get_logger().warning("history-not-written", reason=str(unrecorded))

    def _known(self, inventory: Inventory) -> KnownHost:
        host = self._presence.host
        return KnownHost(
            host.identity,
            inventory,
            self._adapters.clock.now(),
            tags=host.tags,
            labels=host.labels,
            rack=host.rack,
            address=host.address,
            completed=host.completed,
            idle_role=host.idle_role,
            system=self._system,
        )


class HostReporting(HostPresence):
    """The presence of one host, and the objects that report its deployments, inventory and failures."""

    def __init__(self, host: Host, adapters: AgentAdapters, control: Control, telemetry: AgentEvents) -> None:
        super().__init__(host, adapters, control, telemetry)
        self.deployment = DeploymentStatus(self)
        self.inventory = InventoryReporter(self)
        self.failures = FailureReporter(self)
