"""Rollout states at chosen points of a rollout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.strategies import EXAMPLE_HOSTS, example
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.state import ActivePhase, Ending, RolloutState
from zkdeployment.strategies.state_machine import begin, next_task, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.strategies.strategy import Strategy

#: The time at which these rollouts began.
BEGUN = 1_000.0


def begun_rollout(
    strategy: Strategy | None = None, hosts: Mapping[str, Facts] | None = None, **fields: Any
) -> RolloutState:
    """Return a rollout (default: of the example strategy) at its begin: no group has started."""
    rollout = begin(strategy or example(), EXAMPLE_HOSTS if hosts is None else hosts)
    return replace(RolloutState(7, 1, "r2", rollout, fields.pop("begun", BEGUN)), **fields)


def advanced_rollout(state: RolloutState, *failing: str, until: str | None = None) -> RolloutState:
    """Return the rollout after all tasks before the group ``until``, in which the ``failing`` hosts failed."""
    while (task := next_task(state.rollout)) is not None and task.group != until:
        good = [host for host in task.hosts if host not in failing]
        state = replace(state, rollout=record(state.rollout, task, good))
    return state


def active_rollout(
    state: RolloutState,
    *,
    granted: Iterable[str] = (),
    done: Iterable[str] = (),
    failed: Iterable[str] = (),
    baking: float | None = None,
) -> RolloutState:
    """Return the rollout with its next task as the active phase."""
    task = next_task(state.rollout)
    assert task is not None
    reports = {host: PhaseReport(BEGUN + 30) for host in done} | {
        host: PhaseReport(BEGUN + 40, "boom") for host in failed
    }
    granted_at = dict.fromkeys([*granted, *reports], BEGUN + 10)
    return replace(
        state,
        active_phase=ActivePhase(task, BEGUN + 5, BEGUN + 50, granted_at, reports, baking_since=baking),
    )


def ended_rollout(state: RolloutState, ending: Ending = Ending.COMPLETED) -> RolloutState:
    """Return the rollout after it ended."""
    return replace(state, ended=BEGUN + 100, ending=ending, active_phase=None)
