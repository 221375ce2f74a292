"""The acts on promotions: directives to the promoter, and fleets to which nothing is promoted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zkdeployment.base.act import Act, ActRight, end_given_with, given_end
from zkdeployment.base.cluster import short
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.values import dataclass
from zkdeployment.promotion import store
from zkdeployment.promotion.rules import choice_hazards, pinned_revision
from zkdeployment.promotion.views.fleets import describe_stopped, with_orders
from zkdeployment.service.act import Actor, EmergencyAct, PlannedAct, RecordedAct, Visit, given
from zkdeployment.service.acts import OperatorAct
from zkdeployment.service.directives import DirectiveAct, GroupDirective, directive_links
from zkdeployment.strategies.progress import has_failed
from zkdeployment.strategies.state import Directive, RolloutState
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.promotion.feed import PromotionReading
    from zkdeployment.promotion.records import Choice, FleetStanding, MainCommit, Pin, PromotionRecords
    from zkdeployment.service.views.frame import ActLink
    from zkdeployment.strategies.views import GroupStatus

#: The page with the links to the forms.
PAGE = "/fleets"

RIGHT = ActRight("direct the promotion")


#: The effect of the end of an order about a fleet.
_JOINS = "The fleet takes part in the next promotion, and joins the present one late if its group does."


@dataclass(frozen=True, slots=True)
class DirectedPromotion:
    """A directive to the promoter: the promotion that it concerns, and whether a promoter runs."""

    act: RecordedAct
    promotion: str
    promoter: bool


@dataclass(frozen=True, slots=True)
class ResumedPromotion(DirectedPromotion):
    """A directive to resume a promotion; ``stopped`` names the stopped fleets, which stay stopped."""

    stopped: str = ""


def _reading(visit: Visit) -> PromotionReading:
    from zkdeployment.promotion.feed import PROMOTION_PART  # noqa: PLC0415  verbs start faster without it

    return visit.adapters.feed.snapshot().reading.of(PROMOTION_PART)


def _stopped(found: PromotionRecords, now: float) -> str:
    """Return a sentence on the stopped fleets that take part in promotions."""
    return describe_stopped(with_orders(found.standings.values(), found.orders, now))


class DirectPromotion(DirectiveAct):
    """A directive to the promoter about the newest promotion."""

    RIGHT = RIGHT
    ANSWER = DirectedPromotion
    KIND = MemberKind.FLEET

    def read(self, visit: Visit) -> RolloutState | None:
        return _reading(visit).state

    def direct(self, adapters: OperatorAdapters, act: Act) -> RolloutState:
        return store.direct(adapters.session, self.DIRECTIVE, act, self.group)


class PromoteFleets(GroupDirective, DirectPromotion):
    """Let a group of the newest promotion pass whose metrics wait, or begin that waits for it."""

    NAME = "promotion-promote"
    BUTTON = "Promote the group"
    DIRECTIVE = Directive.PROMOTE
    PATH = "promotion/promote"
    OPERATION = "promote_fleets"
    REQUEST = "The promotion of a group of fleets."


class FailFleets(GroupDirective, DirectPromotion):
    """Fail a group of fleets whose metrics wait for data, as if a metric had failed."""

    NAME = "promotion-fail"
    BUTTON = "Fail the group"
    STYLE = "danger"
    DIRECTIVE = Directive.FAIL
    PATH = "promotion/fail"
    OPERATION = "fail_fleets"
    REQUEST = "The failure of a group of fleets."
    CONSEQUENCES = ("The group and all groups that depend on it fail.", "No fleet loses the revision.")


class PausePromotion(EmergencyAct, DirectPromotion):
    """Promote to no further fleets in the newest promotion."""

    NAME = "promotion-pause"
    BUTTON = "Pause the promotion"
    PATH = "promotion/pause"
    OPERATION = "pause_promotion"
    REFUSAL = "NOT paused"
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
    ANSWER = ResumedPromotion

    def situation(self, found: RolloutState | None, visit: Visit) -> str:
        clauses = (super().situation(found, visit), _stopped(_reading(visit), visit.adapters.clock.now()))
        return "; ".join(filter(None, clauses))

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> ResumedPromotion:
        stopped = _stopped(
            store.read_promotion(adapters.session), actor.now()
        )  # first: a failed read must not hide an act
        done: ResumedPromotion = super().perform(adapters, actor)
        return replace(done, stopped=stopped)

    def remarks(self, done: ResumedPromotion) -> tuple[str, ...]:
        return (done.stopped,) if done.stopped else ()

    def consequences(self, found: RolloutState | None) -> tuple[str, ...]:
        if found is not None and has_failed(found):
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
class _FleetAct(OperatorAct["PromotionReading"]):
    RIGHT = RIGHT

    fleet: str = given(least=1, most=200, hidden=True)

    def read(self, visit: Visit) -> PromotionReading:
        return _reading(visit)

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
        act = found.withholding(self.fleet)
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
        return f"The fleet {self.fleet} is not withheld." if found.withholding(self.fleet) is None else ""

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        return f"the fleet is withheld: {found.withholding(self.fleet)}"

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        del found
        return (_JOINS,)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Release the fleet; raises ``RefusedError`` if it is not withheld."""
        act = actor.record(self, f"release fleet {self.fleet}")
        store.release(adapters.session, self.fleet, act)
        return act


@dataclass(frozen=True, slots=True)
class PinnedFleet:
    """A fleet with a pin: the act, the revision beyond which nothing is promoted, and the end in epoch seconds."""

    act: RecordedAct
    revision: str
    until: float | None


@dataclass(frozen=True, kw_only=True)
class PinFleet(_FleetAct):
    """Promote nothing to a fleet beyond a revision, until the pin ends."""

    NAME = "promotion-pin"
    BUTTON = "Pin"
    PATH = "promotion/pin"
    OPERATION = "pin_fleet"
    REQUEST = """The name of a fleet, and the commit of the main branch beyond which nothing is promoted to it.

``revision`` is a commit, whose id may be shortened; without it, the tip of the fleet's branch. ``until`` is a
duration such as ``2h``, or a time with its zone such as ``2026-05-01T18:00Z``; without it, an operator has to
unpin the fleet."""
    ANSWER = PinnedFleet

    revision: str = given(
        "",
        label="Revision",
        explanation="A commit of the main branch; empty: the tip of the fleet's branch.",
        least=0,
        most=64,
        pattern="^([0-9a-f]{4,64})?$",
    )
    until: str = given(
        "",
        label="Until",
        explanation="A duration such as 3d, or a time such as 2026-05-01T18:00Z; empty: until it is unpinned.",
        least=0,
        most=100,
    )

    def check(self) -> None:
        """Raise ``ValueError`` for an ``until`` without a meaning."""
        given_end(self.until, 0.0)

    def objection(self, found: PromotionReading) -> str:
        if self.fleet not in found.standings:
            return f"There is no fleet {self.fleet}."
        try:
            pinned_revision(found.standings[self.fleet], found.commits, self.revision)
        except RefusedError as error:
            return "" if not self.revision else f"{error}."
        return ""

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        pin = found.pin(self.fleet, visit.adapters.clock.now())
        return "" if pin is None else f"the fleet is {pin}, and the new pin replaces that"

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        return (
            "Promotions up to the revision reach the fleet.",
            "Later promotions, rollbacks included, neither wait for the fleet nor count it.",
            "The pin moves no branch. A promotion that has moved the branch of the fleet continues there.",
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Pin:
        """Pin the fleet; raises ``RefusedError`` for a past end, and what ``store.pin`` raises."""
        words = (f"pin fleet {self.fleet}", self.revision, f"until {self.until}" if self.until else "")
        act = actor.record(self, " ".join(filter(None, words)))
        end = end_given_with(act, self.until)
        return store.pin(adapters.session, self.fleet, act, revision=self.revision, until=end)

    @classmethod
    def answer(cls, outcome: Pin) -> PinnedFleet:
        return PinnedFleet(RecordedAct.of(outcome.act), outcome.revision, outcome.until)


@dataclass(frozen=True, kw_only=True)
class UnpinFleet(_FleetAct):
    """Let promotions beyond its pin reach a fleet again."""

    NAME = "promotion-unpin"
    BUTTON = "Unpin"
    PATH = "promotion/unpin"
    OPERATION = "unpin_fleet"
    REQUEST = "The name of a fleet that was pinned."

    def objection(self, found: PromotionReading) -> str:
        return f"The fleet {self.fleet} is not pinned." if found.pin(self.fleet, 0.0) is None else ""

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        return f"the fleet is {found.pin(self.fleet, visit.adapters.clock.now()) or 'not pinned any more'}"

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        del found
        return (_JOINS,)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Unpin the fleet; raises ``RefusedError`` if it is not pinned."""
        act = actor.record(self, f"unpin fleet {self.fleet}")
        store.unpin(adapters.session, self.fleet, act)
        return act


class _ChoiceAct(OperatorAct["PromotionReading"]):
    RIGHT = RIGHT

    def read(self, visit: Visit) -> PromotionReading:
        return _reading(visit)

    def situation(self, found: PromotionReading, visit: Visit) -> str:
        del visit
        return "" if found.choice is None else str(found.choice)


@dataclass(frozen=True, slots=True)
class ChosenCommit:
    """The commit from which promotions run."""

    act: RecordedAct
    revision: str


@dataclass(frozen=True, kw_only=True)
class RunFrom(_ChoiceAct):
    """Promote a commit of the main branch in place of its tip; newer commits wait."""

    NAME = "promotion-run-from"
    BUTTON = "Promote this commit"
    PATH = "promotion/run-from"
    OPERATION = "run_promotions_from"
    REQUEST = """A commit of the main branch, whose id may be shortened.

With ``confirm``, the commit is promoted although fleets have a newer one and keep it, or although it was refused
or failed before."""
    ANSWER = ChosenCommit

    revision: str = given(least=4, most=64, pattern="^[0-9a-f]{4,64}$", hidden=True)
    confirm: bool = given(
        default=False,
        label="Promote it nevertheless",
        explanation="Needed if fleets have a newer commit, or if the commit was refused or failed before.",
    )

    def _found(self, found: PromotionReading) -> MainCommit:
        revision = found.commits.find(self.revision)
        return next(each for each in found.commits.commits if each.commit.id == revision)

    def title(self, found: PromotionReading) -> str:
        return f"{self.BUTTON}: {short(self.revision)}" if not self.objection(found) else self.BUTTON

    def objection(self, found: PromotionReading) -> str:
        try:
            chosen = self._found(found).commit.id
        except RefusedError as error:
            return f"{error}."
        already = found.choice is not None and found.choice.revision == chosen
        return f"{found.choice} already." if already else ""

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        if self.objection(found):
            return ()
        commit, state = self._found(found).commit, found.state
        hazards = choice_hazards(commit.id, found.commits, found.standings.values(), found.history)
        first = "The commit goes to the first group"
        if state is not None and state.ended is None:
            first = f"After promotion {state.id} of {short(state.revision)}, the commit goes to the first group"
        return (
            f"The commit is {short(commit.id)} by {commit.author}: {commit.subject}.",
            f"{first}, and then from group to group.",
            "Newer commits wait until promotions follow the main branch again, or until a rollback is committed.",
            *(f"{hazard[:1].upper()}{hazard[1:]}." for hazard in hazards),
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Choice:
        """Choose the commit; raises what ``store.choose`` raises."""
        words = f"run promotions from {self.revision}{' --confirm' if self.confirm else ''}"
        act = actor.record(self, words)
        return store.choose(adapters.session, self.revision, act, confirmed=self.confirm)

    @classmethod
    def answer(cls, outcome: Choice) -> ChosenCommit:
        return ChosenCommit(RecordedAct.of(outcome.act), outcome.revision)


class FollowMain(_ChoiceAct):
    """Promote the tip of the main branch again, in place of a chosen commit."""

    NAME = "promotion-follow"
    BUTTON = "Follow the main branch"
    PATH = "promotion/follow"
    OPERATION = "follow_main"

    def objection(self, found: PromotionReading) -> str:
        return "" if found.choice is not None else "Promotions follow the main branch already."

    def consequences(self, found: PromotionReading) -> tuple[str, ...]:
        del found
        return ("The newest commit of the main branch is promoted as soon as the present promotion has ended.",)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """End the choice; raises ``RefusedError`` if no commit is chosen."""
        act = actor.record(self, "follow the main branch with promotions")
        store.follow(adapters.session, act)
        return act


ACTS: tuple[type[PlannedAct[Any]], ...] = (
    PromoteFleets,
    FailFleets,
    PausePromotion,
    ResumePromotion,
    AbortPromotion,
    WithholdFleet,
    ReleaseFleet,
    PinFleet,
    UnpinFleet,
    RunFrom,
    FollowMain,
)


def promotion_acts(found: PromotionReading) -> tuple[ActLink, ...]:
    """Return the acts that the newest promotion accepts now; those of groups are in ``group_acts``."""
    acts = (ResumePromotion, PausePromotion, AbortPromotion)
    return (
        *(() if found.state is None else directive_links(acts, found.state, PAGE)),
        *(() if found.choice is None else (FollowMain().link(FollowMain.BUTTON, "primary", PAGE),)),
    )


def commit_acts(found: PromotionReading, revision: str) -> tuple[ActLink, ...]:
    """Return the act that promotes a commit of the main branch, unless promotions run from it already."""
    act = RunFrom(revision=revision)
    return () if act.objection(found) else (act.link("Promote", "", PAGE, revision=revision),)


def group_acts(state: RolloutState, group: GroupStatus) -> tuple[ActLink, ...]:
    """Return the links that promote or fail a group, if the promotion accepts that."""
    return directive_links((PromoteFleets, FailFleets), state, PAGE, group=group.name)


def fleet_acts(fleet: FleetStanding) -> tuple[ActLink, ...]:
    """Return the acts that withhold a fleet or release it, and that pin or unpin it."""
    orders: tuple[tuple[object, type[_FleetAct], type[_FleetAct]], ...] = (
        (fleet.withheld, WithholdFleet, ReleaseFleet),
        (fleet.pin, PinFleet, UnpinFleet),
    )
    return tuple(
        begin.link(begin.BUTTON, "", PAGE, fleet=fleet.name)
        if order is None
        else end.link(end.BUTTON, "primary", PAGE, fleet=fleet.name)
        for order, begin, end in orders
    )
