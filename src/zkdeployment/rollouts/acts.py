"""The acts on the present rollout: promote a group, pause, resume and abort; and where they are offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zkdeployment.base.act import Act, ActRight
from zkdeployment.base.values import dataclass
from zkdeployment.service.act import EmergencyAct, PlannedAct, RecordedAct, Visit
from zkdeployment.service.acts import fleet_situation
from zkdeployment.service.directives import DirectiveAct, GroupDirective, directive_links
from zkdeployment.strategies.state import Directive, RolloutState
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.views.frame import ActLink
    from zkdeployment.strategies.views import GroupStatus


@dataclass(frozen=True, slots=True)
class DirectedRollout:
    """A directive to the coordinator: the rollout that it concerns, and whether a coordinator runs."""

    act: RecordedAct
    rollout: str
    coordinator: bool


class DirectRollout(DirectiveAct):
    """A directive to the coordinator of the present rollout."""

    RIGHT = ActRight("direct the rollout")
    ANSWER = DirectedRollout
    KIND = MemberKind.HOST

    def read(self, visit: Visit) -> RolloutState | None:
        return visit.adapters.feed.snapshot().fleet.rollout

    def situation(self, found: RolloutState | None, visit: Visit) -> str:
        situation = super().situation(found, visit)
        return situation and f"{situation}; {fleet_situation(visit.adapters.feed.snapshot().fleet)}"

    def direct(self, adapters: OperatorAdapters, act: Act) -> RolloutState:
        return adapters.rollouts.direct(self.DIRECTIVE, act, self.group)


class PromoteGroup(GroupDirective, DirectRollout):
    """Let a group of the present rollout pass whose metrics wait, or begin that waits for it."""

    NAME = "rollout-promote"
    BUTTON = "Promote the group"
    DIRECTIVE = Directive.PROMOTE
    PATH = "rollout/promote"
    OPERATION = "promote"
    REQUEST = "The promotion of a group of the present rollout."


class FailGroup(GroupDirective, DirectRollout):
    """Fail a group whose metrics wait for data, as if a metric had failed."""

    NAME = "rollout-fail"
    BUTTON = "Fail the group"
    STYLE = "danger"
    DIRECTIVE = Directive.FAIL
    PATH = "rollout/fail"
    OPERATION = "fail_group"
    REQUEST = "The failure of a group of the present rollout."

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        groups = () if found is None else found.rollout.strategy.groups
        critical = any(group.name == self.group and group.critical for group in groups)
        ending = "The fleet stops when all other groups have ended." if critical else "Other groups continue."
        return (f"The group and all groups that depend on it fail. {ending}",)


class PauseRollout(EmergencyAct, DirectRollout):
    """Start no further hosts in the present rollout."""

    NAME = "rollout-pause"
    BUTTON = "Pause the rollout"
    PATH = "rollout/pause"
    OPERATION = "pause"
    REFUSAL = "NOT paused"
    DIRECTIVE = Directive.PAUSE
    CONSEQUENCES = (
        "Hosts that deploy now finish. No other host begins.",
        "The rollout continues when an operator resumes it.",
    )


class ResumeRollout(DirectRollout):
    """Continue a paused rollout."""

    NAME = "rollout-resume"
    BUTTON = "Resume the rollout"
    PATH = "rollout/resume"
    OPERATION = "resume_rollout"
    REQUEST = "An act that needs no reason."
    NEEDS_REASON = False
    DIRECTIVE = Directive.RESUME
    CONSEQUENCES = ("The rollout continues where it was paused.",)


class AbortRollout(DirectRollout):
    """End the present rollout as failed, which stops the fleet."""

    NAME = "rollout-abort"
    BUTTON = "Abort the rollout"
    STYLE = "danger"
    PATH = "rollout/abort"
    OPERATION = "abort"
    DIRECTIVE = Directive.ABORT
    CONSEQUENCES = (
        "Hosts that deploy now finish. No other host begins, and the fleet stops.",
        "Hosts that have the new revision keep it. To go back, roll back to an older publication.",
    )


ACTS: tuple[type[PlannedAct[Any]], ...] = (PromoteGroup, FailGroup, PauseRollout, ResumeRollout, AbortRollout)


def rollout_acts(state: RolloutState, back: str) -> tuple[ActLink, ...]:
    """Return the acts that a rollout accepts now; those of groups are in ``group_acts``."""
    return directive_links((ResumeRollout, PauseRollout, AbortRollout), state, back)


def group_acts(state: RolloutState, group: GroupStatus, back: str) -> tuple[ActLink, ...]:
    """Return the links that promote or fail a group, if the rollout accepts that."""
    return directive_links((PromoteGroup, FailGroup), state, back, group=group.name)
