"""The place for criteria that wait, during the bake time of a group, for something outside of the rollout.

A criterion has two halves: a ``Criterion`` decides, and an ``OutsideCriterion`` of a feature reads the facts for
it in the background of a coordinator. The decision about ``healthy_checks`` is here, that about metrics in
``group_analysis``; ``phases`` has the list.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

from zkdeployment.base.values import dataclass
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.timekeeping import baked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.strategies.state import ActivePhase, RolloutFacts, RolloutState


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a criterion on a group that bakes.

    ``errors`` are those of hosts that fail at the end of the bake time. A ``fault`` fails the group at once. While
    the criterion ``is_pending``, the group gets no verdict. ``held`` is the reason for which it needs an operator
    after that. ``moments`` are times at which the judgement may change, in seconds since the epoch.
    """

    errors: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    is_pending: bool = False
    held: str = ""
    moments: tuple[float, ...] = ()


class Criterion(NamedTuple):
    """The decisions of a criterion.

    ``note`` returns the rollout with the facts that were observed about its active phase. ``judge`` receives the
    hosts that have to stay healthy.
    """

    note: Callable[[RolloutState, ActivePhase, RolloutFacts], RolloutState]
    judge: Callable[[RolloutState, ActivePhase, Collection[str], RolloutFacts], Judgement]


@dataclass(frozen=True, slots=True)
class OutsideCriterion:
    """The half of a criterion that reads facts from outside of the rollout.

    ``start`` begins its work in the background of a coordinator, which works only while that coordinator leads;
    ``close`` ends the work. ``read`` receives the rollout and the present time in seconds since the epoch; it
    returns the facts that are known, and does not wait for others. A ``Judgement`` instead of facts counts
    unchanged, for each group that bakes.
    """

    name: str
    start: Callable[[], None]
    close: Callable[[], None]
    read: Callable[[RolloutState, float], Any]


def proving_in(state: RolloutState, active: ActivePhase) -> frozenset[str]:
    """Return the hosts of a group that have the revision but have not stayed healthy for a bake time yet.

    A group with an analysis is measured with all its hosts, also with those that were healthy in another group.
    """
    states, group = state.rollout.hosts, state.rollout.strategy.group(active.task.group)
    had = {host for host in state.rollout.members[group.name] if states[host] is HostProgress.SUCCESS}
    if not group.pace.analysis:
        had -= state.proven
    return frozenset(had.union(host for host, report in active.reports.items() if report.error is None))


def proving(state: RolloutState) -> frozenset[str]:
    """Return the hosts that have to stay healthy now, during the bake time of the active phase."""
    active = state.active_phase
    return frozenset() if active is None or active.baking_since is None else proving_in(state, active)


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


def _note(state: RolloutState, _active: ActivePhase, _facts: RolloutFacts) -> RolloutState:
    return state


def _judge(state: RolloutState, active: ActivePhase, hosts: Collection[str], facts: RolloutFacts) -> Judgement:
    health: HostHealth | None = facts.outside.get(CHECKS, HostHealth())
    if health is None:  # the checks did not decide yet when they should have been read
        decides = state.rollout.strategy.group(active.task.group).pace.healthy_checks
        is_pending = decides and baked(state, active, facts.now)
        return Judgement(is_pending=is_pending, moments=(facts.now,) if is_pending else ())
    errors = {host: error for host, error in {**health.unchecked, **health.unhealthy}.items() if host in hosts}
    limit = (active.baking_since or 0.0) + CHECKS_TIMEOUT
    if facts.now < limit and not health.unchecked.keys().isdisjoint(hosts):
        return Judgement(errors, is_pending=True, moments=(limit,))
    return Judgement(errors)


HEALTHY_CHECKS = Criterion(_note, _judge)
