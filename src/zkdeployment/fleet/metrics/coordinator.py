"""The metrics of a coordinator: whether it leads, and the newest rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.fleet.metrics.metric import Metric, MetricKind, gauge, labelled, process_metrics
from zkdeployment.fleet.rollouts.states import (
    GroupState,
    RolloutProgressState,
    group_state,
    last_movement,
    rollout_state,
)
from zkdeployment.rollout.state_machine import HostProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.fleet.metrics.metric import DaemonProcess
    from zkdeployment.rollout.state import RolloutState


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFacts:
    """The facts behind a coordinator's metrics.

    ``leads`` means that this coordinator is the leader. ``looks`` counts its cycles by outcome. ``rollout`` is the
    newest rollout; only the leader knows it.
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
