"""Reboots of this host for a step: recorded durably before they begin, and completed after the boot.

The record on the disk tells the next agent which step asked for the reboot. The record in ZooKeeper tells all
others that the host is expected back, and until when; the lock of the step is kept for the host in the same
transaction. If the agent dies before the command, the next one plans the step again and begins another reboot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import RebootError, ShutdownError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.reboots import MAX_REBOOTS, RebootRecord
from zkdeployment.base.plan import Deploy, Reboot, UpdateSystem
from zkdeployment.publishing.store.reboots import read_reboot, recording_reboot, remove_reboot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.agent.adapters import AgentAdapters
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock
    from zkdeployment.base.deployment import Deployment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.plan import Plan, Step
    from zkdeployment.base.publication import DeploymentBasis
    from zkdeployment.strategies.permission import RolloutPart

#: Seconds between two checks whether the agent has to end.
_PAUSE = 5.0


class HostReboots:
    """Reboots the host ``identity`` for steps of the publication of ``basis``.

    ``judge`` returns the part of the rollout that judges failures, and whether a failure without such a part
    concerns this host alone. ``retry`` repeats a call until ZooKeeper answers. ``await_end`` waits some seconds,
    and raises ``ShutdownError`` when this process is asked to end.
    """

    def __init__(
        self,
        adapters: AgentAdapters,
        basis: DeploymentBasis,
        identity: Identity,
        *,
        judge: Callable[[], tuple[RolloutPart | None, bool]],
        retry: Callable[[Callable[[], None], str], None],
        await_end: Callable[[float], None],
    ) -> None:
        self._adapters = adapters
        self._basis = basis
        self._identity = identity
        self._judge = judge
        self._retry = retry
        self._await_end = await_end

    def boots(self, deployment: Deployment) -> int:
        """Return the number of boots for the present step of a deployment."""
        return self._adapters.system.state().boots.get(str(deployment), 0)

    def complete(self, deployment: Deployment) -> None:
        """Record that the step of a deployment is over: its reboots count no more."""
        self.end_pending(deployment)
        system = self._adapters.system
        system.save(system.state().completed(deployment))

    def end_pending(self, deployment: Deployment) -> None:
        """Remove the record in ZooKeeper of a reboot that the step of a deployment no longer needs.

        An earlier agent began that reboot, and the host has not booted since. Call this before the disk forgets
        the reboot, or others would report a host that is complete as one that did not come back.
        """
        pending = self._adapters.system.state().pending
        if pending is not None and pending.deployment == deployment:
            self._retry(lambda: remove_reboot(self._adapters.session, self._identity.id), "reboot-not-withdrawn")

    def reboot(self, step: Reboot | Deploy, timeout: int, lock: ZooKeeperServiceLock | None) -> None:
        """Reboot the host for a step; never returns normally.

        Raises ``ShutdownError`` when the shutdown ends this agent; the lock is then kept for the host. Raises
        ``RebootError`` if the host cannot reboot, has not rebooted after ``timeout`` seconds, or has rebooted too
        often for the step.
        """
        try:
            record = self._record(step, timeout)
            with failpoints("publish-reboot"):
                self._retry(lambda: self._publish(record, lock), "reboot-not-recorded")
            with failpoints("reboot"):
                self._adapters.system.reboot()
            self._await_shutdown(record)
        except ShutdownError:
            raise
        except BaseException:
            self._withdraw()
            raise

    def _record(self, step: Reboot | Deploy, timeout: int) -> RebootRecord:
        """Record on the disk that a reboot begins."""
        system, now = self._adapters.system, self._adapters.clock.now()
        if not system.may_reboot:
            raise RebootError(f"{step.title} asks for a reboot, but this host does not reboot (reboots = no)")
        state = system.state()
        count = state.begun.get(str(step.deployment), 0) + 1
        if count > MAX_REBOOTS:
            raise RebootError(
                f"{step.title} asks for another reboot after {MAX_REBOOTS} reboots, of which"
                f" {self.boots(step.deployment)} took place: expected that the host needs none any more; see"
                " 'zkdeployment system' for the packages that ask for it"
            )
        part, alone = self._judge()
        record = RebootRecord(
            host_id=self._identity.id,
            host_name=self._identity.name,
            revision=self._basis.revision,
            sequence=self._basis.sequence,
            path=step.deployment.path,
            number=step.deployment.number,
            step=step.title,
            boot_id=system.boot_id(),
            since=now,
            deadline=now + timeout,
            count=count,
            rollout=None if part is None else part.rollout,
            phase=None if part is None else part.phase.value,
            alone=alone,
        )
        with failpoints("record-reboot"):
            system.save(state.rebooting(record, self._basis.effective))
        return record

    def _publish(self, record: RebootRecord, lock: ZooKeeperServiceLock | None) -> None:
        """Record the reboot in ZooKeeper, and keep the lock for this host, in one transaction.

        The deadline is counted from now: earlier attempts may have waited long for ZooKeeper.
        """
        now = self._adapters.clock.now()
        record = replace(record, since=now, deadline=now + record.deadline - record.since)
        operations = recording_reboot(self._adapters.session, record)
        if lock is None:
            self._adapters.session.commit(*operations)
        else:
            lock.keep_with(operations)

    def _await_shutdown(self, record: RebootRecord) -> None:
        """Wait until the shutdown of the machine ends this agent."""
        clock = self._adapters.clock
        end = clock.monotonic() + record.deadline - record.since
        while (left := end - clock.monotonic()) > 0:
            self._await_end(min(left, _PAUSE))
        raise RebootError(
            f"the host did not reboot: its boot id is still {record.boot_id}"
            f" {record.deadline - record.since:.0f} s after {' '.join(self._adapters.system.command)} succeeded"
        )

    def _withdraw(self) -> None:
        """Forget the reboot of a step that has failed or does not continue.

        The reboots before it count until the failure is reported: if the agent dies before that, the next one
        fails in the same way, and does not begin to count anew.
        """
        system = self._adapters.system
        with failpoints("withdraw-reboot"):
            system.save(system.state().withdrawn())
        self._retry(lambda: remove_reboot(self._adapters.session, self._identity.id), "reboot-not-withdrawn")


def note_boot(reporting: HostReporting) -> None:
    """Complete the record of a reboot if this host has booted since; call this once in each agent.

    The record in ZooKeeper is removed first: an agent that dies in between repeats both. A record that the disk no
    longer has is that of a withdrawn reboot, whose agent died before it removed the record.
    """
    system, session = reporting.adapters.system, reporting.adapters.session
    host_id = reporting.host.identity.id
    state, boot_id = system.state(), system.boot_id()
    recorded = reporting.retry_until_reachable(lambda: read_reboot(session, host_id))
    has_booted = recorded is not None and recorded.boot_id != boot_id
    if has_booted or (recorded is not None and state.pending is None):
        with failpoints("end-reboot"):
            reporting.retry_until_reachable(lambda: remove_reboot(session, host_id))
    if recorded is not None and has_booted:
        get_logger().info("rebooted", step=recorded.step, since=recorded.since, late=recorded.expired)
    if (after := state.booted(boot_id)) != state:
        with failpoints("note-boot"):
            system.save(after)


def withdraw_reboot(reporting: HostReporting, steps: Iterable[Step]) -> None:
    """Forget a reboot that an earlier agent recorded and did not begin, if no step asks for it any more."""
    system = reporting.adapters.system
    pending = system.state().pending
    if pending is None or str(pending.deployment) in _rebooting(steps):
        return
    session, host_id = reporting.adapters.session, reporting.host.identity.id
    reporting.retry_until_reachable(lambda: remove_reboot(session, host_id))
    system.save(system.state().completed(pending.deployment))


def forget_abandoned_steps(reporting: HostReporting, plan: Plan, basis: DeploymentBasis) -> None:
    """Forget the reboots for steps that the plan no longer has, so that later steps count their own.

    The reboots for steps of another publication do not count either, but for updates of the system: each update
    counts its own. The reboots for services of stopped groups count: their steps are only withheld.
    """
    withdraw_reboot(reporting, plan.steps)
    named = _rebooting(plan.steps)
    withheld = frozenset().union(*plan.withheld.values())
    system = reporting.adapters.system
    before = system.state()
    updates = _rebooting(
        step for step in plan.steps if isinstance(step, Reboot | UpdateSystem) and step.system.update != "none"
    )
    after = before.counting_for(basis.effective, updates).without_abandoned(
        lambda name: name in named or name.rpartition(" ")[0] in withheld
    )
    if after != before:
        system.save(after)


def _rebooting(steps: Iterable[Step]) -> set[str]:
    """Return the deployments whose steps may reboot this host, as text."""
    return {str(step.deployment) for step in steps if isinstance(step, Deploy | Reboot | UpdateSystem)}
