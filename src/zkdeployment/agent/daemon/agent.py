"""The host agent: a loop that brings its host to the cluster version, and the waits of its thread.

Each cycle reads the cluster version from ZooKeeper; a watch only wakes the loop. The work of a cycle belongs to
``agent_cycle``, one deployment to ``deployment_run``.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.agent_cycle import AgentCycle
from zkdeployment.agent.rules.cycle_machine import CycleState
from zkdeployment.base.daemon.cycles import Backoff, jittered, spread
from zkdeployment.base.errors import DeniedError, DuplicateError, RestartError, ShutdownError, UnreachableError
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.daemon.deployment import HostCommands
    from zkdeployment.agent.daemon.host_role import HostRole
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.base.daemon.control import Control
    from zkdeployment.config.settings import Settings


_CYCLE = 300.0  # seconds until ZooKeeper is read again although no watch fired
_CAP_PAUSE = 10.0  # seconds between two checks of the output of programs that scripts left running


class AgentWaits:
    """Waits while it notifies the watchdog and caps the output of programs that scripts left running."""

    def __init__(self, adapters: AgentAdapters, control: Control) -> None:
        self._adapters = adapters
        self._control = control

    def wake(self) -> None:
        """End the current wait, or the next one; may be called on any thread."""
        self._control.wake()

    def wait_for_wake(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for a wake-up and return whether there was one."""
        end = self._adapters.clock.monotonic() + seconds
        woken = False
        while not woken and (left := end - self._adapters.clock.monotonic()) > 0:
            self._adapters.notifier.watchdog()
            self._adapters.scripts.cap_outputs()
            woken = self._control.wait(min(left, self._adapters.notifier.pace, _CAP_PAUSE))
        self._adapters.notifier.watchdog()
        return woken

    def wait_for_cycle(self) -> bool:
        """Wait about five minutes for a wake-up and return whether there was one."""
        return self.wait_for_wake(jittered(_CYCLE))

    def hold_back(self, seconds: float) -> None:
        """Wait ``seconds``; only a request to end shortens that."""
        end = self._adapters.clock.monotonic() + seconds
        while not self._control.stopping and (left := end - self._adapters.clock.monotonic()) > 0:
            self.wait_for_wake(left)

    def spread_out(self, seconds: float) -> None:
        """Hold back for a random part of ``seconds``, after a change that woke all hosts."""
        self.hold_back(spread(seconds))

    def spread_out_until_wake(self, seconds: float) -> None:
        """Wait for a wake-up during a random part of ``seconds``."""
        self.wait_for_wake(spread(seconds))


#: The errors of a cycle that end the agent. All others, also those of damaged nodes, fail only the cycle.
_ENDING = (DuplicateError, RestartError, ShutdownError)

_SETTLE = 0.05  # seconds until the cluster version is read again after it changed during a cycle


class Agent:
    """Brings one host to the cluster version."""

    def __init__(
        self,
        adapters: AgentAdapters,
        reporting: HostReporting,
        control: Control,
        *,
        commands: HostCommands,
        lease: HostRole,
    ) -> None:
        self._adapters = adapters
        self._reporting = reporting
        self._control = control
        self._waits = AgentWaits(adapters, control)
        self._cycle = AgentCycle(
            adapters,
            reporting,
            control,
            self._waits,
            commands=commands,
            lease=lease,
            is_disturbed=self._is_disturbed,
        )
        self._backoff = Backoff(first=5.0, most=60.0)
        self._following = False
        self._succeeded = False

    def run(self, reread: Callable[[], Settings | None] = lambda: None) -> Settings | None:
        """Follow the cluster version until asked to end.

        On a request to reload, between deployments, calls ``reread`` and returns the settings for the next agent
        if there are any. Returns ``None`` when asked to end.

        Raises ``RefusedError`` if another agent has this host's id or name, and ``RestartError`` if the connection
        to ZooKeeper cannot be restored or if the program was upgraded, in both cases between two deployments only.
        """
        self._following = True
        with self._unregistering():
            self._register()
            self._adapters.fleet.watch_cluster(self._control.wake)
            self._cycle.lease.watch(self._control.wake)
            self._adapters.notifier.ready()
            while not self._control.stopping:
                if self._adapters.outdated():  # the new program reads a new configuration
                    raise RestartError("zkdeployment was upgraded; the agent restarts with the new program")
                if (settings := self._reload(reread)) is not None:
                    return settings
                outcome = self._guarded_cycle()
                if self._backoff.seconds:
                    self._waits.hold_back(self._backoff.seconds)
                elif outcome is CycleState.MOVED or self._adapters.outdated():
                    self._waits.wait_for_wake(_SETTLE)
                elif self._waits.wait_for_cycle() and not self._cycle.lease.is_outdated:
                    self._waits.spread_out(self._cycle.start_spread)
        return None

    def run_once(self) -> CycleState:
        """Bring this host to the cluster version once and return the outcome.

        Raises ``UnreachableError`` at once when ZooKeeper cannot be reached.
        """
        self._adapters.connect()
        outcome = CycleState.MOVED
        with self._unregistering():
            self._register()
            self._cycle.lease.watch(self._control.wake)
            while outcome is CycleState.MOVED:
                self._control.check()
                outcome = self._cycle.run()
                if outcome is CycleState.MOVED:
                    self._control.wait(_SETTLE)
        return outcome

    def _reload(self, reread: Callable[[], Settings | None]) -> Settings | None:
        if not self._control.take_reload():
            return None
        self._adapters.notifier.reloading()
        settings = reread()
        self._succeeded = settings is not None
        if not self._succeeded:
            self._adapters.notifier.ready()
        return settings

    def _is_disturbed(self) -> bool:
        """Return whether a deployment that waits is to be abandoned for a reload or an upgrade."""
        return self._following and (self._control.reloading or self._adapters.outdated())

    def _register(self) -> None:
        self._reporting.failures.restore()
        self._reporting.registration.register()
        self._reporting.failures.report_unreported()
        get_logger().info("host-registered")
        with contextlib.ExitStack() as shown:
            self._adapters.scripts.wait_for_predecessor(
                lambda revision, name: shown.enter_context(
                    self._reporting.deployment.awaiting_script(revision, name)
                )
            )
        self._reporting.retry.retry_until_reachable(self._adapters.fleet.clear_stale_nodes)

    @contextlib.contextmanager
    def _unregistering(self) -> Iterator[None]:
        """Remove the host's node at the end of the block; a requested end is not an error."""
        try:
            yield
        except ShutdownError as error:
            get_logger().info("agent-ended", reason=str(error))
        finally:
            if not self._succeeded:
                self._adapters.notifier.stopping()
            with contextlib.suppress(UnreachableError, DeniedError, RestartError):
                self._adapters.fleet.unregister()
            self._reporting.heartbeat.write_metrics(up=self._succeeded)

    def _guarded_cycle(self) -> CycleState:
        """Run one cycle; show an error on the host and back off instead of ending the agent."""
        try:
            outcome = self._cycle.run()
        except _ENDING:
            raise
        except Exception as error:  # noqa: BLE001  neither a defect nor a damaged node must end every agent
            get_logger().exception("cycle-failed")
            self._backoff.fail()
            return self._cycle.fail(error)
        self._backoff.reset()
        return outcome
