"""The metrics of a coordinator: whether it leads, the newest rollout, and the facts about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.metrics import PACE, Metric, MetricKind, Probe, gauge, labelled, process_metrics
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.views import (
    GroupState,
    RolloutProgressState,
    group_state,
    last_movement,
    rollout_state,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.base.daemon.metrics import DaemonProcess
    from zkdeployment.strategies.state import RolloutState


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFacts:
    """The facts behind a coordinator's metrics.

    ``leads`` means that this coordinator is the leader. ``looks`` counts the coordinator's cycles by outcome.
    ``rollout`` is the newest rollout; only the leader knows it.
    """

    process: DaemonProcess
    leads: bool
    looks: Mapping[str, int]
    rollout: RolloutState | None = None


def coordinator_metrics(facts: CoordinatorFacts) -> tuple[Metric, ...]:
    """Return a coordinator's metrics, ``zkdeployment_coordinator_…``."""
    return (
        *process_metrics("coordinator", facts.process),
        gauge("coordinator_leads", "1 if this coordinator is the leader.", facts.leads),
        labelled(
            "coordinator_looks_total",
            "Cycles of this process, by outcome.",
            "result",
            facts.looks,
            MetricKind.COUNTER,
        ),
        *_rollout_metrics(facts.rollout),
    )


def _rollout_metrics(state: RolloutState | None) -> Iterator[Metric]:
    """Yield the metrics of the newest rollout; they have no samples without a rollout."""
    begun, moved, waiting = None, None, None
    labels: dict[tuple[str, ...], float] = {}
    states: dict[str, float] = {}
    groups: dict[str, float] = {}
    hosts: dict[str, float] = {}
    if state is not None:
        strategy, rollout = state.rollout.strategy, state.rollout
        members = frozenset[str]().union(*rollout.members.values())
        host_progress = [progress for host, progress in rollout.hosts.items() if host in members]
        group_states = [group_state(state, group.name) for group in strategy.groups]
        labels = {(str(state.revision), state.id, strategy.name): 1.0}
        begun, moved, waiting = state.begun, last_movement(state), bool(state.waiting)
        states = {known.value: float(known is rollout_state(state)) for known in RolloutProgressState}
        groups = {known.value: group_states.count(known) for known in GroupState}
        hosts = {known.value: host_progress.count(known) for known in HostProgress}
    yield Metric(
        "zkdeployment_coordinator_rollout_info",
        "The newest rollout, as labels.",
        labels,
        ("revision", "rollout", "strategy"),
    )
    yield labelled("coordinator_rollout_state", "1 for the state of the rollout.", "state", states)
    yield gauge("coordinator_rollout_begun_timestamp_seconds", "When the rollout began.", begun)
    yield gauge("coordinator_rollout_moved_timestamp_seconds", "When the rollout last changed.", moved)
    yield gauge(
        "coordinator_rollout_waiting",
        "1 while the rollout waits: for a promotion, a window or a resume.",
        waiting,
    )
    yield labelled("coordinator_rollout_groups", "The groups of the rollout, by state.", "state", groups)
    yield labelled("coordinator_rollout_hosts", "The hosts in groups of the rollout, by state.", "state", hosts)


#: The results of a coordinator's cycle that did not fail.
_LED, _QUEUED = "led", "queued"


class CoordinatorTelemetry:
    """Records the cycles of one coordinator; ``failures`` names the results of failed cycles."""

    def __init__(self, probe: Probe, failures: Iterable[str]) -> None:
        self._probe = probe
        self._looks = dict.fromkeys((_LED, _QUEUED, *failures), 0)
        self._leads = False
        self._running: RolloutState | None = None
        self._due = 0.0

    def lead(self, state: RolloutState | None) -> None:
        """Record a cycle in which this coordinator leads, with the newest rollout if there is one."""
        self._leads, self._running = True, state
        self._looks[_LED] += 1

    def show(self, state: RolloutState) -> None:
        """Record the new state of the newest rollout."""
        self._running = state

    def queue(self) -> None:
        """Record a cycle in which another coordinator leads."""
        self._leads, self._running = False, None
        self._looks[_QUEUED] += 1

    def fail(self, failure: str, *, leads: bool) -> None:
        """Record a failed cycle; ``leads``: whether this coordinator leads nevertheless."""
        self._leads = leads
        self._running = self._running if leads else None
        self._looks[failure] += 1

    def beat(self) -> None:
        """Write all metrics unless they were written within the last ``PACE`` seconds."""
        if self._probe.clock.monotonic() >= self._due:
            self.write()

    def write(self, *, up: bool = True) -> None:
        """Write all metrics; ``up``: whether the coordinator continues."""
        self._due = self._probe.clock.monotonic() + PACE
        process = self._probe.process(up=up)
        facts = CoordinatorFacts(
            process=process, leads=self._leads and up, looks=self._looks, rollout=self._running if up else None
        )
        self._probe.file.write(coordinator_metrics(facts))
