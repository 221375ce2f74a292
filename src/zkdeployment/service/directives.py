"""Directives to the daemon that leads a rollout, as acts: the common parts of those on rollouts and promotions."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.service.act import Actor, RecordedAct, Visit, given
from zkdeployment.service.acts import OperatorAct
from zkdeployment.strategies.group_analysis import waiting_reason
from zkdeployment.strategies.state import Directive, RolloutState
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.strategies.views import directive_description, directive_objection, directive_situation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.views.frame import ActLink
    from zkdeployment.strategies.strategy import MemberKind


@dataclass(frozen=True, kw_only=True)
class DirectiveAct(OperatorAct["RolloutState | None"]):
    """A directive about the newest rollout over members of a ``KIND``.

    The fields of its ``ANSWER`` are the record of the act, the id of the rollout, and whether a leader runs.
    """

    KIND: ClassVar[MemberKind]
    DIRECTIVE: ClassVar[Directive]
    CONSEQUENCES: ClassVar[tuple[str, ...]] = ()

    group: str | None = None

    @abstractmethod
    def direct(self, adapters: OperatorAdapters, act: Act) -> RolloutState:
        """Record the directive and return the rollout; raises ``RefusedError`` if it is not allowed."""

    def title(self, found: RolloutState | None) -> str:
        if found is None:
            return f"Act on the {self.KIND.whole}"
        return self.BUTTON if self.group is None else self.BUTTON.replace(" the group", f" group {self.group}")

    def objection(self, found: RolloutState | None) -> str:
        if found is None:
            return f"There is no {self.KIND.whole} at present."
        return directive_objection(found, self.DIRECTIVE, self.group or None) or ""

    def situation(self, found: RolloutState | None, visit: Visit) -> str:
        return directive_situation(found, self.DIRECTIVE, self.group)

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        return self.CONSEQUENCES

    def remarks(self, done: Any) -> tuple[str, ...]:
        """Return sentences that the verb prints about the outcome, besides the outcome itself."""
        del done
        return ()

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Any:
        act = actor.record(self, directive_description(self.DIRECTIVE, self.group, self.KIND))
        state = self.direct(adapters, act)
        return self.ANSWER(RecordedAct.of(act), state.id, read_leader(adapters.session, self.KIND) is not None)


@dataclass(frozen=True, kw_only=True)
class GroupDirective(DirectiveAct):
    """A directive about a group of the newest rollout, with the consequences of its promotion."""

    group: str = given(least=1, most=200, hidden=True)

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        if self.CONSEQUENCES:
            return self.CONSEQUENCES
        members = frozenset() if found is None else found.rollout.members.get(self.group, frozenset())
        size = counted(len(members), self.KIND.noun, ",")
        if found is not None and waiting_reason(found, self.group):
            return (f"The group passes without a verdict of its metrics: {size}.", "Groups after it may begin.")
        if found is not None and found.paused is not None:
            return (f"The group begins after an operator resumes the {self.KIND.whole}: {size}.",)
        return (f"The group begins as soon as {self.KIND.noun}s may start: {size}.",)


def directive_links(
    acts: Sequence[type[DirectiveAct]], state: RolloutState, back: str, **group: str
) -> tuple[ActLink, ...]:
    """Return the links to the acts that a rollout, or one ``group`` of it, accepts now."""
    return tuple(
        act.link(
            act.BUTTON.removesuffix(" the group"),
            "" if act.DIRECTIVE is Directive.PAUSE else act.STYLE,
            back,
            **group,
        )
        for act in acts
        if directive_objection(state, act.DIRECTIVE, group.get("group")) is None
    )
