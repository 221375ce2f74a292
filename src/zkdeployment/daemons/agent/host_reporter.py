"""What a host tells about itself: its node in ZooKeeper, its status file, its supervisor, its operators' mail."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import tenacity

from zkdeployment.daemons.failure_mail import failure_mail
from zkdeployment.errors import (
    ConflictError,
    DeniedError,
    HostFilesError,
    ShutdownError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
    without_secrets,
)
from zkdeployment.fleet.metrics.agent import DeploymentResult
from zkdeployment.log import get_logger
from zkdeployment.model.stop import Stop
from zkdeployment.printable import printable
from zkdeployment.rollout.failure import Failure
from zkdeployment.rollout.state import PhaseReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.daemons.agent.agent_adapters import AgentAdapters
    from zkdeployment.daemons.control import Control
    from zkdeployment.daemons.telemetry.agent import AgentTelemetry
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.rollout.state_machine import Phase

T = TypeVar("T")

#: Bytes of an error in ZooKeeper.
LONGEST_REASON = 2048

#: Seconds until the next look at ZooKeeper even when no watch fired.
LOOK = 300.0

_CAP = 10.0  # seconds between two looks at the output of programs that scripts left running

_AGAIN = 0.5  # seconds between two attempts to reach ZooKeeper
_DENIED = 5.0  # the same when it answers that this is not allowed
_REMIND = 120  # attempts between two log lines about that
_PACE = 1.0  # seconds between two writes of progress to ZooKeeper


class HostReporter:
    """Keeps ``host`` and everything that shows it in step. Only the agent's thread uses it."""

    def __init__(self, host: Host, adapters: AgentAdapters, control: Control, telemetry: AgentTelemetry) -> None:
        self.host = host
        self._adapters = adapters
        self._control = control
        self._telemetry = telemetry
        self._shown: tuple[Host, int | None] | None = None
        self._shown_at = 0.0
        self._refusal: str | None = None

    # Registration

    def register(self) -> None:
        """Connect and make this host's node, however long ZooKeeper takes to answer.

        A failure that the last agent could not report is reported before anything else.
        """
        unreported = self._adapters.files.read_failure()
        if unreported is not None:
            self.host = replace(self.host, error=unreported.stop.reason)
        self.retry_until_reachable(self._adapters.connect)
        adopt = not self._adapters.files.is_changing()  # a node that says otherwise is not true
        adopted = self.retry_until_reachable(lambda: self._adapters.fleet.register(self.host, adopt=adopt))
        if adopted is not None:
            self.host = replace(self.host, version=adopted)
            self._record_adopted(adopted)
        self._shown = self.host, self._adapters.session()
        if unreported is not None:
            self.retry_until_reachable(lambda: self._record(unreported))
            self._forget_failure()
            get_logger().critical("deployment-failed", reason=unreported.stop.reason, reported="after a restart")

    def _record_adopted(self, version: Revision) -> None:
        try:
            self._adapters.files.write_version(version)
        except HostFilesError as error:
            get_logger().warning("version-not-recorded", reason=str(error))

    def ensure_registered(self) -> None:
        """Be registered, and up to date, also if somebody removed the host's node. Insists."""
        if not self.retry_until_reachable(self._adapters.fleet.is_registered):
            self._shown = None
        self.refresh()

    def refresh(self) -> None:
        """Bring the host's node up to date, if it is not: also in a new session. Insists."""
        if self._shown != (self.host, self._adapters.session()):
            self.retry_until_reachable(self._write)

    def refresh_session(self) -> None:
        """Register again if the session that had the host's node is over. Insists."""
        if self._shown is None or self._shown[1] != self._adapters.session():
            self.retry_until_reachable(self._write)

    def read_cluster(self) -> Cluster | None:
        """Read the cluster version. Insists."""
        cluster = self.retry_until_reachable(self._adapters.fleet.cluster)
        self._telemetry.look(cluster)
        return cluster

    def retry_until_reachable(self, call: Callable[[], T]) -> T:
        """Do a call again and again until ZooKeeper answers.

        Raises ``ShutdownError`` if this process is asked to end while ZooKeeper does not answer.
        """
        return self._retry_until_reachable(call, lambda: self._control.stopping)

    def _retry_until_reachable(self, call: Callable[[], T], give_up: Callable[[], bool]) -> T:
        trying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((UnreachableError, DeniedError)),
            wait=_pause,
            stop=lambda _: give_up(),
            before_sleep=self._tell_waiting,
            reraise=True,
        )
        try:
            answer = trying(call)
        except (UnreachableError, DeniedError) as error:
            raise ShutdownError(f"asked to end while ZooKeeper did not answer ({error})") from error
        if trying.statistics["attempt_number"] > 1:
            self._note(self.host.step)
        return answer

    def _tell_waiting(self, state: tenacity.RetryCallState) -> None:
        self._adapters.notifier.watchdog()
        self._telemetry.beat(self.host)
        if state.attempt_number == 1:
            self._note("wait for ZooKeeper")
        if state.attempt_number % _REMIND == 1 and state.outcome is not None:
            reason = str(state.outcome.exception())
            get_logger().warning("waiting-for-zookeeper", reason=reason)
            self._adapters.notifier.ready()  # an agent without ZooKeeper is up: it must not hold up the boot
            self._adapters.notifier.status(f"waiting for ZooKeeper: {reason}")

    def _note(self, step: str | None) -> None:
        """Say in the status file what a deployment waits for, or that it goes on, and since when."""
        if self.host.deploying is not None and step is not None:
            with contextlib.suppress(HostFilesError):  # the next step meets the same trouble, and tells
                self._adapters.files.write_status(self.host.deploying, step)

    def _write(self) -> None:
        self._adapters.fleet.update_host(self.host)
        self._shown = self.host, self._adapters.session()
        self._shown_at = self._adapters.clock.monotonic()

    def tell(self, *, up: bool = True) -> None:
        """Write the metrics, as after each look at the cluster version; ``up`` says whether the agent goes on."""
        self._telemetry.write(self.host, up=up)

    def wait_for_wake(self, seconds: float) -> bool:
        """Wait until something happens, for some seconds at most, and tell the watchdog meanwhile.

        Says whether something happened.
        """
        end = self._adapters.clock.monotonic() + seconds
        woken = False
        while not woken and (left := end - self._adapters.clock.monotonic()) > 0:
            self._adapters.notifier.watchdog()
            self._adapters.scripts.cap_outputs()
            woken = self._control.wait(min(left, self._adapters.notifier.pace, _CAP))
        self._adapters.notifier.watchdog()
        return woken

    # One deployment

    def begin(self, revision: Revision) -> None:
        """Show that a deployment begins; the last one's error is history."""
        self._telemetry.begin()
        self.host = replace(self.host, error=None, deploying=str(revision), step=None, steps=None)
        self.refresh()

    def give_up_version(self) -> None:
        """Record on disk, then in ZooKeeper, that the host has no version until a deployment is whole. Insists."""
        self._adapters.files.clear_version(self.host.version)
        former = self.host.former if self.host.version is None else self.host.version
        self.host = replace(self.host, version=None, former=former)
        self.refresh()

    def go_on(self) -> None:
        """Note that the deployment goes on after a wait, which counts for nothing."""
        self._telemetry.begin()

    def show(self, revision: Revision, step: str, done: int, total: int) -> bool:
        """Show the step under way: in the status file at once, in ZooKeeper at most once a second.

        Says whether it is another one than before: one that goes on keeps its time in the status file.
        """
        new = (self.host.step, self.host.steps) != (step, (done, total))
        if new:
            self._adapters.files.write_status(revision, step)
            self._adapters.notifier.status(f"{revision}: {step} ({done} of {total} steps done)")
            self.host = replace(self.host, step=step, steps=(done, total))
        self._adapters.notifier.watchdog()
        self._adapters.scripts.cap_outputs()
        self._telemetry.beat(self.host)
        self._write_at_pace()
        return new

    def tick(self) -> None:
        """Called while a script runs: shows what is due; raises ``ShutdownError`` when the grace is over."""
        self._adapters.notifier.watchdog()
        self._telemetry.beat(self.host)
        self._write_at_pace()
        if self._control.overdue:
            raise ShutdownError("asked to end, and the step under way did not end in time")

    def _write_at_pace(self) -> None:
        if self._adapters.session() is None:
            return  # to wait for ZooKeeper would keep us from looking after the script that may be running
        due = self._shown is not None and self._adapters.clock.monotonic() - self._shown_at >= _PACE
        if due and self._shown != (self.host, self._adapters.session()):
            self._shown_at = self._adapters.clock.monotonic()
            try:
                self._write()
            except ZkdeploymentError as error:
                # A script may be running: whoever starts the next step meets the same trouble, and is told.
                get_logger().debug("progress-not-shown", reason=str(error))

    def succeed(self, revision: Revision) -> None:
        """Record that the host is at ``revision``: in ZooKeeper, in ``host_version``, in the status file."""
        before = self.host
        self.host = replace(before, version=revision, former=None, error=None)
        self._end()
        self.refresh()
        try:
            self._adapters.files.write_version(revision)
            self._adapters.files.write_status(revision, "done")
        except HostFilesError:
            self.host = replace(self.host, version=before.version, former=before.former)  # to be tried again
            raise
        self._telemetry.end(DeploymentResult.DONE)
        self._adapters.notifier.status(f"{revision}: done")

    def abandon(self) -> None:
        """Show that nothing is under way any more."""
        self._telemetry.end(DeploymentResult.ABANDONED)
        self._end()

    def settle(self) -> None:
        """Show that there is nothing to do at the version the host has."""
        self.host = replace(self.host, error=None)
        self.abandon()
        self.refresh()
        if self._adapters.files.read_status() != "done":
            self._adapters.files.write_status(self.host.version, "done")

    def refuse(self, why: str) -> None:
        """Show that this host does nothing and why, without stopping the fleet; says it once."""
        if self.host.error != why:
            self.stay_failed(why)
            self._refusal = why

    def stay_failed(self, why: str) -> None:
        """Show an error with which this host stands aside; says it once."""
        if self.host.error == why:
            return
        get_logger().error("refused", reason=why)
        self.host = replace(self.host, error=why)
        self.abandon()
        try:
            self._adapters.files.write_status(self.host.version, "error")
        except HostFilesError as unwritable:
            get_logger().error("status-not-written", error=str(unwritable))
        self._adapters.notifier.status(why)
        self.refresh()

    def clear_refusal(self) -> None:
        """Show that the reason of the last refusal is gone."""
        if self._refusal is not None and self.host.error == self._refusal:
            self.host = replace(self.host, error=None)
            self.refresh()
        self._refusal = None

    def fail(self, revision: Revision, step: str, error: Exception, part: tuple[str, Phase] | None = None) -> None:
        """Stop the fleet and say why; returns when ZooKeeper has it.

        With ``part``, a rollout and its phase, it is that rollout that is told, and no other host is stopped.
        Raises ``ShutdownError`` or ``RestartError`` if this process has to end before that; then the next agent
        reports the failure.
        """
        why = reason(error)
        log = get_logger().bind(reason=why)
        log.error("deployment-error", exc_info=error)
        self._telemetry.end(DeploymentResult.FAILED)
        self.host = replace(self.host, error=why)
        self._end()
        try:
            self._adapters.files.write_status(revision, "error")
        except HostFilesError as unwritable:
            log.error("status-not-written", error=str(unwritable))  # noqa: TRY400  one sentence says it all
        self._adapters.notifier.status(f"{revision}: error: {why}")
        identity = self.host.identity
        stop = Stop(identity.id, identity.name, revision, step, why, self._adapters.clock.now())
        failure = Failure(stop, part)
        try:
            self._adapters.files.write_failure(failure)
        except HostFilesError as unwritable:
            log.error("failure-not-kept", error=str(unwritable))  # noqa: TRY400  one sentence says it all
        reported = False
        try:
            with contextlib.suppress(UnreachableError, DeniedError):
                self._record(failure)
                reported = True
        finally:  # operators learn of the failure although ZooKeeper does not answer
            self._adapters.mailer.send(*failure_mail(failure, getattr(error, "tail", ""), reported=reported))
        if not reported:
            self._retry_until_reachable(lambda: self._record(failure), lambda: self._control.overdue)
        self._forget_failure()
        log.critical("deployment-failed")

    def report(self, rollout: str, phase: Phase) -> None:
        """Tell a rollout that a phase went well here. Insists."""
        self.retry_until_reachable(
            lambda: self._send_report(rollout, phase, PhaseReport(self._adapters.clock.now()))
        )

    def _forget_failure(self) -> None:
        try:
            self._adapters.files.clear_failure()
        except HostFilesError as error:
            get_logger().error("failure-not-forgotten", reason=str(error))

    def _record(self, failure: Failure) -> None:
        if failure.part is not None:
            self._send_report(*failure.part, PhaseReport(failure.stop.time, failure.stop.reason))
            return
        try:
            self._adapters.fleet.stop_fleet(self.host, failure.stop)
        except ConflictError as error:
            raise UnreachableError(str(error)) from error  # nothing starts before it is recorded: try again
        self._note_written()

    def _send_report(self, rollout: str, phase: Phase, report: PhaseReport) -> None:
        try:
            self._adapters.fleet.report_phase(rollout, phase, self.host, report)
        except ConflictError as error:
            raise UnreachableError(str(error)) from error  # whoever waits for it waits: try again
        self._note_written()

    def _note_written(self) -> None:
        if self._shown is not None and self._shown[1] == self._adapters.session():
            self._shown = self.host, self._shown[1]  # else the host's node was not ours, and is yet to be made

    def _end(self) -> None:
        self.host = replace(self.host, deploying=None, step=None, steps=None)


def _pause(state: tenacity.RetryCallState) -> float:
    """Return seconds until the next attempt: rights are given by people, who are slower than networks."""
    denied = state.outcome is not None and isinstance(state.outcome.exception(), DeniedError)
    return _DENIED if denied else _AGAIN


def reason(error: Exception) -> str:
    """Return one sentence for ZooKeeper, the status and the mail: one line, no secrets, 2 KiB at most."""
    shown = printable(without_secrets(" ".join(error_message(error).split())))
    cut = shown.encode("utf-8", errors="replace")[:LONGEST_REASON]
    return cut.decode("utf-8", errors="ignore")
