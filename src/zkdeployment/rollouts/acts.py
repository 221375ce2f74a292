"""The acts on the present rollout: promote a group, pause, resume and abort; and where they are offered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.text import counted
from zkdeployment.service.act import ActLink, ActRight, RecordedAct, given
from zkdeployment.service.acts import OperatorAct
from zkdeployment.strategies.state import Directive, RolloutState
from zkdeployment.strategies.state_machine import GroupVerdict
from zkdeployment.strategies.views import directive_description, directive_objection

if TYPE_CHECKING:
    from zkdeployment.fleet.ports import OperatorAdapters
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

    RIGHT: ClassVar = ActRight("direct the rollout")
    ANSWER: ClassVar = DirectedRollout
    DIRECTIVE: ClassVar[Directive]
    CONSEQUENCES: ClassVar[tuple[str, ...]] = ()

    group: str | None = None

    def read(self, visit: Visit) -> RolloutState | None:
        """Return the cached rollout."""
        return visit.adapters.feed.snapshot().fleet.rollout

    def objection(self, found: RolloutState | None) -> str:
        """Return why the rollout does not accept the directive."""
        if found is None:
            return "There is no rollout at present."
        return directive_objection(found, self.DIRECTIVE, self.group or None) or ""

    def title(self, found: RolloutState | None) -> str:
        """Name the directive, if there is a rollout."""
        return "Act on the rollout" if found is None else self.BUTTON

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:  # noqa: ARG002  a promotion needs it
        """Return what hosts do then."""
        return self.CONSEQUENCES

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> DirectedRollout:
        """Record the directive for the coordinator."""
        act = actor.record(self, directive_description(self.DIRECTIVE, self.group))
        state = adapters.rollouts.direct(self.DIRECTIVE, act, self.group)
        return DirectedRollout(RecordedAct.of(act), state.id, adapters.rollouts.coordinator() is not None)


@dataclass(frozen=True, kw_only=True)
class PromoteGroup(DirectRollout):
    """Permit a group of the present rollout to begin as soon as all groups that it depends on have succeeded."""

    NAME: ClassVar = "rollout-promote"
    BUTTON: ClassVar = "Promote the group"
    PATH: ClassVar = "rollout/promote"
    OPERATION: ClassVar = "promote"
    REQUEST: ClassVar = "The promotion of a group of the present rollout."
    DIRECTIVE: ClassVar = Directive.PROMOTE

    group: str = given(least=1, most=200, hidden=True)

    def title(self, found: RolloutState | None) -> str:
        """Name the group."""
        return super().title(found) if found is None else f"Promote group {self.group}"

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        """Return how many hosts begin."""
        members = frozenset() if found is None else found.rollout.members.get(self.group, frozenset())
        return (f"The group begins as soon as its turn comes: {counted(len(members), 'host', ',')}.",)


@dataclass(frozen=True, kw_only=True)
class PauseRollout(DirectRollout):
    """Start no further hosts in the present rollout."""

    NAME: ClassVar = "rollout-pause"
    BUTTON: ClassVar = "Pause the rollout"
    PATH: ClassVar = "rollout/pause"
    OPERATION: ClassVar = "pause"
    DIRECTIVE: ClassVar = Directive.PAUSE
    CONSEQUENCES: ClassVar = (
        "Hosts that deploy now finish. No other host begins.",
        "The rollout continues when an operator resumes it.",
    )


@dataclass(frozen=True, kw_only=True)
class ResumeRollout(DirectRollout):
    """Continue a paused rollout."""

    NAME: ClassVar = "rollout-resume"
    BUTTON: ClassVar = "Resume the rollout"
    PATH: ClassVar = "rollout/resume"
    OPERATION: ClassVar = "resume_rollout"
    REQUEST: ClassVar = "An act that needs no reason."
    NEEDS_REASON: ClassVar = False
    DIRECTIVE: ClassVar = Directive.RESUME
    CONSEQUENCES: ClassVar = ("The rollout continues where it was paused.",)


@dataclass(frozen=True, kw_only=True)
class AbortRollout(DirectRollout):
    """End the present rollout as failed, which stops the fleet."""

    NAME: ClassVar = "rollout-abort"
    BUTTON: ClassVar = "Abort the rollout"
    STYLE: ClassVar = "danger"
    PATH: ClassVar = "rollout/abort"
    OPERATION: ClassVar = "abort"
    DIRECTIVE: ClassVar = Directive.ABORT
    CONSEQUENCES: ClassVar = (
        "Hosts that deploy now finish. No other host begins, and the fleet stops.",
        "Hosts that have the new revision keep it. To go back, roll back to an older publication.",
    )


ACTS: tuple[type[PlannedAct[Any]], ...] = (PromoteGroup, PauseRollout, ResumeRollout, AbortRollout)


def rollout_acts(state: RolloutState, back: str) -> tuple[ActLink, ...]:
    """Return the acts that a rollout accepts now; the promotions of groups are in ``promotion``."""
    return tuple(
        act.link(act.BUTTON, "" if act is PauseRollout else act.STYLE, back)
        for act in (ResumeRollout, PauseRollout, AbortRollout)
        if directive_objection(state, act.DIRECTIVE) is None
    )


def promotion(state: RolloutState, group: GroupStatus, back: str) -> ActLink | None:
    """Return the link that promotes a group, if the rollout accepts that; it stands out if the group is next."""
    if directive_objection(state, Directive.PROMOTE, group.name) is not None:
        return None
    progress = state.rollout.progress
    is_next = all(progress[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on)
    return PromoteGroup.link("Promote", "primary" if is_next else "", back, group=group.name)
