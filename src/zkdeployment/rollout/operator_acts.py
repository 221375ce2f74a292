"""Operators' acts on a rollout: promote, pause, resume and abort."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import late_joiners, lifecycle
from zkdeployment.rollout.state import Directive, Ending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.rollout.state import RolloutAct, RolloutState


def apply_acts(state: RolloutState, acts: Iterable[RolloutAct], now: float) -> RolloutState:
    """Return the rollout after the acts that are new to it, in order.

    An act on a rollout that no host may enter any more has no effect.
    """
    for act in acts:
        if act.number <= state.last_act_number or not late_joiners.is_open(state):
            continue
        state = replace(state, last_act_number=act.number, acts=(*state.acts, act))
        match act.directive:
            case Directive.PROMOTE:
                state = _promote(state, act.group or "")
            case Directive.PAUSE:
                state = replace(state, paused=act.act)
            case Directive.RESUME:
                state = replace(state, paused=None)
            case Directive.ABORT:
                state = lifecycle.end(state, Ending.ABORTED, now)
    return state


def _promote(state: RolloutState, name: str) -> RolloutState:
    """Allow a manual group to begin; a promoted or automatic group may then begin without its required hosts."""
    manual = {group.name for group in state.rollout.strategy.groups if group.pace.manual}
    if name in manual - state.promoted:
        return replace(state, promoted=state.promoted | {name})
    return replace(state, forced=state.forced | {name})
