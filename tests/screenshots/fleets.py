"""Fleets of fleets as photographs show them: three and a hundred fleets, in the states that people meet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from support.fleets.promoted import SimulatedFleet, SimulatedFleets, commit, number_of, promotion
from zkdeployment.base.act import Act
from zkdeployment.promotion.records import FleetState, PromoterReport, PromotionEntry
from zkdeployment.promotion.rules import rollback_strategy
from zkdeployment.promotion.store import PromoterStore, withhold
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.store.records import FencedLead
from zkdeployment.strategies.strategy import Criteria, Group, MemberKind, Pace, ParallelLimit, Selector
from zkdeployment.strategies.views import rollout_state

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.promotion.documents import Promotion
    from zkdeployment.promotion.records import FleetStanding
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.session import Session

_HOUR = 3600.0

#: The main branch from its first commit on: the id, the subject and the author of each.
_COMMITS = (
    ("5b1d0c7e92a4f6d83e21b0c9a7f4e5d612c3b8a9", "Search 5.11: synonyms", "Sam Okafor <sam@example.com>"),
    ("c1fb3efd0f9151e8ac7e5b0dd6f2a1c4b3e2d1f0", "Web 1.2: the cart shows prices with tax", "Jane Doe <jane@x>"),
    ("4f2a9c17b0d14e6f8a2b3c4d5e6f708192a3b4c5", "Web 1.3: sessions survive a restart", "Jane Doe <jane@x>"),
    ("9e07d3b5a8c24f61b7d0e9f3a2c5b4d6e8f70123", "Roll back to Web 1.2: sessions are lost", "Ann Lee <ann@x>"),
    ("71c4e8f2a6b90d35e7f1c2b3a4d5e6f708192a3b", "Web 1.3.1: sessions survive a restart", "Jane Doe <jane@x>"),
)

_REGIONS = {"eu": "europe", "us": "america", "ap": "asia"}


class FleetsScene(Enum):
    """The states of fleets under promotion that are photographed."""

    EMPTY = "empty"
    CONVERGED = "converged"
    ROLLING = "rolling"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class FleetsPlot:
    """A number of fleets in a scene, at a time."""

    size: int
    scene: FleetsScene
    now: float

    @property
    def names(self) -> list[str]:
        """The fleets: the first two of a hundred are canaries."""
        if self.size < 10:
            return [f"{region}-1" for region in list(_REGIONS)[: self.size]]
        return [f"{list(_REGIONS)[place % 3]}-{place // 3 + 1}" for place in range(self.size)]

    @property
    def groups(self) -> tuple[Group, ...]:
        """One region after the other; canaries come before them, and the last one waits for an operator."""
        if self.size < 10:
            canaries, regions = ("eu-1",), list(_REGIONS.items())[1 : self.size]
        else:
            canaries, regions = ("eu-1", "us-1"), list(_REGIONS.items())
        groups = [_group("canary", Selector(names=frozenset(canaries)), pace=Pace(bake_time=600.0))]
        for tag, name in regions:
            pace = Pace(bake_time=300.0, max_parallel=ParallelLimit(8), manual=tag == "ap")
            groups.append(_group(name, Selector(tags=frozenset({tag})), groups[-1].name, pace=pace))
        return tuple(groups)

    def write(self, session: Session) -> None:
        """Write the records as promoter and operators do."""
        lead = FencedLead(session, MemberKind.FLEET, identity="promoter on adm1")
        store = PromoterStore(session, lead, lambda: None)
        store.snapshot()
        assert lead.acquire(10.0)
        if self.scene is FleetsScene.EMPTY:
            store.write_report(PromoterReport(self.now, commit(1)))
            return
        fleets = SimulatedFleets({}, now=self.now - 4 * _HOUR)
        for name in self.names:
            fleets.fleets[name] = SimulatedFleet(tip=2, published=2)
            fleets.tags[name] = frozenset({name.split("-")[0]})
        fleets.note_standings(2)
        state, newest = self._promoted(fleets)
        standings = fleets.note_standings(newest)
        for entry in self._history(state, standings):
            store.write_entry(entry)
        last = self._entry(state, newest, standings)
        store.begin(_named(state), last)
        store.write_standings(map(self._standing, standings.values()))
        store.write_report(PromoterReport(self.now, _COMMITS[newest - 1][0]))
        for name in fleets.withheld:
            withhold(session, name, Act("bob", f"withhold fleet {name}", "the data centre moves", self.now - 9000))

    def _promoted(self, fleets: SimulatedFleets) -> tuple[RolloutState, int]:
        """Return the newest promotion, and the number of its commit."""
        governing = promotion(*self.groups)
        if self.scene is FleetsScene.CONVERGED:
            state = fleets.wait(fleets.start(governing, 3, sequence=3), 3000, governing)
            fleets.act(Directive.PROMOTE, self.groups[-1].name)
            return fleets.wait(state, 3000, governing), 3
        if self.scene is FleetsScene.STOPPED:
            return self._stopped(fleets, governing), 3
        if self.scene is FleetsScene.DIVERGED:
            return self._rolled_back(fleets, governing), 4
        if self.scene is FleetsScene.UNREACHABLE:
            for name in self.names[1:2] if self.size < 10 else [*self.names[5:9], self.names[20]]:
                fleets.fleets[name].state = FleetState.UNREACHABLE
                fleets.fleets[name].problem = "connection timed out"
        slow = self.names[1:2] if self.size < 10 else [f"eu-{number}" for number in range(14, 22)]
        for name in slow:
            if fleets.fleets[name].state is None:
                fleets.fleets[name].state = FleetState.ROLLING_OUT
        return fleets.wait(fleets.start(governing, 3, sequence=3), 1200, governing), 3

    def _stopped(self, fleets: SimulatedFleets, governing: Promotion) -> RolloutState:
        """Return a promotion that failed, because fleets stopped at it."""
        state = fleets.start(governing, 3, sequence=3)
        stopped = ["eu-1"] if self.size < 10 else ["eu-8", "eu-9"]
        for name in stopped:
            fleets.fleets[name].state = FleetState.ROLLING_OUT
        state = fleets.wait(state, 1200, governing)
        for name in stopped:
            fleets.fleets[name].published = 3
            fleets.fleets[name].state = FleetState.STOPPED
            fleets.fleets[name].problem = "mail7.example.com failed at deploy /mail/relay 0: exit status 1"
        return fleets.wait(state, 60, governing)

    def _rolled_back(self, fleets: SimulatedFleets, governing: Promotion) -> RolloutState:
        """Return the promotion of a rollback: one fleet is withheld, and one rolled back by itself before."""
        last = fleets.fleets[self.names[-1]]
        last.tip = last.published = 1
        if self.size > 10:
            fleets.withhold(self.names[-1])
        fleets.wait(fleets.start(governing, 3, sequence=3), 900, governing)
        bad = [name for name, fleet in fleets.fleets.items() if fleet.tip == 3]
        fleets.fleets[bad[0]].own = True
        for name in bad[1:4]:
            fleets.fleets[name].state = FleetState.ROLLING_OUT
        strategy = rollback_strategy(governing.strategy, bad)
        return fleets.run(fleets.start(governing, 4, strategy=strategy, sequence=4), governing)

    def _history(self, state: RolloutState, standings: Collection[str]) -> list[PromotionEntry]:
        """Return the promotions before the newest one, the oldest first."""
        return [self._past(sequence, standings) for sequence in range(1, state.sequence)]

    def _past(self, number: int, names: Collection[str]) -> PromotionEntry:
        begun = self.now - 30 * _HOUR + 6 * _HOUR * number
        id_, subject, author = _COMMITS[number - 1]
        if number == 3:  # it was rolled back
            names = list(names)[: len(names) // 3 + 1]
        reached = {name: begun + 900 + 60 * place for place, name in enumerate(names)}
        result = "aborted" if number == 3 else "success"
        return PromotionEntry(
            f"{number}-1", id_, subject, author, begun - 600, begun, begun + 9000, result, reached
        )

    def _entry(self, state: RolloutState, number: int, standings: dict[str, FleetStanding]) -> PromotionEntry:
        id_, subject, author = _COMMITS[number - 1]
        there = [name for name, each in standings.items() if each.revision == commit(number)]
        reached = {
            name: state.begun + 300 + 40 * place
            for place, name in enumerate(there)
            if standings[name].state is FleetState.CONVERGED
        }
        return PromotionEntry(
            state.id,
            id_,
            subject,
            author,
            state.begun - 300,
            state.begun,
            state.ended,
            "" if state.ended is None else rollout_state(state).value,
            reached,
            rolls_back=_COMMITS[2][0] if number == 4 else "",
        )

    def _standing(self, standing: FleetStanding) -> FleetStanding:
        place = self.names.index(standing.name)
        hosts = 120 + place * 977 % 9_000
        done = hosts if standing.state is FleetState.CONVERGED else hosts * 5 // 8
        return replace(
            standing,
            tip=_name(standing.tip),
            revision=_name(standing.revision),
            problem=standing.problem.replace(commit(3)[:12], _COMMITS[2][0][:12]),
            hosts=hosts,
            converged=done,
            behind=0 if standing.tip is None else max(0, 3 - number_of(standing.tip)),
            service=f"https://deploy.{standing.name}.example.com",
        )


def _name(id_: str | None) -> str | None:
    return None if id_ is None else _COMMITS[number_of(id_) - 1][0]


def _named(state: RolloutState) -> RolloutState:
    return replace(state, revision=_name(str(state.revision)))


def _group(name: str, selector: Selector, *after: str, pace: Pace) -> Group:
    criteria = Criteria(percent_successful=95)
    return Group(name, critical=True, depends_on=after, selectors=(selector,), criteria=criteria, pace=pace)
