"""Reports failed deployments: stops the fleet or reports to the rollout, and informs operators by mail.

A failure of a publication that the fleet no longer has is only shown on the host, and in its mail. A failure is
kept on disk until it is written to ZooKeeper, so that the next agent can report it. While the failure can be
written neither to ZooKeeper nor to the disk, the agent tries both, and does not restart.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.deployment import Deployment, DeploymentFailure, DeploymentResult
from zkdeployment.base.errors import (
    ConflictError,
    DeniedError,
    HostFilesError,
    ScriptError,
    UnreachableError,
    ZkdeploymentError,
    error_message,
    without_secrets,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.stop import FailureOutput, GroupStop, Stop, last_lines
from zkdeployment.base.text import printable
from zkdeployment.strategies.permission import Failure, Phase, PhaseReport, RolloutPart

if TYPE_CHECKING:
    from zkdeployment.agent.reporting.host_reporting import HostPresence
    from zkdeployment.base.cluster import Revision


_FLEET_STOPPED = "The fleet is stopped: no host starts a deployment until an operator resumes it.\n"
_FLEET_GOES_ON = (
    "The fleet continues: rollout {rollout} judges the host's group by its success criteria\n"
    "(zkdeployment rollout show). This host is excluded until there is another rollout.\n"
)
_GROUP_STOPPED = (
    "The fleet continues: group {group} is stopped, and no host begins a step of it until a publication changes\n"
    "the group, or an operator resumes it (zkdeployment intent resume {group} --reason TEXT).\n"
)
_HOST_ALONE = (
    "The fleet continues: this host can be leased, so its failures concern no other host. It tries again when\n"
    "its lease or the cluster version changes, or when its agent is restarted.\n"
)
_OBSOLETE = (
    "The fleet continues: it does not deploy that publication any more. The host tries again with the revision\n"
    "that the fleet has now.\n"
)
_UNREPORTED = (
    "ZooKeeper does not answer. The host keeps the failure and reports it as soon as ZooKeeper answers;\n"
    "no other host knows of the failure before that.\n"
)


def failure_mail(
    failure: Failure, output: str, *, reported: bool, alone: bool = False, obsolete: bool = False
) -> tuple[str, str]:
    """Return subject and text of the mail about a failure.

    ``output`` is the end of the script's output, ``reported`` whether the failure is in ZooKeeper, ``alone``
    whether the failure concerns no other host, and ``obsolete`` whether the fleet has another publication by now.
    """
    stop = failure.stop
    host = f"{stop.host_name} ({stop.host_id})"
    consequence = _FLEET_STOPPED if failure.part is None else _FLEET_GOES_ON.format(rollout=failure.part.rollout)
    if failure.group is not None:
        consequence = _GROUP_STOPPED.format(group=failure.group)
    if alone or obsolete:
        consequence = _HOST_ALONE if alone else _OBSOLETE
    tail = without_secrets(output)
    return (
        f"zkdeployment: {host} failed at {stop.revision}",
        f"Host:     {host}\nRevision: {stop.revision}\nStep:     {stop.step}\nError:    {stop.reason}\n\n"
        + (consequence if reported else _UNREPORTED)
        + (f"\nThe end of the output:\n\n{tail}\n" if tail else ""),
    )


#: The most bytes of a failure's reason in ZooKeeper, status file and mail.
MAX_REASON_BYTES = 2048


class FailureReporter:
    """Reports failures of this host's deployments, and the outcomes of phases to rollouts."""

    def __init__(self, presence: HostPresence) -> None:
        self._presence = presence
        self._adapters = presence.adapters
        self._unreported: Failure | None = None
        self._is_kept = False

    def report_success(self, rollout: str, phase: Phase) -> None:
        """Report that this host finished a phase, once ZooKeeper answers."""
        report = PhaseReport(self._adapters.clock.now())
        self._presence.retry_until_reachable(lambda: self._send(rollout, phase, report))

    def _send(self, rollout: str, phase: Phase, report: PhaseReport) -> None:
        """Write one phase report with the host's node; raises ``UnreachableError`` if it has to be sent again."""
        try:
            self._adapters.fleet.report_phase(rollout, phase, self._presence.host, report)
        except ConflictError as error:
            raise UnreachableError(str(error)) from error  # the coordinator waits for the report
        self._presence.note_written()

    def restore(self) -> None:
        """Read the failure that an earlier agent kept and did not report, and show its error on the host."""
        self._unreported = self._adapters.run.failure.load()
        self._is_kept = self._unreported is not None
        if self._unreported is not None:
            self._show_unreported(self._unreported)

    def report_unreported(self) -> None:
        """Report the failure that an earlier agent or cycle could not report; wait until ZooKeeper answers."""
        failure = self._unreported
        if failure is None:
            return
        self._show_unreported(failure)
        self._presence.retry_until_reachable(lambda: self._attempt(failure))
        self._forget(failure)
        get_logger().critical("deployment-failed", reason=failure.stop.reason, reported="later")

    def _show_unreported(self, failure: Failure) -> None:
        if failure.group is None:
            self._set_failure(failure.stop.reason, failure.failed)

    def fail(
        self,
        revision: Revision,
        failed: DeploymentFailure,
        error: Exception,
        part: RolloutPart | None = None,
        *,
        retried: bool = False,
    ) -> None:
        """Stop the fleet because of ``error``; return when the failure is in ZooKeeper.

        The fleet is not stopped if it has another publication by now. With ``part``, the
        failure is reported to that rollout and no other host stops. The failure of a host that was ``retried`` is
        reported to the present rollout if the fleet was resumed meanwhile. Raises ``ShutdownError`` or
        ``RestartError`` if this process has to end before; then the next agent reports the failure.
        """
        self._report(Failure(self._show(revision, failed, error), failed, part, retried=retried), error)

    def fail_group(self, revision: Revision, failed: DeploymentFailure, group: str, error: Exception) -> str:
        """Stop one deployment intent group because of ``error``, and return the recorded reason.

        The deployment continues; everything else is as in ``fail``.
        """
        get_logger().error("deployment-error", reason=reason(error), exc_info=error)
        stop = self._stop(revision, failed, reason(error))
        self._report(Failure(stop, failed, group=group), error)
        return stop.reason

    def _report(self, failure: Failure, error: Exception) -> None:
        """Report a failure and inform operators; return when the failure is in ZooKeeper."""
        log = get_logger().bind(reason=failure.stop.reason)
        self._unreported, self._is_kept = failure, False
        problem = self._keep(failure)
        if problem is not None:
            log.error("failure-not-kept", error=str(problem))
        reported = obsolete = False
        try:
            with contextlib.suppress(UnreachableError, DeniedError):
                obsolete = not self._attempt(failure)
                reported = True
        finally:  # operators are informed although ZooKeeper does not answer
            output = getattr(error, "tail", "")
            failure = self._unreported  # with the part that was found
            self._adapters.mailer.send(*failure_mail(failure, output, reported=reported, obsolete=obsolete))
        if not reported:
            self._presence.retry_until_overdue(lambda: self._attempt(failure))
        self._forget(failure)
        self._publish_output(failure.stop, error)
        log.critical("deployment-failed", **({} if failure.group is None else {"group": failure.group}))

    def fail_alone(self, revision: Revision, failed: DeploymentFailure, error: Exception) -> None:
        """Fail only this host because of ``error``, without an effect on other hosts or a rollout.

        The failure is not kept on disk: after a restart of the agent, the host tries again.
        """
        stop = self._show(revision, failed, error)
        output = getattr(error, "tail", "")
        self._adapters.mailer.send(*failure_mail(Failure(stop, failed), output, reported=True, alone=True))
        self._presence.refresh()
        self._forget_reboots(failed)
        self._publish_output(stop, error)
        get_logger().critical("deployment-failed", reason=stop.reason)

    def _publish_output(self, stop: Stop, error: Exception) -> None:
        """Publish the end of the failed script's output; the failure itself is reported already."""
        if not isinstance(error, ScriptError) or not error.tail:
            return
        output = FailureOutput(stop.host_id, stop.revision, stop.step, stop.time, error.tail, error.file)
        try:
            self._adapters.fleet.publish_output(output)
        except ZkdeploymentError as problem:
            get_logger().warning("output-not-published", reason=str(problem))

    def _show(self, revision: Revision, failed: DeploymentFailure, error: Exception) -> Stop:
        """Log an error and show it on the host; return the stop that records it."""
        cause = reason(error)
        get_logger().error("deployment-error", reason=cause, exc_info=error)
        self._presence.telemetry.end(DeploymentResult.FAILED)
        self._set_failure(cause, failed, last_lines(getattr(error, "tail", "")))
        self._presence.end_deployment()
        try:
            self._adapters.run.write_status(revision, "error")
        except HostFilesError as problem:
            get_logger().error("status-not-written", error=str(problem))
        self._adapters.notifier.status(f"{revision}: error: {cause}")
        return self._stop(revision, failed, cause)

    def _set_failure(self, error: str, failed: DeploymentFailure | None, output: str | None = None) -> None:
        self._presence.host = replace(self._presence.host, error=error, failed=failed, output=output)

    def _stop(self, revision: Revision, failed: DeploymentFailure, cause: str) -> Stop:
        identity = self._presence.host.identity
        return Stop(identity.id, identity.name, revision, failed.step, cause, self._adapters.clock.now())

    def _attempt(self, failure: Failure) -> bool:
        """Write a failure to ZooKeeper; raise ``UnreachableError`` or ``DeniedError`` to have the call repeated.

        Returns ``False`` if the failure is obsolete, and only shown on the host. If the failure is not on disk
        yet, it is written there, too. While the disk has no room for it, the call has to be repeated after every
        error, because the failure would be lost with this process.
        """
        try:
            return self._record(failure)
        except (UnreachableError, DeniedError):
            self._keep(failure)
            raise
        except ZkdeploymentError as error:
            self._keep(failure)
            if self._is_kept:
                raise
            raise UnreachableError(error_message(error)) from error

    def _keep(self, failure: Failure) -> HostFilesError | None:
        """Write a failure to the disk unless it is there already; return the error if that is impossible."""
        try:
            if not self._is_kept:
                self._adapters.run.failure.save(failure)
        except HostFilesError as error:
            return error
        self._is_kept = True
        return None

    def _forget(self, failure: Failure) -> None:
        self._unreported = None
        self._forget_reboots(failure.failed)  # first, because a failure that is still on disk is reported again
        try:
            self._adapters.run.failure.clear()
        except HostFilesError as error:
            get_logger().error("failure-not-forgotten", reason=str(error))

    def _forget_reboots(self, failed: DeploymentFailure | None) -> None:
        """Permit the step of a reported failure to reboot the host again after a retry."""
        if failed is None or failed.path is None or failed.number is None:
            return
        system = self._adapters.system
        try:
            system.save(system.state().after_failure(Deployment(failed.path, failed.number)))
        except HostFilesError as error:
            get_logger().error("reboots-not-forgotten", reason=str(error))

    def _record(self, failure: Failure) -> bool:
        """Write a failure to ZooKeeper and return whether it concerns the fleet.

        Raises ``UnreachableError`` if the call has to be repeated.
        """
        part = failure.part
        if failure.retried and failure.failed is not None:
            part = self._adapters.fleet.resumed_part(self._presence.host.identity, failure.failed)
            self._unreported = replace(failure, part=part)
        if part is not None:
            self._send(part.rollout, part.phase, PhaseReport(failure.stop.time, failure.stop.reason))
            return True
        try:
            if failure.group is not None:
                sequence = 0 if failure.failed is None else failure.failed.sequence
                return self._adapters.fleet.stop_group(GroupStop(failure.group, sequence, failure.stop))
            stopped = self._adapters.fleet.stop_fleet(self._presence.host, failure.stop)
        except ConflictError as error:
            raise UnreachableError(str(error)) from error  # no host may start anything before the stop is written
        if stopped:
            self._presence.note_written()
        else:
            get_logger().warning("failure-obsolete", failed=failure.stop.revision)
            self._presence.refresh()
        return stopped


def reason(error: Exception) -> str:
    """Return one line of at most ``MAX_REASON_BYTES`` for ZooKeeper, the status and the mail, without secrets."""
    shown = printable(without_secrets(" ".join(error_message(error).split())))
    cut = shown.encode("utf-8", errors="replace")[:MAX_REASON_BYTES]
    return cut.decode("utf-8", errors="ignore")
