"""The run of a daemon that leads rollouts, a coordinator or a promoter: lead, cycles, failures, telemetry.

The work of a cycle belongs to each daemon.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.daemon.cycles import QUEUED, Backoff, CycleFailures, DaemonLead, FailureKind, run_cycles
from zkdeployment.base.daemon.metrics import CycleTelemetry, Metric, Probe, gauge, labelled
from zkdeployment.base.errors import LockLostError, RestartError, UnreachableError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.strategies.group_analysis import due_requests
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import restarted_hosts, seconds_until_change
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress
from zkdeployment.strategies.strategy import MemberKind, unmatched_selectors
from zkdeployment.strategies.views import (
    GroupState,
    RolloutProgressState,
    final_report,
    group_state,
    last_movement,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.host import Facts
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.strategies.criteria import OutsideCriterion
    from zkdeployment.strategies.state import ActivePhase, RolloutFacts, RolloutState
    from zkdeployment.strategies.store.records import FencedLead


def rollout_metrics(kind: MemberKind, state: RolloutState | None, *, leads: bool) -> Iterator[Metric]:
    """Yield the metrics of a daemon that leads rollouts over members of a kind; those of rollouts may be empty.

    ``leads`` means that this daemon is the leader, which alone knows the newest rollout.
    """
    yield gauge(f"{kind.leader}_leads", f"1 if this {kind.leader} is the leader.", leads)
    whole, prefix = kind.whole, f"{kind.leader}_{kind.whole}"
    begun, moved, waiting = None, None, None
    labels: dict[tuple[str, ...], float] = {}
    states: dict[str, float] = {}
    groups: dict[str, float] = {}
    hosts: dict[str, float] = {}
    outcomes: dict[str, float] = {}
    measured: float | None = None
    if state is not None:
        strategy, rollout = state.rollout.strategy, state.rollout
        members = frozenset[str]().union(*rollout.members.values())
        host_progress = [progress for host, progress in rollout.hosts.items() if host in members]
        group_states = [group_state(state, group.name) for group in strategy.groups]
        labels = {(str(state.revision), state.id, strategy.name): 1.0}
        is_baking = state.active_phase is not None and state.active_phase.baking_since is not None
        begun, moved, waiting = state.begun, last_movement(state), bool(state.waiting) or is_baking
        states = {known.value: float(known is rollout_state(state)) for known in RolloutProgressState}
        groups = {known.value: group_states.count(known) for known in GroupState}
        hosts = {known.value: host_progress.count(known) for known in HostProgress}
        metrics = [each for analysis in state.analyses.values() for each in analysis.metrics.values()]
        counts = ((each.passed, each.failed, each.no_data) for each in metrics)
        outcomes = dict(zip(("passed", "failed", "no_data"), map(sum, zip(*counts, strict=True)), strict=False))
        measured = max((each.measurements[-1].time for each in metrics if each.measurements), default=None)
    yield Metric(
        f"zkdeployment_{prefix}_info",
        f"The newest {whole}, as labels.",
        labels,
        ("revision", whole, "strategy"),
    )
    yield labelled(f"{prefix}_state", f"1 for the state of the {whole}.", "state", states)
    yield gauge(f"{prefix}_begun_timestamp_seconds", f"When the {whole} began.", begun)
    yield gauge(f"{prefix}_moved_timestamp_seconds", f"When the {whole} last changed.", moved)
    yield gauge(
        f"{prefix}_waiting",
        f"1 while the {whole} waits: for a promotion, a window, a resume or a bake time.",
        waiting,
    )
    yield labelled(f"{prefix}_groups", f"The groups of the {whole}, by state.", "state", groups)
    yield labelled(
        f"{prefix}_measurements",
        f"The measurements of metrics in the {whole}, by outcome.",
        "outcome",
        outcomes,
    )
    yield gauge(
        f"{prefix}_measured_timestamp_seconds",
        f"When a metric of the {whole} was last measured.",
        measured,
    )
    yield labelled(
        f"{prefix}_{kind.noun}s", f"The {kind.noun}s in groups of the {whole}, by state.", "state", hosts
    )


def log_unmatched_selectors(state: RolloutState, known: Mapping[str, Facts]) -> None:
    """Log the selectors of a new rollout's strategy that match none of the ``known`` hosts."""
    for warning in unmatched_selectors(state.rollout.strategy, known):
        get_logger().warning("selector-unmatched", **{state.kind.whole: state.id}, reason=warning)


def log_changes(before: RolloutState | None, after: RolloutState) -> None:
    """Log the changes between two states of a rollout, or its begin if there is no state ``before``."""
    kind = after.kind
    log = get_logger().bind(**{kind.whole: after.id}, revision=after.revision)
    if before is None:
        strategy = after.rollout.strategy
        members = {f"{kind.noun}s": len(after.rollout.hosts)}
        log.info(_event(kind.whole, "begun"), strategy=strategy.name, groups=len(strategy.groups), **members)
        return
    for act in after.acts[len(before.acts) :]:
        log.info("act-applied", act=str(act.act), group=act.group)
    _log_hosts(log, before, after)
    _log_groups(log, before, after)
    if after.active_phase is not None and _task(after.active_phase) != _task(before.active_phase):
        task = after.active_phase.task
        log.info("phase-begun", group=task.group, phase=task.phase.value, **{f"{kind.noun}s": len(task.hosts)})
    if after.waiting and after.waiting != before.waiting:
        log.info(_event(kind.whole, "blocked"), reason=after.waiting)
    if after.recovery is not None and after.recovery != before.recovery:
        log.warning("recovery-changed", stage=after.recovery.stage.value, reason=str(after.recovery))
    if after.ended is not None and before.ended is None:
        log.info(_event(kind.whole, "ended"), result=rollout_state(after).value, report=final_report(after))


def _log_hosts(log: Any, before: RolloutState, after: RolloutState) -> None:
    noun = after.kind.noun
    for host in sorted(after.errors.keys() - before.errors.keys()):
        log.warning(_event(noun, "failed"), **{noun: host}, reason=after.errors[host])
    for host in sorted(restarted_hosts(before, after)):
        reason = f"the {noun} no longer has the revision: it starts again"
        log.warning("deployment-restarted", **{noun: host}, reason=reason)


def _log_groups(log: Any, before: RolloutState, after: RolloutState) -> None:
    members = f"{after.kind.noun}s"
    for name in (group.name for group in after.rollout.strategy.groups):
        progress, former = after.rollout.progress[name], before.rollout.progress[name]
        for phase in (phase for phase in Phase if phase in progress.submitted and phase not in former.submitted):
            log.info("phase-judged", group=name, phase=phase.value, **{members: len(progress.submitted[phase])})
        if progress.verdict is not former.verdict:
            log_verdict = log.error if progress.verdict is GroupVerdict.FAILED else log.info
            log_verdict(
                "group-judged",
                group=name,
                verdict=progress.verdict and progress.verdict.value,
                reason=progress.reason,
            )


def _task(active: ActivePhase | None) -> tuple[str, str] | None:
    return None if active is None else (active.task.group, active.task.phase.value)


def _event(thing: str, happened: str) -> str:
    return f"{thing}-{happened}"


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

    def _pause(self, before: RolloutState, after: RolloutState, observed: RolloutFacts) -> float:
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
