"""Decides which directives of operators (promote, pause, resume, abort) a rollout accepts in its present state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.rollouts.states import rollout_state
from zkdeployment.rollout.absence import shortage
from zkdeployment.rollout.late_joiners import is_open
from zkdeployment.rollout.state import Directive
from zkdeployment.rollout.state_machine import GroupVerdict

if TYPE_CHECKING:
    from zkdeployment.rollout.state import RolloutState


def directive_objection(state: RolloutState, directive: Directive, group: str | None = None) -> str | None:
    """Return why a directive would have no effect on a rollout; ``None`` if the rollout accepts the directive."""
    if state.ended is not None and not _acts_on_late_joiners(state, directive):
        return f"the rollout {state.id} is over: {rollout_state(state).value}"
    match directive:
        case Directive.PROMOTE:
            return _promotion_objection(state, group)
        case Directive.PAUSE if state.paused is not None:
            return f"the rollout {state.id} is paused already: {state.paused}"
        case Directive.RESUME if state.paused is None:
            return f"the rollout {state.id} is not paused"
    return None


def directive_description(directive: Directive, group: str | None = None) -> str:
    """Return a directive in the words of the record of acts."""
    return f"rollout {directive.value}" + ("" if group is None else f" {group}")


def _acts_on_late_joiners(state: RolloutState, directive: Directive) -> bool:
    """Return whether a directive has an effect on hosts that join a rollout after its end."""
    if directive is Directive.ABORT:
        return bool(state.late_joiners) and is_open(state)
    return directive in {Directive.PAUSE, Directive.RESUME} and is_open(state)


def _promotion_objection(state: RolloutState, name: str | None) -> str | None:
    groups = {group.name: group for group in state.rollout.strategy.groups}
    if name not in groups:
        return f"there is no group {name} in {state.rollout.strategy.name}; expected one of: {', '.join(groups)}"
    course = state.rollout.progress[name]
    if course.verdict is GroupVerdict.FAILED:
        return f"the group {name} failed: {course.reason}"
    if groups[name].pace.manual and name not in state.promoted:
        return None
    if course.verdict is None and shortage(state, name):
        return None
    if name in state.promoted | state.forced:
        return f"the group {name} was promoted already"
    return f"the group {name} is not manual, and its required hosts are registered: it begins without a promotion"
