"""The acts on promotions: directives to the promoter, and fleets to which nothing is promoted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from zkdeployment.base.text import counted
from zkdeployment.promotion import store
from zkdeployment.service.act import ActRight, RecordedAct, given
from zkdeployment.service.acts import OperatorAct
from zkdeployment.strategies.group_analysis import waiting_reason
from zkdeployment.strategies.progress import has_failed
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.store.records import read_leader
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import directive_description, directive_objection, directive_situation

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.promotion.feed import PromotionReading
    from zkdeployment.service.act import ActLink, Actor, PlannedAct, Visit
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.views import GroupStatus

#: The page with the links to the forms.
PAGE = "/fleets"

RIGHT = ActRight("direct the promotion")


@dataclass(frozen=True, slots=True)
class DirectedPromotion:
    """A directive to the promoter: the promotion that it concerns, and whether a promoter runs."""

    act: RecordedAct
    promotion: str
    promoter: bool


class _PromotionAct(OperatorAct["PromotionReading"]):
    RIGHT = RIGHT

    def read(self, visit: Visit) -> PromotionReading:
        from zkdeployment.promotion.feed import PROMOTION_PART  # noqa: PLC0415  verbs start faster without it

        return visit.adapters.feed.snapshot().reading.of(PROMOTION_PART)


@dataclass(frozen=True, kw_only=True)
class DirectPromotion(_PromotionAct):
    """A directive to the promoter about the newest promotion."""

    ANSWER = DirectedPromotion
    DIRECTIVE: ClassVar[Directive]
    CONSEQUENCES: ClassVar[tuple[str, ...]] = ()

    group: str | None = None

    def objection(self, found: PromotionReading) -> str:
        if found.state is None:
            return "There is no promotion at present."
        return directive_objection(found.state, self.DIRECTIVE, self.group or None) or ""

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        return directive_situation(found.state, self.DIRECTIVE, self.group)

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        return self.CONSEQUENCES

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> DirectedPromotion:
        """Record the directive; raises ``RefusedError`` if the promotion does not allow it."""
        act = actor.record(self, directive_description(self.DIRECTIVE, self.group, MemberKind.FLEET))
        state = store.direct(adapters.session, self.DIRECTIVE, act, self.group)
        return DirectedPromotion(
            RecordedAct.of(act), state.id, read_leader(adapters.session, MemberKind.FLEET) is not None
        )


@dataclass(frozen=True, kw_only=True)
class PromoteFleets(DirectPromotion):
    """Let a group of the newest promotion pass whose metrics wait, or begin when its turn comes."""

    NAME = "promotion-promote"
    BUTTON = "Promote the group"
    PATH = "promotion/promote"
    OPERATION = "promote_fleets"
    REQUEST = "The promotion of a group of fleets."
    DIRECTIVE = Directive.PROMOTE

    group: str = given(least=1, most=200, hidden=True)

    def title(self, found: PromotionReading) -> str:
        return super().title(found) if found.state is None else f"Promote group {self.group}"

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        state = found.state
        members = frozenset() if state is None else state.rollout.members.get(self.group, frozenset())
        fleets = counted(len(members), "fleet", ",")
        if state is not None and waiting_reason(state, self.group):
            return f"The group passes without a verdict of its metrics: {fleets}.", "Groups after it may begin."
        return (f"The group begins as soon as its turn comes: {fleets}.",)


@dataclass(frozen=True, kw_only=True)
class FailFleets(DirectPromotion):
    """Fail a group of fleets whose metrics wait for data, as if a metric had failed."""

    NAME = "promotion-fail"
    BUTTON = "Fail the group"
    STYLE = "danger"
    PATH = "promotion/fail"
    OPERATION = "fail_fleets"
    REQUEST = "The failure of a group of fleets."
    DIRECTIVE = Directive.FAIL
    CONSEQUENCES = ("The group and all groups that depend on it fail.", "No fleet loses the revision.")

    group: str = given(least=1, most=200, hidden=True)

    def title(self, found: PromotionReading) -> str:
        return super().title(found) if found.state is None else f"Fail group {self.group}"


class PausePromotion(DirectPromotion):
    """Promote to no further fleets in the newest promotion."""

    NAME = "promotion-pause"
    BUTTON = "Pause the promotion"
    PATH = "promotion/pause"
    OPERATION = "pause_promotion"
    DIRECTIVE = Directive.PAUSE
    CONSEQUENCES = (
        "Fleets that have the revision continue to deploy it. The branch of no other fleet moves.",
        "The promotion continues when an operator resumes it.",
    )


class ResumePromotion(DirectPromotion):
    """Continue a paused promotion, or begin another attempt of a failed one."""

    NAME = "promotion-resume"
    BUTTON = "Resume the promotion"
    PATH = "promotion/resume"
    OPERATION = "resume_promotion"
    REQUEST = "An act that needs no reason."
    NEEDS_REASON = False
    DIRECTIVE = Directive.RESUME

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        if found.state is not None and has_failed(found.state):
            return ("The same revision is promoted again, beginning with the first group.",)
        return ("The promotion continues where it was paused.",)


class AbortPromotion(DirectPromotion):
    """End the newest promotion as failed."""

    NAME = "promotion-abort"
    BUTTON = "Abort the promotion"
    STYLE = "danger"
    PATH = "promotion/abort"
    OPERATION = "abort_promotion"
    DIRECTIVE = Directive.ABORT
    CONSEQUENCES = (
        "The branch of no other fleet moves. A newer commit begins a new promotion.",
        "Fleets that have the revision keep it. To go back, run: zkdeployment promote rollback --reason TEXT.",
    )


@dataclass(frozen=True, kw_only=True)
class _FleetAct(_PromotionAct):
    fleet: str = given(least=1, most=200, hidden=True)

    def title(self, found: PromotionReading) -> str:
        del found
        return f"{self.BUTTON} {self.fleet}"


@dataclass(frozen=True, kw_only=True)
class WithholdFleet(_FleetAct):
    """Promote nothing to a fleet until it is released."""

    NAME = "promotion-withhold"
    BUTTON = "Withhold"
    PATH = "promotion/withhold"
    OPERATION = "withhold_fleet"
    REQUEST = "The name of a fleet to which nothing is promoted."

    def objection(self, found: PromotionReading) -> str:
        if self.fleet not in found.standings:
            return f"There is no fleet {self.fleet}."
        act = found.withheld.get(self.fleet)
        return "" if act is None else f"The fleet is withheld already: {act}."

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        del found
        return (
            "The branch of the fleet does not move. Its hosts continue with the revisions of the branch.",
            "Promotions neither wait for the fleet nor count it, until an operator releases it.",
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Withhold the fleet; raises ``RefusedError`` if it is withheld or unknown."""
        act = actor.record(self, f"withhold fleet {self.fleet}")
        store.withhold(adapters.session, self.fleet, act)
        return act


@dataclass(frozen=True, kw_only=True)
class ReleaseFleet(_FleetAct):
    """Let a withheld fleet take part in promotions again."""

    NAME = "promotion-release"
    BUTTON = "Release"
    PATH = "promotion/release"
    OPERATION = "release_fleet"
    REQUEST = "The name of a fleet that was withheld."

    def objection(self, found: PromotionReading) -> str:
        return "" if self.fleet in found.withheld else f"The fleet {self.fleet} is not withheld."

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        return f"the fleet is withheld: {found.withheld.get(self.fleet)}"

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        del found
        return ("The fleet takes part in the next promotion, and joins the present one late if its group does.",)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Release the fleet; raises ``RefusedError`` if it is not withheld."""
        act = actor.record(self, f"release fleet {self.fleet}")
        store.release(adapters.session, self.fleet, act)
        return act


ACTS: tuple[type[PlannedAct[Any]], ...] = (
    PromoteFleets,
    FailFleets,
    PausePromotion,
    ResumePromotion,
    AbortPromotion,
    WithholdFleet,
    ReleaseFleet,
)


def promotion_acts(state: RolloutState) -> tuple[ActLink, ...]:
    """Return the acts that the newest promotion accepts now; those of groups are in ``group_acts``."""
    return tuple(
        act.link(act.BUTTON, "" if act is PausePromotion else act.STYLE, PAGE)
        for act in (ResumePromotion, PausePromotion, AbortPromotion)
        if directive_objection(state, act.DIRECTIVE) is None
    )


def group_acts(state: RolloutState, group: GroupStatus) -> tuple[ActLink, ...]:
    """Return the links that promote or fail a group, if the promotion accepts that."""
    links = (
        (Directive.PROMOTE, PromoteFleets.link("Promote", "primary", PAGE, group=group.name)),
        (Directive.FAIL, FailFleets.link("Fail", FailFleets.STYLE, PAGE, group=group.name)),
    )
    return tuple(link for directive, link in links if directive_objection(state, directive, group.name) is None)


def fleet_acts(fleet: str, *, withheld: bool) -> tuple[ActLink, ...]:
    """Return the act that withholds a fleet, or releases it."""
    return (
        (ReleaseFleet if withheld else WithholdFleet).link(
            "Release" if withheld else "Withhold", "primary" if withheld else "", PAGE, fleet=fleet
        ),
    )
