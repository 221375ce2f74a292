"""The analyses of rollouts: a simulated server of metrics, and what their measurements have to decide."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.green import EPOCH
from zkdeployment.rollouts.measuring import NoDataError, Sample
from zkdeployment.strategies.analysis import MetricProgress, Outcome
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import GroupVerdict
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulation.server_tree import Change
    from simulation.world import World
    from zkdeployment.strategies.state import RolloutState

#: The group whose metric decides.
CANARY = "canary"

#: The values that pass, and that do not.
HEALTHY, UNHEALTHY = 0.0, 1.0

#: Seconds without a record of a coordinator that do not count for an analysis.
_UNLED = 60.0

#: The most seconds under a coordinator without a measurement, which is due every ten seconds.
_MOST_SECONDS = 120.0


def canary_metric(failure_limit: int) -> dict[str, object]:
    """Return the metric of the canary as a part of a strategy's document."""
    return {
        "name": "errors",
        "query": 'errors{host=~"$hosts"}',
        "pass": "<= 0.5",
        "interval": "10s",
        "failure_limit": failure_limit,
        "compare": "before",
    }


class SimulatedMetrics:
    """A server of metrics, which has the present value of the world; without one it does not answer."""

    graph = ""

    def __init__(self, world: World) -> None:
        self._world = world

    def query(self, _query: str, at: float | None = None) -> Sample:
        """Return the present value after a while."""
        self._world.take_time(0.0, 2.0)
        if self._world.metric is None:
            raise NoDataError("the server does not answer", is_silent=True)
        return Sample(self._world.metric, EPOCH + self._world.now if at is None else at)


@dataclass
class _Bake:
    """A bake time of the canary: the time of its last record, and the seconds since its last measurement."""

    last: float
    measured: int
    is_halted: bool
    idle: float = 0.0


class AnalysisChecks:
    """Checks the recorded measurements of canaries, and the grants of the hosts that come after them.

    The verdict has to be that of the recorded outcomes. A failed canary has no successors. The time without a
    coordinator does not replace measurements.
    """

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._failed: set[str] = set()  # the rollouts whose canary failed
        self._bakes: dict[str, _Bake] = {}

    def committed(self, changes: Sequence[Change]) -> None:
        """Check the records of rollouts and the grants in a transaction."""
        for change in changes:
            if change.kind == "delete" or not change.path.startswith(f"{paths.ROLLOUTS}/"):
                continue
            rollout, _, child = change.path.removeprefix(f"{paths.ROLLOUTS}/").partition("/")
            if not child:
                self._check_state(decode_state(change.data))
            elif child.startswith("grants/") and rollout in self._failed:
                grant = json.loads(change.data)
                if grant["group"] != CANARY and grant["phase"] is not None:
                    self._fail(f"{rollout} grants {grant['phase']} of {grant['group']} after its canary failed")

    def _check_state(self, state: RolloutState) -> None:
        group = state.rollout.strategy.group(CANARY) if CANARY in state.rollout.members else None
        analysis = state.analyses.get(CANARY)
        if group is None or not group.pace.analysis or analysis is None:
            return
        (metric,) = group.pace.analysis
        progress, verdict = analysis.progress(metric), state.rollout.progress[CANARY].verdict
        outcomes = [measurement.outcome for measurement in progress.measurements]
        if outcomes.count(Outcome.FAILED) > metric.failure_limit:
            self._failed.add(state.id)
        if verdict is GroupVerdict.SUCCESS and not analysis.promoted:
            if state.id in self._failed or analysis.rejection:
                self._fail(f"the canary of {state.id} succeeded after its metric failed")
            if Outcome.PASSED not in outcomes:
                self._fail(f"the canary of {state.id} succeeded without a measurement that passed")
        self._check_pace(state, progress, is_decided=analysis.promoted or bool(analysis.rejection))

    def _check_pace(self, state: RolloutState, progress: MetricProgress, *, is_decided: bool) -> None:
        """Check that measurements went on during the whole bake time, as far as a coordinator led."""
        active, bake, now = state.active_phase, self._bakes.pop(state.id, None), self._world.now
        measured = progress.passed + progress.failed + progress.no_data
        if bake is not None and not bake.is_halted:
            led = now - bake.last if now - bake.last <= _UNLED else 0.0
            bake.idle = 0.0 if measured > bake.measured else bake.idle + led
            if bake.idle > _MOST_SECONDS and not is_decided:
                self._fail(f"the canary of {state.id} was not measured for {bake.idle:.0f} s of its bake time")
        is_canary = active is not None and (active.task.group, active.task.phase) == (CANARY, Phase.DEPLOY)
        if active is not None and is_canary and active.baking_since is not None and not progress.is_final:
            idle = 0.0 if bake is None or measured < bake.measured else bake.idle
            self._bakes[state.id] = _Bake(now, measured, state.halted_since is not None, idle)
