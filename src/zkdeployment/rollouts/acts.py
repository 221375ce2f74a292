"""The acts on the present rollout: promote a group, pause, resume and abort; and where they are offered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.text import counted
from zkdeployment.service.act import ActLink, ActRight, RecordedAct, given
from zkdeployment.service.acts import OperatorAct, fleet_situation
from zkdeployment.strategies.group_analysis import waiting_reason
from zkdeployment.strategies.state import Directive, RolloutState
from zkdeployment.strategies.state_machine import GroupVerdict
from zkdeployment.strategies.views import directive_description, directive_objection, directive_situation

if TYPE_CHECKING:
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.act import Actor, PlannedAct, Visit
    from zkdeployment.strategies.views import GroupStatus


@dataclass(frozen=True, slots=True)
class DirectedRollout:
    """A directive to the coordinator: the rollout that it concerns, and whether a coordinator runs."""

    act: RecordedAct
    rollout: str
    coordinator: bool


@dataclass(frozen=True, kw_only=True)
class DirectRollout(OperatorAct["RolloutState | None"]):
    """A directive to the coordinator of the present rollout."""

    RIGHT = ActRight("direct the rollout")
    ANSWER = DirectedRollout
    DIRECTIVE: ClassVar[Directive]
    CONSEQUENCES: ClassVar[tuple[str, ...]] = ()

    group: str | None = None

    def read(self, visit: Visit) -> RolloutState | None:
        return visit.adapters.feed.snapshot().fleet.rollout

    def objection(self, found: RolloutState | None) -> str:
        if found is None:
            return "There is no rollout at present."
        return directive_objection(found, self.DIRECTIVE, self.group or None) or ""

    def situation(self, found: RolloutState | None, visit: Visit) -> str:
        situation = directive_situation(found, self.DIRECTIVE, self.group)
        return situation and f"{situation}; {fleet_situation(visit.adapters.feed.snapshot().fleet)}"

    def title(self, found: RolloutState | None) -> str:
        return "Act on the rollout" if found is None else self.BUTTON

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        return self.CONSEQUENCES

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> DirectedRollout:
        act = actor.record(self, directive_description(self.DIRECTIVE, self.group))
        state = adapters.rollouts.direct(self.DIRECTIVE, act, self.group)
        return DirectedRollout(RecordedAct.of(act), state.id, adapters.rollouts.coordinator() is not None)


@dataclass(frozen=True, kw_only=True)
class PromoteGroup(DirectRollout):
    """Let a group of the present rollout pass whose metrics wait, or begin when its turn comes."""

    NAME = "rollout-promote"
    BUTTON = "Promote the group"
    PATH = "rollout/promote"
    OPERATION = "promote"
    REQUEST = "The promotion of a group of the present rollout."
    DIRECTIVE = Directive.PROMOTE

    group: str = given(least=1, most=200, hidden=True)

    def title(self, found: RolloutState | None) -> str:
        return super().title(found) if found is None else f"Promote group {self.group}"

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        members = frozenset() if found is None else found.rollout.members.get(self.group, frozenset())
        hosts = counted(len(members), "host", ",")
        if found is not None and waiting_reason(found, self.group):
            return (f"The group passes without a verdict of its metrics: {hosts}.", "Groups after it may begin.")
        return (f"The group begins as soon as its turn comes: {hosts}.",)


@dataclass(frozen=True, kw_only=True)
class FailGroup(DirectRollout):
    """Fail a group whose metrics wait for data, as if a metric had failed."""

    NAME = "rollout-fail"
    BUTTON = "Fail the group"
    STYLE = "danger"
    PATH = "rollout/fail"
    OPERATION = "fail_group"
    REQUEST = "The failure of a group of the present rollout."
    DIRECTIVE = Directive.FAIL

    group: str = given(least=1, most=200, hidden=True)

    def title(self, found: RolloutState | None) -> str:
        return super().title(found) if found is None else f"Fail group {self.group}"

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        groups = () if found is None else found.rollout.strategy.groups
        critical = any(group.name == self.group and group.critical for group in groups)
        ending = "The fleet stops when all other groups have ended." if critical else "Other groups continue."
        return (f"The group and all groups that depend on it fail. {ending}",)


class PauseRollout(DirectRollout):
    """Start no further hosts in the present rollout."""

    NAME = "rollout-pause"
    BUTTON = "Pause the rollout"
    PATH = "rollout/pause"
    OPERATION = "pause"
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
    return tuple(
        act.link(act.BUTTON, "" if act is PauseRollout else act.STYLE, back)
        for act in (ResumeRollout, PauseRollout, AbortRollout)
        if directive_objection(state, act.DIRECTIVE) is None
    )


def group_acts(state: RolloutState, group: GroupStatus, back: str) -> tuple[ActLink, ...]:
    """Return the links that promote or fail a group, if the rollout accepts that.

    The promotion of the next group is emphasised.
    """
    progress = state.rollout.progress
    is_next = all(progress[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on)
    links = (
        (Directive.PROMOTE, PromoteGroup.link("Promote", "primary" if is_next else "", back, group=group.name)),
        (Directive.FAIL, FailGroup.link("Fail", FailGroup.STYLE, back, group=group.name)),
    )
    return tuple(link for directive, link in links if directive_objection(state, directive, group.name) is None)
