"""The surroundings of a simulated promoter: time, the git server with its branches, and the home ensemble.

The adapters have the interfaces of ``FleetBranches`` and ``PromoterStore``. Records are encoded as in ZooKeeper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha1
from itertools import islice
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, LockLostError, SourceError, UnknownRevisionError
from zkdeployment.promotion import store as promotion_store
from zkdeployment.promotion.records import (
    BranchTip,
    FleetOrders,
    MainCommit,
    MainCommits,
    MoveOutcome,
    MoveResult,
)
from zkdeployment.promotion.store import PromotionSnapshot
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.strategies.state import RolloutAct
from zkdeployment.strategies.store.records import decode_state, encode_state
from zkdeployment.zookeeper.nodes import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from simulation.promotions import PromotionWorld
    from zkdeployment.base.act import Act
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.promotion.records import (
        BranchMove,
        Choice,
        FleetStanding,
        Pin,
        PromoterReport,
        PromotionEntry,
    )
    from zkdeployment.strategies.state import Directive, RolloutState

#: When the simulated time begins.
BEGIN = 1_800_000_000.0


class SimulatedClock:
    """Time that the simulation advances."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Return seconds since the epoch."""
        return BEGIN + self.time

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return self.time


@dataclass(frozen=True)
class _Commit:
    id: str
    parent: str | None
    number: int
    is_bad: bool = False
    rolls_back: str = ""


class GitServer:
    """The commits and branches; ``moves`` has all accepted pushes to the branches of fleets."""

    def __init__(self, documents: Sequence[SourceFile]) -> None:
        self.documents = documents
        self.commits: dict[str, _Commit] = {}
        self.branches: dict[str, str] = {}
        self.is_away = False
        self._ancestry: dict[tuple[str, str], bool] = {}

    def commit(self, parent: str | None, *, is_bad: bool = False, rolls_back: str = "") -> str:
        """Add a commit and return its id."""
        number = len(self.commits)
        commit = sha1(f"{number} {parent}".encode(), usedforsecurity=False).hexdigest()
        self.commits[commit] = _Commit(commit, parent, number, is_bad, rolls_back)
        return commit

    def ancestors(self, commit: str | None) -> Iterator[_Commit]:
        """Yield a commit and its ancestors."""
        while commit is not None:
            found = self.commits[commit]
            yield found
            commit = found.parent

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether a commit is or descends from another one."""
        key = (commit, ancestor)
        if key not in self._ancestry:
            known = ancestor in self.commits and commit in self.commits
            self._ancestry[key] = known and any(each.id == ancestor for each in self.ancestors(commit))
        return self._ancestry[key]

    def is_bad(self, commit: str) -> bool:
        """Whether a commit has an error that no rollback above it has undone."""
        undone: set[str] = set()
        for each in self.ancestors(commit):
            if each.rolls_back:
                undone.add(each.rolls_back)
            if each.is_bad:
                return each.id not in undone
        return False


class SimulatedBranches:
    """The mirror of one promoter, with the interface of ``FleetBranches``; the world judges each move."""

    def __init__(self, server: GitServer, world: PromotionWorld) -> None:
        self._server = server
        self._world = world
        self._seen: dict[str, str] = {}
        self._known: set[str] = set()
        self._main = ""

    def fetch(self) -> str:
        """Copy the branches of the server, and the commits that they have."""
        self._reach_server()
        if "main" not in self._server.branches:
            raise UnknownRevisionError("the repository has no branch main")
        self._seen = dict(self._server.branches)
        self._main = self._seen["main"]
        for tip in self._seen.values():
            for each in self._server.ancestors(tip):
                if each.id in self._known:
                    break
                self._known.add(each.id)
        return self._main

    def tips(self, branches: Collection[str]) -> Mapping[str, BranchTip]:
        """Return the tips as of the last fetch."""
        return {branch: self._tip(self._seen.get(branch)) for branch in branches}

    def _tip(self, commit: str | None) -> BranchTip:
        numbers = set() if commit is None else {each.id for each in self._server.ancestors(commit)}
        behind = sum(each.id not in numbers for each in self._server.ancestors(self._main))
        return BranchTip(commit, commit is not None and self.contains(self._main, commit), behind)

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether a commit is or descends from another one."""
        return {commit, ancestor} <= self._known and self._server.contains(commit, ancestor)

    def summary(self, commit: str) -> CommitSummary:
        """Return the facts about a commit."""
        return CommitSummary(commit, "dev", f"change {self._commit(commit).number}", BEGIN)

    def documents(self, commit: str) -> Sequence[SourceFile]:
        """Return the documents, which are the same in all commits."""
        self._commit(commit)
        return self._server.documents

    def undone(self, commit: str) -> str:
        """Return the revision that a commit rolls back; rollbacks are always exact."""
        return self._commit(commit).rolls_back

    def _commit(self, commit: str) -> _Commit:
        if commit not in self._known:
            raise UnknownRevisionError(f"the mirror has no commit {commit}")
        return self._server.commits[commit]

    def recent(self, most: int) -> MainCommits:
        """Return the last commits of the main branch."""
        found = islice(self._server.ancestors(self._main), most)
        return MainCommits(
            tuple(
                MainCommit(self.summary(each.id), () if each.parent is None else (each.parent,)) for each in found
            )
        )

    def rollbacks(self, since: str | None) -> Sequence[tuple[str, str]]:
        """Return the rollbacks of the main branch after a commit, the newest first."""
        found = []
        for commit in self._server.ancestors(self._main):
            if commit.id == since:
                break
            if commit.rolls_back:
                found.append((commit.id, commit.rolls_back))
        return found

    def move(
        self, moves: Sequence[BranchMove], before_push: Callable[[], None] = lambda: None
    ) -> Mapping[str, MoveResult]:
        """Move branches with their leases; the promoter may be killed between any two of them."""
        words = "branches only move forward, and to commits of main"
        results = {}
        for move in moves:
            if not self._leads_forward(move):
                self._world.judge_move(move, self._main)
                results[move.branch] = MoveResult(MoveOutcome.REFUSED, words)
        pushed = [move for move in moves if move.branch not in results]
        if pushed:
            before_push()
        return results | {move.branch: self._push(move) for move in pushed}

    def _leads_forward(self, move: BranchMove) -> bool:
        is_forward = move.old is None or self.contains(move.new, move.old)
        return move.branch != "main" and self.contains(self._main, move.new) and is_forward

    def _push(self, move: BranchMove) -> MoveResult:
        self._reach_server()
        self._world.reach("between:moves")
        tip = self._server.branches.get(move.branch)
        if tip == move.new:
            return MoveResult(MoveOutcome.MOVED)
        if tip != move.old:
            self._world.count("pushes raced")
            return MoveResult(MoveOutcome.RACED, "stale info")
        self._world.judge_move(move, self._main)
        self._server.branches[move.branch] = move.new
        self._world.count("branches moved")
        return MoveResult(MoveOutcome.MOVED)

    def _reach_server(self) -> None:
        if self._server.is_away:
            raise SourceError("cannot reach the git server")


@lru_cache(maxsize=4)
def _decoded(data: bytes) -> RolloutState:
    """Return the state in a node, which the world and its promoters read many times."""
    return decode_state(data)


class HomeEnsemble:
    """The records of promotions, encoded as in ZooKeeper, and which promoter leads.

    ``version`` counts the writes to the newest promotion, and the acts on it; ``orders`` those of operators.
    """

    def __init__(self) -> None:
        self.leader: MemoryLead | None = None
        self.current: str | None = None
        self.states: dict[str, bytes] = {}
        self.acts: list[RolloutAct] = []
        self.withheld: dict[str, Act] = {}
        self.pins: dict[str, Pin] = {}
        self.commits = MainCommits()
        self.choice: Choice | None = None
        self.orders = 0
        self.history: dict[str, PromotionEntry] = {}
        self.standings: tuple[FleetStanding, ...] = ()
        self.report: PromoterReport | None = None
        self.largest = 0
        self.version = 0

    @property
    def state(self) -> RolloutState | None:
        """The newest promotion."""
        return None if self.current is None else _decoded(self.states[self.current])

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> None:
        """Record an operator's act on the newest promotion."""
        assert self.state is not None, "there is no promotion"
        number = max([self.state.last_act_number, *(each.number for each in self.acts)]) + 1
        self.acts.append(RolloutAct(directive, act, group, number))
        self.version += 1

    def withhold(self, fleet: str, act: Act) -> None:
        """Record that an operator withholds a fleet."""
        self.withheld[fleet] = act
        self.orders += 1

    def pin(self, fleet: str, pin: Pin) -> None:
        """Record that an operator pins a fleet."""
        self.pins[fleet] = pin
        self.orders += 1

    def choose(self, choice: Choice | None) -> None:
        """Record the commit from which promotions run."""
        self.choice = choice
        self.orders += 1

    def sized(self, data: bytes) -> bytes:
        """Remember the largest node."""
        self.largest = max(self.largest, len(data))
        return data


class MemoryLead:
    """The lead among the promoters of a home ensemble, with the interface of ``FencedLead``."""

    def __init__(self, home: HomeEnsemble, reach: Callable[[str], None]) -> None:
        self._home = home
        self._reach = reach

    @property
    def node(self) -> str | None:
        """The lock node of this promoter while it leads."""
        return "lock" if self._home.leader is self else None

    def acquire(self, timeout: float) -> bool:
        """Take the lead if it is free."""
        del timeout
        if self._home.leader is None:
            self._home.leader = self
        return self._home.leader is self

    def release(self) -> None:
        """Leave the lead."""
        if self._home.leader is self:
            self._home.leader = None

    def confirm(self) -> None:
        """Raise ``LockLostError`` unless this promoter leads."""
        self.write("lead", lambda: None)

    def write(self, place: str, write: Callable[[], None]) -> None:
        """Write as the leader."""
        if self._home.leader is not self:
            raise LockLostError("another promoter leads")
        self._reach(f"before:{place}")
        if self._home.leader is not self:
            raise LockLostError("this promoter lost the lead")
        write()
        self._reach(f"after:{place}")


class MemoryStore:
    """The records of a home ensemble, with the interface of ``PromoterStore``; writes are fenced by the lead."""

    def __init__(self, home: HomeEnsemble, lead: MemoryLead) -> None:
        self._home = home
        self.lead = lead
        self._seen = self._orders = 0
        self._written: dict[str, object] = {}

    def forget(self) -> None:
        """Write records again, also unchanged ones."""
        self._written = {}

    def snapshot(self) -> PromotionSnapshot:
        """Return all records."""
        home, state = self._home, self._home.state
        self._seen, self._orders = home.version, home.orders
        number = -1 if state is None else state.last_act_number
        return PromotionSnapshot(
            state=state,
            acts=tuple(act for act in home.acts if act.number > number),
            last_sequence=max((int(name.partition("-")[0]) for name in home.states), default=0),
            standings={each.name: each for each in home.standings},
            orders=FleetOrders(dict(home.withheld), dict(home.pins)),
            history=tuple(reversed(home.history.values())),
            report=home.report,
            choice=home.choice,
        )

    def confirm(self) -> None:
        """Raise an error unless this promoter leads, and has read all acts and orders."""
        self.lead.write("lead", self._check_read)

    def _check_read(self) -> None:
        if (self._home.version, self._home.orders) != (self._seen, self._orders):
            raise ConflictError("the promotion changed, or there are further acts or orders")

    def end_pins(self, now: float) -> None:
        """Remove the pins that have ended by themselves."""
        for fleet, pin in [*self._home.pins.items()]:
            if not pin.is_in_force(now):
                self.lead.write("pins", partial(self._home.pins.pop, fleet))

    def begin(self, state: RolloutState, entry: PromotionEntry, *, ends_choice: bool = False) -> None:
        """Make a promotion the newest one."""

        def write() -> None:
            self._check_read()
            if ends_choice:
                self._home.choose(None)
            self._home.states[state.id] = self._home.sized(encode_state(state))
            self._home.current, self._home.acts = state.id, []
            self._home.version = self._seen = self._seen + 1
            self._enter(entry)

        self.lead.write("begin", write)

    def record(self, state: RolloutState, entry: PromotionEntry) -> None:
        """Replace the state of the newest promotion, unless an act or another leader's write came in between."""

        def write() -> None:
            self._check_read()
            self._home.states[state.id] = self._home.sized(encode_state(state))
            self._home.version = self._seen = self._seen + 1
            self._enter(entry)

        self.lead.write("record", write)

    def write_entry(self, entry: PromotionEntry) -> None:
        """Replace an entry of the history."""
        self.lead.write("history", lambda: self._enter(entry))

    def write_commits(self, commits: MainCommits) -> None:
        """Replace the last commits of the main branch."""
        self._home.sized(pack(commits.to_json()))
        self._replace("commits", "commits", commits)

    def write_standings(self, standings: Sequence[FleetStanding]) -> None:
        """Replace the standings of all fleets."""
        self._home.sized(pack([each.to_json() for each in standings]))
        self._replace("fleets", "standings", tuple(standings))

    def write_report(self, report: PromoterReport) -> None:
        """Replace the report."""
        self._replace("report", "report", report)

    def tidy(self, current: str) -> None:
        """Remove other promotions, and the oldest entries of the history."""
        kept = dict([*self._home.history.items()][-promotion_store.HISTORY_LIMIT :])
        self.lead.write("tidy", lambda: setattr(self._home, "history", kept))
        self.lead.write("tidy", lambda: setattr(self._home, "states", {current: self._home.states[current]}))

    def _enter(self, entry: PromotionEntry) -> None:
        self._home.sized(pack(entry.to_json()))
        self._home.history[entry.id] = entry

    def _replace(self, place: str, name: str, value: object) -> None:
        """Replace a record, unless this promoter wrote the same value."""
        if self._written.get(place) != value:
            self.lead.write(place, lambda: setattr(self._home, name, value))
            self._written[place] = value
