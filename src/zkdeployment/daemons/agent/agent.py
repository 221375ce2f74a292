"""The host agent: read the cluster version, plan, act, record. A watch only wakes it."""

from __future__ import annotations

import contextlib
import random
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.daemons.agent.executor import Executor
from zkdeployment.daemons.agent.host_reporter import LOOK, reason
from zkdeployment.daemons.agent.inventory_reporter import InventoryReporter
from zkdeployment.daemons.agent.rollout_gate import RolloutGate
from zkdeployment.daemons.agent.supervision import FailedError, Supervision, make_plan
from zkdeployment.daemons.backoff import Backoff
from zkdeployment.daemons.failpoints import reach
from zkdeployment.daemons.watermark import Watermark
from zkdeployment.errors import (
    ConflictError,
    DeniedError,
    HostFilesError,
    RefusedError,
    RestartError,
    ShutdownError,
    StalePublicationError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.log import bound, get_logger
from zkdeployment.model.cluster import INITIAL, ClusterState
from zkdeployment.model.plan import Plan
from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.config.settings import Settings
    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.agent.host_reporter import HostReporter
    from zkdeployment.daemons.control import Control
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.publication import Published

_SETTLE = 0.05  # seconds before the cluster is read again when it changed under our eyes


class Outcome(Enum):
    """How one look at the cluster version ended."""

    DONE = "done"  # the host is at the cluster version
    HELD = "held"  # there is nothing that may start
    FAILED = "failed"  # the fleet was stopped, or goes on by its rollout strategy without this host
    MOVED = "moved"  # the cluster version changed on the way, or the agent was asked to end: look again


class Agent:
    """One host's agent. ``after`` is the command to run after a deployment, or empty."""

    def __init__(
        self, adapters: AgentAdapters, reporter: HostReporter, control: Control, *, after: Sequence[str] = ()
    ) -> None:
        self._adapters = adapters
        self._reporter = reporter
        self._control = control
        self._after = after
        self._stock = InventoryReporter(adapters, reporter.host)
        self._watermark = Watermark(adapters.files)
        self._held: ClusterState | None = None
        self._spread = 0.0
        self._backoff = Backoff(first=5.0, most=60.0)
        self._following = False
        self._followed = False

    def run(self, reread: Callable[[], Settings | None] = lambda: None) -> Settings | None:
        """Follow the cluster version until asked to end.

        Asked to reload between deployments, it calls ``reread`` and ends with the settings for the next agent if
        there are any.

        Raises ``RefusedError`` if another agent has this host's id or name, ``RestartError`` if the connection to
        ZooKeeper cannot be mended, or when the program was upgraded: between two deployments, so that one is not
        done half by the old program.
        """
        self._following = True
        with self._unregistering():
            self._register()
            self._adapters.fleet.watch_cluster(self._control.wake)
            self._adapters.notifier.ready()
            while not self._control.stopping:
                if (settings := self._reload(reread)) is not None:
                    return settings
                if self._adapters.outdated():
                    raise RestartError("zkdeployment was upgraded; start again with what is there now")
                outcome = self._guarded_turn()
                if self._backoff.seconds:
                    self._hold_back(self._backoff.seconds)
                elif outcome is Outcome.MOVED or self._adapters.outdated():
                    self._reporter.wait_for_wake(_SETTLE)
                # Ten thousand hosts need not look at one moment: neither now and then, nor when all are woken.
                elif self._reporter.wait_for_wake(LOOK * random.uniform(0.8, 1.2)):  # noqa: S311  not a secret
                    self._hold_back(random.uniform(0, self._spread))  # noqa: S311
        return None

    def run_once(self) -> Outcome:
        """Bring this host to the cluster version and end.

        Raises ``UnreachableError`` at once when ZooKeeper cannot be reached.
        """
        self._adapters.connect()
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
        self._adapters.notifier.reloading()
        settings = reread()
        self._followed = settings is not None
        if not self._followed:
            self._adapters.notifier.ready()
        return settings

    def _is_disturbed(self) -> bool:
        """Whether there is something to be done between deployments for which one that waits gives way."""
        return self._following and (self._control.reloading or self._adapters.outdated())

    def _hold_back(self, seconds: float) -> None:
        """Wait, whatever happens but for being asked to end."""
        end = self._adapters.clock.monotonic() + seconds
        while not self._control.stopping and (left := end - self._adapters.clock.monotonic()) > 0:
            self._reporter.wait_for_wake(left)

    def _register(self) -> None:
        self._reporter.register()
        get_logger().info("registered")
        self._adapters.scripts.wait_for_predecessor()
        self._reporter.retry_until_reachable(self._adapters.fleet.clear_stale_nodes)

    @contextlib.contextmanager
    def _unregistering(self) -> Iterator[None]:
        """Take the host's node away in the end; to be asked to end is no error."""
        try:
            yield
        except ShutdownError as error:
            get_logger().info("ending", reason=str(error))
        finally:
            if not self._followed:  # by the next agent of this process
                self._adapters.notifier.stopping()
            with contextlib.suppress(UnreachableError, DeniedError, RestartError):
                self._adapters.fleet.unregister()
            self._reporter.tell(up=self._followed)

    def _guarded_turn(self) -> Outcome:
        """Run one cycle; an unexpected error is shown by the host, and the agent goes on after a while."""
        try:
            outcome = self._turn()
        except ZkdeploymentError:
            raise
        except Exception as error:  # noqa: BLE001  a defect of ours must not end every agent
            get_logger().exception("cycle-failed")
            self._reporter.stay_failed(reason(error))
            self._backoff.fail()
            return Outcome.FAILED
        self._backoff.reset()
        return outcome

    def _turn(self) -> Outcome:
        """Look at the cluster version once and do what it asks for."""
        try:
            self._reporter.ensure_registered()
            self._stock.catch_up()
            cluster = self._reporter.read_cluster()
            published = self._look_forward()  # later: a version is never taken for one without its strategy
            self._spread = 0.0 if cluster is None else cluster.start_spread
            revision = None if cluster is None else cluster.revision
            if cluster is None or revision is None:
                return self._hold(cluster)
            self._held = None
            gate = self._gate(published, revision) if published.governs(cluster) else None
            with bound(revision=revision):
                if revision == self._reporter.host.version:
                    self._settle()
                    if gate is not None:
                        gate.confirm()
                    return Outcome.DONE
                if gate is not None and (failure := gate.failure()) is not None:
                    self._reporter.stay_failed(failure)
                    return Outcome.FAILED
                return self._deploy(revision, gate)
        except StalePublicationError as error:
            self._reporter.refuse(str(error))
            return Outcome.HELD
        except (ConflictError, UnreachableError) as error:
            get_logger().info("start-over", reason=str(error))
            return Outcome.MOVED
        finally:
            self._reporter.tell()

    def _gate(self, published: Published, revision: Revision) -> RolloutGate:
        return RolloutGate(
            self._adapters,
            self._reporter,
            self._control,
            sequence=published.sequence,
            revision=revision,
            spread=self._spread,
        )

    def _look_forward(self) -> Published:
        """Remember the current publication before acting; raise ``StalePublicationError`` if it is older."""
        published = self._reporter.retry_until_reachable(self._adapters.fleet.published)
        self._watermark.check(published)
        self._watermark.note(published)
        self._reporter.clear_refusal()
        return published

    def _settle(self) -> None:
        try:
            self._reporter.settle()
        except HostFilesError as error:
            get_logger().error("status-not-written", reason=str(error))

    def _hold(self, cluster: Cluster | None) -> Outcome:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        if state is not self._held:
            self._held = state
            get_logger().warning("nothing-starts", cluster=state.value)
            self._adapters.notifier.status(f"nothing starts: the cluster is {state.value}")
        return Outcome.HELD

    def _deploy(self, revision: Revision, gate: RolloutGate | None) -> Outcome:
        deployment = Supervision(
            self._adapters, self._reporter, self._control, revision, gate, disturbed=self._is_disturbed
        )
        get_logger().info("deployment-begins", had=self._reporter.host.version)
        self._reporter.begin(revision)
        begun = self._adapters.clock.monotonic()

        def record(error: str | None = None) -> None:
            waited = 0.0 if gate is None else gate.waited
            self._stock.record(revision, self._adapters.clock.monotonic() - begun - waited, error)

        try:
            if revision != INITIAL:  # nothing was published yet: nothing is to be done or undone
                self._execute(deployment, revision)
            reach("before:record")
            record()
            with deployment.reporting("record the version"):
                self._reporter.succeed(revision)
            reach("after:record")
            if gate is not None:
                gate.confirm()
        except FailedError as failed:
            self._stock.take()
            record(f"{failed}: {self._reporter.host.error}")
            return Outcome.FAILED
        except (ConflictError, UnreachableError):
            self._reporter.abandon()
            raise
        get_logger().info("deployment-done")
        return Outcome.DONE

    def _execute(self, deployment: Supervision, revision: Revision) -> None:
        deployment.enter(Phase.PREPARE)
        todo = deployment.plan()
        executor = Executor(self._adapters, self._reporter.host.identity, deployment, revision)
        try:
            executor.prepare(todo, rehearse=deployment.gated)
            deployment.enter(Phase.DEPLOY, len(todo.steps))
            executor.execute(todo)
        except ConflictError as moved:
            get_logger().warning("deployment-abandoned", reason=str(moved))
            if deployment.changed:
                self._stock.take()
                cluster = self._reporter.read_cluster()
                if cluster is None or cluster.revision is None:
                    self._run_after(deployment, revision, len(todo.steps))
            raise
        if todo.steps:
            self._stock.take()  # before the host counts as done: plans made then are to be exact
        self._run_after(deployment, revision, len(todo.steps))

    def _run_after(self, deployment: Supervision, revision: Revision, steps: int) -> None:
        if not self._after:
            return
        deployment.show("after", steps, steps)
        reach("before:after")
        with deployment.reporting("after"):
            deployment.begin_changes()  # a hook that fails leaves the host at no version, even after no other step
            self._adapters.scripts.run(self._after, name="after", revision=revision)
        reach("after:after")


def preview(adapters: AgentAdapters, identity: Identity) -> tuple[Revision, Plan]:
    """Return the cluster version and what an agent would do to get this host there; changes nothing.

    Raises ``RefusedError`` when nothing may start.
    """
    Watermark(adapters.files).check(adapters.fleet.published())
    cluster = adapters.fleet.cluster()
    if cluster is None or cluster.revision is None:
        state = ClusterState.STOPPED if cluster is None else cluster.state
        raise RefusedError(f"nothing starts: the cluster is {state.value}")
    revision = cluster.revision
    if revision in {INITIAL, adapters.files.read_version(identity)}:
        return revision, Plan()
    wanted = adapters.fleet.wanted(identity, revision)
    return revision, make_plan(adapters, wanted)
