"""Fleets under promotion, simulated as values: branches move when the rules order it, services answer at once.

``SimulatedFleets`` plays everything outside of the rules of a promotion: the main branch, which is a line of
commits, the branches, the syncers and the services. Tests change its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act
from zkdeployment.promotion.documents import Fleet, Fleets, Promotion
from zkdeployment.promotion.records import BranchTip, DryRun, FleetReport, FleetStanding, FleetState, Pin
from zkdeployment.promotion.rules import (
    FleetFacts,
    PromotionFacts,
    first_rollout_facts,
    halt_reason,
    participating,
    rollback_strategy,
    rollout_facts,
    standing,
    wanted_dry_runs,
    wanted_moves,
)
from zkdeployment.strategies.progress import advance, start
from zkdeployment.strategies.state import Directive, RolloutAct
from zkdeployment.strategies.strategy import MemberKind, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.strategy import Group

NOON = 1_800_000_000.0


def commit(number: int) -> str:
    """Return the id of a commit of the main branch; a higher number contains the lower ones."""
    return f"{number:040x}"


def number_of(commit_id: str) -> int:
    """Return the number of a commit of the main branch."""
    return int(commit_id, 16)


@dataclass
class SimulatedFleet:
    """One fleet: the number of its tip (``None``: no branch), of what it published, and its behaviour.

    ``own`` is whether its branch has a commit of its own on top. ``state`` is a state that does not change by
    itself; without it, the fleet converges at its tip. ``since`` is when the state began.
    """

    tip: int | None = 0
    published: int | None = 0
    state: FleetState | None = None
    refusal: str = ""
    dry_run_problem: str = ""
    own: bool = False
    problem: str = ""
    by: str = ""
    refused: int | None = None
    silent: bool = False
    since: float | None = None


def promotion(*groups: Group, **fields: object) -> Promotion:
    """Return a promotion of groups."""
    fields.setdefault("freezes", ())
    strategy = Strategy("promotion", groups, member_kind=MemberKind.FLEET)
    return Promotion(strategy, **fields)  # type: ignore[arg-type]


@dataclass
class SimulatedFleets:
    """All fleets, by name; ``rollbacks`` are the revisions that roll back a promotion."""

    fleets: dict[str, SimulatedFleet] = field(default_factory=dict)
    tags: dict[str, frozenset[str]] = field(default_factory=dict)
    withheld: dict[str, Act] = field(default_factory=dict)
    pins: dict[str, Pin] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    standings: dict[str, FleetStanding] = field(default_factory=dict)
    acts: list[RolloutAct] = field(default_factory=list)
    rollbacks: set[int] = field(default_factory=set)
    halt: str = ""
    now: float = NOON
    moved: list[tuple[str, int]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, *names: str, **tagged: str) -> SimulatedFleets:
        """Return fleets by name; the others are given with a tag."""
        every = [*names, *tagged]
        tags = {name: frozenset({tag}) for name, tag in tagged.items()}
        return cls({name: SimulatedFleet() for name in every}, tags)

    @property
    def document(self) -> Fleets:
        """The document of the fleets."""
        return Fleets(
            tuple(
                Fleet(name, f"fleets/{name}", f"https://{name}", tags=self.tags.get(name, frozenset()))
                for name in self.fleets
            )
        )

    def reading(self, name: str, revision: int) -> FleetFacts:
        """Return the facts about a fleet."""
        fleet = self.fleets[name]
        tip = BranchTip() if fleet.tip is None else BranchTip(commit(fleet.tip), in_main=not fleet.own)
        if fleet.silent:
            report = None
        elif fleet.state is FleetState.UNREACHABLE:
            report = FleetReport(fleet.state, problem="the service does not answer")
        else:
            converged = fleet.published == fleet.tip
            state = fleet.state or (FleetState.CONVERGED if converged else FleetState.ROLLING_OUT)
            published = None if fleet.published is None else commit(fleet.published)
            refused = None if fleet.refused is None else commit(fleet.refused)
            words = {"by": fleet.by, "problem": fleet.problem}
            report = FleetReport(
                state, published, 3, 3, since=fleet.since, **words, refused=refused, read_at=self.now
            )
        pin = self.pins.get(name)
        pin = None if pin is None or not pin.is_in_force(self.now) else pin
        return FleetFacts(
            tip,
            report,
            has=fleet.tip is not None and fleet.tip >= revision,
            runs=report is not None and fleet.published is not None and fleet.published >= revision,
            refuses=fleet.refused is not None and fleet.refused >= revision,
            follows=fleet.published is None or fleet.tip is None or fleet.tip >= fleet.published,
            pin=pin,
            pinned=pin is not None and number_of(pin.revision) < revision,
            escaped=pin is not None and fleet.tip is not None and number_of(pin.revision) < fleet.tip,
        )

    def facts(self, revision: int, state: RolloutState | None = None) -> PromotionFacts:
        """Return all facts in relation to a revision."""
        facts = PromotionFacts(
            self.document,
            {name: self.reading(name, revision) for name in self.fleets},
            withheld=dict(self.withheld),
            rolls_back=revision in self.rollbacks,
            refused=dict(self.refused),
            standings=dict(self.standings),
        )
        if state is None:
            return facts
        wanted = wanted_dry_runs(state, facts)
        self.asked |= wanted.keys()
        answers = {name: DryRun(self.fleets[name].refusal, self.fleets[name].dry_run_problem) for name in wanted}
        return replace(facts, dry_runs=answers)

    def start(
        self, governing: Promotion, revision: int = 1, *, strategy: Strategy | None = None, sequence: int = 1
    ) -> RolloutState:
        """Return the first state of a promotion."""
        strategy = strategy or governing.strategy
        first = first_rollout_facts(self.facts(revision), strategy, self.now)
        return start(strategy, first, sequence=sequence, attempt=1, revision=commit(revision))

    def roll_back(self, governing: Promotion, revision: int, bad: int) -> RolloutState:
        """Return the first state of the promotion of a rollback from a bad revision."""
        self.rollbacks.add(revision)
        facts = self.facts(revision)
        first = {
            fleet.name
            for fleet, reading in facts.members
            if not reading.diverged and bad <= (self.fleets[fleet.name].tip or 0) < revision
        }
        waiting = [fleet for fleet in self.document.fleets if facts.awaits_reset(fleet.name)]
        strategy = rollback_strategy(governing.strategy, first, waiting)
        return self.start(governing, revision, strategy=strategy, sequence=2)

    def step(self, state: RolloutState, governing: Promotion | None = None) -> RolloutState:
        """Return the state after one decision, whose moves are carried out."""
        after = self.decide(state, governing)
        self.move(after)
        return after

    def decide(self, state: RolloutState, governing: Promotion | None = None) -> RolloutState:
        """Return the state after one decision; its moves are not carried out."""
        revision = number_of(str(state.revision))
        kept = participating(state, self.facts(revision))
        halt = self.halt or ("" if governing is None else halt_reason(governing, self.now, state=state))
        facts = self.facts(revision, kept)
        return advance(kept, rollout_facts(kept, facts, self.now, acts=self.acts, halt=halt))

    def move(self, state: RolloutState) -> None:
        """Move the branches as a state demands; each fleet then publishes its tip."""
        facts = self.facts(number_of(str(state.revision)))
        for name, move in wanted_moves(state, facts).items():
            self.moved.append((name, number_of(move.new)))
            fleet = self.fleets[name]
            fleet.tip = number_of(move.new)
            if fleet.state is not FleetState.STOPPED and fleet.refused is None:
                fleet.published = fleet.tip

    def run(self, state: RolloutState, governing: Promotion | None = None) -> RolloutState:
        """Return the state after decisions until nothing changes."""
        for _ in range(100):
            moved, after = len(self.moved), self.step(state, governing)
            if after == state and moved == len(self.moved):
                return after
            state = after
        raise AssertionError("the promotion does not come to rest")

    def wait(self, state: RolloutState, seconds: float, governing: Promotion | None = None) -> RolloutState:
        """Return the state after some seconds, in which the promoter decides all the time."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 20)
            state = self.run(state, governing)
        return state

    def act(self, directive: Directive, group: str | None = None) -> None:
        """Record an act of an operator."""
        number = len(self.acts)
        self.acts.append(RolloutAct(directive, Act("op", directive.value, "why", self.now), group, number))

    def withhold(self, *names: str) -> None:
        """Withhold fleets."""
        self.withheld |= dict.fromkeys(names, Act("op", "withhold", "why", self.now))

    def pin(self, name: str, number: int, *, until: float | None = None) -> None:
        """Pin a fleet to the commit of this number."""
        self.pins[name] = Pin(Act("op", "pin", "why", self.now), commit(number), until)

    def note_standings(self, revision: int) -> dict[str, FleetStanding]:
        """Record the standings, and return them."""
        facts = self.facts(revision)
        self.standings = {
            fleet.name: standing(fleet, facts, self.standings.get(fleet.name), self.now)
            for fleet in self.document.fleets
        }
        return self.standings


def moved_groups(moves: Iterable[tuple[str, int]], groups: dict[str, str]) -> list[str]:
    """Return the groups of the moved fleets, without repetitions in a row."""
    found: list[str] = []
    for name, _ in moves:
        if not found or found[-1] != groups[name]:
            found.append(groups[name])
    return found
