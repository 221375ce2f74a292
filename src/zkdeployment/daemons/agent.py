"""The host agent: read the cluster version, plan, act, record. A watch only wakes it."""

from __future__ import annotations

import contextlib
import random
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.daemons.executor import Executor
from zkdeployment.daemons.failpoints import reach
from zkdeployment.daemons.stocktaking import Stocktaking
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import (
    ConflictError,
    DeniedError,
    HostFilesError,
    LockLostError,
    RefusedError,
    RestartError,
    ShutdownError,
    UnreachableError,
    WentBackError,
)
from zkdeployment.log import bound, get_logger
from zkdeployment.model.cluster import INITIAL, ClusterState
from zkdeployment.model.plan import Plan
from zkdeployment.planning.planner import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.config.settings import Settings
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.doors import Doors
    from zkdeployment.daemons.presence import Presence
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Identity

_RECONCILE = 300.0  # seconds: a look at the cluster version even when no watch fired
_SETTLE = 0.05  # seconds before the cluster is read again when it changed under our eyes


class Outcome(Enum):
    """How one look at the cluster version ended."""

    DONE = "done"  # the host is at the cluster version
    HELD = "held"  # there is nothing that may start
    FAILED = "failed"  # the fleet was stopped
    MOVED = "moved"  # the cluster version changed on the way, or the agent was asked to end: look again


class _FailedError(Exception):
    """A failure that was reported; the message is the step."""


#: These say that the world changed, not that a deployment failed.
_NO_FAILURES = (ConflictError, LockLostError, RestartError, ShutdownError, UnreachableError, _FailedError)


class Agent:
    """One host's agent. ``after`` is the command to run after a deployment, or empty."""

    def __init__(self, doors: Doors, presence: Presence, control: Control, *, after: Sequence[str] = ()) -> None:
        self._doors = doors
        self._presence = presence
        self._control = control
        self._after = after
        self._stock = Stocktaking(doors, presence.host.identity)
        self._watermark = Watermark(doors.files)
        self._held: ClusterState | None = None
        self._spread = 0.0
        self._followed = False

    def run(self, reread: Callable[[], Settings | None] = lambda: None) -> Settings | None:
        """Follow the cluster version until asked to end.

        Asked to reload between deployments, it calls ``reread`` and ends with the settings for the next agent if
        there are any.

        Raises ``RefusedError`` if another agent has this host's id or name, ``RestartError`` if the connection to
        ZooKeeper cannot be mended, or when the program was upgraded: between two deployments, so that one is not
        done half by the old program.
        """
        with self._unregistering():
            self._register()
            self._doors.fleet.watch_cluster(self._control.wake)
            self._doors.notifier.ready()
            while not self._control.stopping:
                if (settings := self._reload(reread)) is not None:
                    return settings
                if self._doors.outdated():
                    raise RestartError("zkdeployment was upgraded; start again with what is there now")
                if self._turn() is Outcome.MOVED or self._doors.outdated():
                    self._rest(_SETTLE)
                # Ten thousand hosts need not look at one moment: neither now and then, nor when all are woken.
                elif self._rest(_RECONCILE * random.uniform(0.8, 1.2)):  # noqa: S311  not a secret
                    self._hold_back(random.uniform(0, self._spread))  # noqa: S311
        return None

    def run_once(self) -> Outcome:
        """Bring this host to the cluster version and end.

        Raises ``UnreachableError`` at once when ZooKeeper cannot be reached.
        """
        self._doors.connect()
        outcome = Outcome.MOVED
        with self._unregistering():
            self._register()
            while outcome is Outcome.MOVED:
                self._control.check()
                outcome = self._turn()
                if outcome is Outcome.MOVED:
                    self._control.wait(_SETTLE)
        return outcome

    def _reload(self, reread: Callable[[], Settings | None]) -> Settings | None:
        if not self._control.take_reload():
            return None
        self._doors.notifier.reloading()
        settings = reread()
        self._followed = settings is not None
        if not self._followed:
            self._doors.notifier.ready()
        return settings

    def _hold_back(self, seconds: float) -> None:
        """Wait, whatever happens but for being asked to end."""
        end = self._doors.clock.monotonic() + seconds
        while not self._control.stopping and (left := end - self._doors.clock.monotonic()) > 0:
            self._rest(left)

    def _rest(self, seconds: float) -> bool:
        """Wait until something happens, for some seconds at most, and tell the watchdog meanwhile.

        Says whether something happened.
        """
        end = self._doors.clock.monotonic() + seconds
        woken = False
        while not woken and (left := end - self._doors.clock.monotonic()) > 0:
            self._doors.notifier.watchdog()
            woken = self._control.wait(min(left, self._doors.notifier.pace))
        self._doors.notifier.watchdog()
        return woken

    def _register(self) -> None:
        self._presence.register()
        get_logger().info("registered")
        self._doors.scripts.wait_for_predecessor()
        self._presence.insist(self._doors.fleet.clear_remains)

    @contextlib.contextmanager
    def _unregistering(self) -> Iterator[None]:
        """Take the host's node away in the end; to be asked to end is no error."""
        try:
            yield
        except ShutdownError as error:
            get_logger().info("ending", reason=str(error))
        finally:
            if not self._followed:  # by the next agent of this process
                self._doors.notifier.stopping()
            with contextlib.suppress(UnreachableError, DeniedError, RestartError):
                self._doors.fleet.unregister()
            self._presence.tell(up=self._followed)

    def _turn(self) -> Outcome:
        """Look at the cluster version once and do what it asks for."""
        try:
            self._presence.refresh()
            self._stock.catch_up()
            self._look_forward()
            cluster = self._presence.read_cluster()
            self._spread = 0.0 if cluster is None else cluster.spread
            revision = None if cluster is None else cluster.revision
            if cluster is None or revision is None:
                return self._hold(cluster)
            self._held = None
            if revision == self._presence.host.version:
                self._settle()
                return Outcome.DONE
            with bound(revision=revision):
                return self._deploy(revision)
        except WentBackError as error:
            self._presence.refuse(str(error))
            return Outcome.HELD
        except (ConflictError, UnreachableError) as error:
            get_logger().info("start-over", reason=str(error))
            return Outcome.MOVED
        finally:
            self._presence.tell()

    def _look_forward(self) -> None:
        """Raise ``WentBackError`` if ZooKeeper forgot what was published; else remember what is, before acting."""
        published = self._presence.insist(self._doors.fleet.published)
        self._watermark.check(published)
        self._watermark.note(published)
        self._presence.relent()

    def _settle(self) -> None:
        try:
            self._presence.settle()
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))

    def _hold(self, cluster: Cluster | None) -> Outcome:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        if state is not self._held:
            self._held = state
            get_logger().warning("nothing-starts", cluster=state.value)
            self._doors.notifier.status(f"nothing starts: the cluster is {state.value}")
        return Outcome.HELD

    def _deploy(self, revision: Revision) -> Outcome:
        deployment = _Deployment(self._doors, self._presence, self._control, revision)
        get_logger().info("deployment-begins", had=self._presence.host.version)
        self._presence.begin(revision)
        begun = self._doors.clock.monotonic()
        try:
            if revision != INITIAL:  # nothing was published yet: nothing is to be done or undone
                self._execute(deployment, revision)
            reach("before:record")
            self._stock.record(revision, self._doors.clock.monotonic() - begun)
            with deployment.reporting("record the version"):
                self._presence.succeed(revision)
            reach("after:record")
        except _FailedError as failed:
            self._stock.take()
            error = f"{failed}: {self._presence.host.error}"
            self._stock.record(revision, self._doors.clock.monotonic() - begun, error)
            return Outcome.FAILED
        get_logger().info("deployment-done")
        return Outcome.DONE

    def _execute(self, deployment: _Deployment, revision: Revision) -> None:
        todo = deployment.plan()
        executor = Executor(self._doors, self._presence.host.identity, deployment, revision)
        try:
            executor.execute(todo)
        except ConflictError as moved:
            get_logger().warning("deployment-abandoned", reason=str(moved))
            self._stock.take()
            cluster = self._presence.read_cluster()
            if cluster is None or cluster.revision is None:
                self._run_after(deployment, revision, len(todo.steps))
            self._presence.abandon()
            raise
        if todo.steps:
            self._stock.take()  # before the host counts as done: plans made then are to be exact
        self._run_after(deployment, revision, len(todo.steps))

    def _run_after(self, deployment: _Deployment, revision: Revision, steps: int) -> None:
        if not self._after:
            return
        deployment.show("after", steps, steps)
        reach("before:after")
        with deployment.reporting("after"):
            self._doors.scripts.run(self._after, name="after", revision=revision)
        reach("after:after")


class _Deployment:
    """One deployment of one revision: the ``Supervisor`` of its executor."""

    def __init__(self, doors: Doors, presence: Presence, control: Control, revision: Revision) -> None:
        self._doors = doors
        self._presence = presence
        self._control = control
        self._revision = revision

    def plan(self) -> Plan:
        """Read what is wanted and what is there, and return what is to be done."""
        with self.reporting("plan"):
            self._presence.show(self._revision, "plan", 0, 0)
            reach("before:plan")
            return read_plan(self._doors, self._presence.host.identity, self._revision)

    def check(self, *, midway: bool = False) -> None:
        """Raise ``ConflictError`` unless the revision is still wanted, ``ShutdownError`` to end.

        ``midway`` is what has to be finished even if another host stopped the fleet. Waits for ZooKeeper, and is
        registered when it returns.
        """
        self._control.check()
        cluster = self._presence.read_cluster()
        self._presence.refresh_session()
        if midway and cluster is not None and cluster.state is ClusterState.STOPPED:
            return
        if cluster is None or cluster.revision != self._revision:
            now = "gone" if cluster is None else f"{cluster.version} ({cluster.state.value})"
            raise ConflictError(f"the cluster version is not {self._revision} any more, it is {now}")

    def show(self, step: str, done: int, total: int) -> None:
        """Show the step under way."""
        with self.reporting(step):
            self._presence.show(self._revision, step, done, total)

    @contextlib.contextmanager
    def reporting(self, step: str) -> Iterator[None]:
        """Stop the fleet for what fails inside, before anything that was entered earlier is left."""
        with bound(step=step):
            try:
                yield
            except _NO_FAILURES:
                raise
            except Exception as error:  # a bug of ours, too, must not spread over the fleet
                self._presence.fail(self._revision, step, error)
                raise _FailedError(step) from error


def read_plan(doors: Doors, identity: Identity, revision: Revision) -> Plan:
    """Return what this host has to do to get to a revision, once interrupted changes of software are undone."""
    wanted = doors.fleet.wanted(identity, revision)
    with doors.notifier.uninterrupted():
        doors.packages.recover()
        doors.checkouts.recover()
    return plan(wanted.assignments, doors.files.inventory(doors.packages.installed()), wanted.controller)


def preview(doors: Doors, identity: Identity) -> tuple[Revision, Plan]:
    """Return the cluster version and what an agent would do to get this host there; changes nothing.

    Raises ``RefusedError`` when nothing may start.
    """
    Watermark(doors.files).check(doors.fleet.published())
    cluster = doors.fleet.cluster()
    if cluster is None or cluster.revision is None:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        raise RefusedError(f"nothing starts: the cluster is {state.value}")
    revision = cluster.revision
    if revision in {INITIAL, doors.files.read_version()}:
        return revision, Plan()
    wanted = doors.fleet.wanted(identity, revision)
    return revision, plan(wanted.assignments, doors.files.inventory(doors.packages.installed()), wanted.controller)
