"""The criterion ``healthy_checks``: the checks of a group's hosts have to be OK at the end of its bake time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.strategies.criteria import Criterion, Judgement, proving
from zkdeployment.strategies.timekeeping import baked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.strategies.state import ActivePhase, RolloutObservation, RolloutState

#: The name of the criterion.
CHECKS = "checks"

#: Seconds after all hosts of a group are done in which their checks must have results.
CHECKS_TIMEOUT = 900.0


@dataclass(frozen=True, slots=True)
class HostHealth:
    """The hosts that are not healthy, each with the reason.

    ``unhealthy`` are the hosts with a check that is not OK, ``unchecked`` the hosts with a check that has no
    result since the deployment, or does not run yet.
    """

    unhealthy: Mapping[str, str] = field(default_factory=dict)
    unchecked: Mapping[str, str] = field(default_factory=dict)


def checked(state: RolloutState, now: float) -> Mapping[str, float]:
    """Return the hosts whose checks decide now, after the bake time, each with the time of its deployment."""
    active = state.active_phase
    if active is None or active.baking_since is None:
        return {}
    pace = state.rollout.strategy.group(active.task.group).pace
    if not pace.healthy_checks or not baked(state, active, now):
        return {}
    deployed = {host: report.time for host, report in active.reports.items()}
    return {host: deployed.get(host, state.begun) for host in sorted(proving(state))}


def _note(state: RolloutState, _active: ActivePhase, _observation: RolloutObservation) -> RolloutState:
    return state


def _judge(
    _state: RolloutState, active: ActivePhase, hosts: Collection[str], observation: RolloutObservation
) -> Judgement:
    health = observation.outside.get(CHECKS, HostHealth())
    errors = {host: error for host, error in {**health.unchecked, **health.unhealthy}.items() if host in hosts}
    limit = (active.baking_since or 0.0) + CHECKS_TIMEOUT
    if observation.now < limit and not health.unchecked.keys().isdisjoint(hosts):
        return Judgement(errors, is_pending=True, moments=(limit,))
    return Judgement(errors)


HEALTHY_CHECKS = Criterion(_note, _judge)
