"""The run of a daemon that leads rollouts, a coordinator or a promoter: the lead, cycles, failures, telemetry.

The work of a cycle belongs to each daemon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.daemon.cycles import QUEUED, Backoff, CycleFailures, DaemonLead, FailureKind, run_cycles
from zkdeployment.base.daemon.metrics import CycleTelemetry, Metric, Probe
from zkdeployment.base.errors import LockLostError, RestartError, UnreachableError, ZkdeploymentError
from zkdeployment.strategies.group_analysis import due_requests
from zkdeployment.strategies.progress import seconds_until_change
from zkdeployment.strategies.telemetry import rollout_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.strategies.state import RolloutObservation, RolloutState
    from zkdeployment.strategies.store.records import FencedLead
    from zkdeployment.strategies.strategy import MemberKind

#: The result of a cycle in which this daemon led.
LED = "led"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAdapters:
    """The adapters of a daemon that leads rollouts.

    ``connect`` opens the session and does nothing when it is open. ``criteria`` are the criteria outside of the
    rollout; without that of the checks, groups with ``healthy_checks`` do not wait for checks.
    ``record_failure``: see ``CycleFailures``.
    """

    lead: FencedLead
    clock: Clock
    control: Control
    notifier: SystemdNotifier
    probe: Probe
    connect: Callable[[], None]
    criteria: Sequence[OutsideCriterion] = ()
    record_failure: Callable[[str], None] = lambda _message: None


class RolloutTelemetry(CycleTelemetry):
    """Records the cycles of one daemon, and the newest rollout over members of a kind while this daemon leads.

    ``further`` returns further metrics; its argument is whether this daemon leads.
    """

    def __init__(
        self,
        kind: MemberKind,
        probe: Probe,
        failures: Iterable[FailureKind],
        further: Callable[[bool], Iterable[Metric]],
    ) -> None:
        super().__init__(kind.leader, probe, (LED, QUEUED, *(failure.event for failure in failures)))
        self._kind = kind
        self._further = further
        self.leads = False
        self.state: RolloutState | None = None

    def lead(self, state: RolloutState | None) -> None:
        """Record a cycle of the leader, with the newest rollout."""
        self.record(LED, leads=True)
        self.state = state

    def record(self, outcome: str, *, leads: bool) -> None:
        """Record a cycle, and whether this daemon leads."""
        self.leads = leads
        if not leads:
            self.state = None
        self.count(outcome)

    def report(self, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the daemon continues."""
        leads = self.leads and up
        self.write(
            (*rollout_metrics(self._kind, self.state if up else None, leads=leads), *self._further(leads)), up=up
        )


class RolloutDaemon(ABC):
    """Leads the rollouts over members of a ``KIND``, or queues until the leading daemon ends.

    The first of the ``FAILURES`` whose error type matches applies. After defects of the program, the pause grows
    up to ``LONGEST_PAUSE`` seconds. Without failures, a cycle begins at least ``_least`` seconds after the one
    before began, and at most ``_most`` seconds after its end.
    """

    KIND: ClassVar[MemberKind]
    FAILURES: ClassVar[tuple[FailureKind, ...]]
    LONGEST_PAUSE: ClassVar[float]
    _least: float
    _most: float

    def __init__(self, adapters: LeaderAdapters) -> None:
        notifier = adapters.notifier
        self._adapters = adapters
        self._clock = adapters.clock
        self._notifier = notifier
        self._telemetry = RolloutTelemetry(self.KIND, adapters.probe, self.FAILURES, self._metrics)
        self._failures = CycleFailures(self.FAILURES, notifier.status, adapters.record_failure)
        self._backoff = Backoff(first=2.0, most=self.LONGEST_PAUSE)
        self._lead = DaemonLead(adapters.lead.acquire, notifier, otherwise=f"another {self.KIND.leader} leads")

    @abstractmethod
    def _forget(self) -> None:
        """Drop what was known during an earlier lead: another daemon may have led in between."""

    @abstractmethod
    def _work(self) -> float:
        """Begin or advance a rollout as the leader; return the seconds until the next cycle."""

    def _metrics(self, leads: bool) -> Iterable[Metric]:  # noqa: ARG002, FBT001  some need it
        """Return the metrics besides those of the process, its cycles and the newest rollout."""
        return ()

    def _outside(self, state: RolloutState, now: float) -> dict[str, Any]:
        """Return the facts for the criteria outside of the rollout."""
        return {criterion.name: criterion.read(state, now) for criterion in self._adapters.criteria}

    def _pause(self, before: RolloutState, after: RolloutState, observed: RolloutObservation) -> float:
        """Return the seconds until the next cycle, which asks for the measurements that have become due."""
        asked, due = ({request.key for request in due_requests(each, observed.now)} for each in (before, after))
        pause = 0.0 if due - asked else seconds_until_change(after, observed)
        return self._most if pause is None else min(pause, self._most)

    def run(self) -> None:
        """Run cycles until asked to end; raises ``RestartError`` if the connection cannot be restored."""
        adapters = self._adapters
        self._notifier.ready()
        for criterion in adapters.criteria:
            criterion.start()
        try:
            run_cycles(
                self._run_measured_cycle,
                adapters.control,
                self._clock,
                self._notifier,
                least=lambda: max(self._least, self._backoff.seconds),
            )
        finally:
            self._notifier.stopping()
            for criterion in adapters.criteria:
                criterion.close()
            adapters.lead.release()
            self._telemetry.report(up=False)

    def _run_measured_cycle(self) -> float:
        pause = self.run_cycle()
        if self._telemetry.is_due():
            self._telemetry.report()
        return pause

    def run_cycle(self) -> float:
        """Work if this daemon leads; return the seconds until the next cycle."""
        try:
            self._adapters.connect()
            node = self._adapters.lead.node
            if not self._lead.acquire():
                self._telemetry.record(QUEUED, leads=False)
                self._failures.end()  # only the leading daemon has to report failures
                return 0.0
            if self._adapters.lead.node != node:
                self._forget()
            pause = self._work()
        except RestartError:
            raise
        except ZkdeploymentError as error:
            return self._report_failure(error)
        except Exception as error:  # noqa: BLE001  a defect of the program must not end every daemon
            self._report_failure(error)
            self._adapters.lead.release()  # another daemon may have no such defect
            self._lead.lose()
            return self._backoff.fail()
        self._backoff.reset()
        self._failures.end()
        return pause

    def _report_failure(self, error: Exception) -> float:
        kind = self._failures.report(error)
        if isinstance(error, LockLostError):
            self._lead.lose()
        self._telemetry.record(kind.event, leads=self._lead.held and not isinstance(error, UnreachableError))
        return kind.pause
