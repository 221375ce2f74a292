"""The promoter: it leads the promotions, or queues until the leading promoter ends.

A promoter only moves the branches of fleets forward to commits of the main branch: a promoter holds no right on
any host, and makes no commits. Each fleet deploys by itself. The whole state is in the home ensemble, and is
recorded before branches move. A successor repeats moves that its predecessor did not complete. The decisions are
in ``rules`` and in ``strategies``; this module reads, decides, records and pushes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.daemon.cycles import LEAD_FAILURES, FailureKind
from zkdeployment.base.daemon.metrics import Metric, gauge, labelled
from zkdeployment.base.errors import SourceError
from zkdeployment.base.log import get_logger
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.promotion.documents import Fleets, Promotion, promotion_in_force
from zkdeployment.promotion.records import (
    BranchMove,
    BranchTip,
    Choice,
    FleetReport,
    FleetStanding,
    FleetState,
    MainCommits,
    MoveOutcome,
    Pin,
    PromoterReport,
    PromotionEntry,
)
from zkdeployment.promotion.rules import (
    FleetFacts,
    MainBranch,
    NextPromotion,
    PromotionFacts,
    first_rollout_facts,
    halt_reason,
    history_entry,
    next_promotion,
    participating,
    pause_reason,
    rollback_strategy,
    rollout_facts,
    standing,
    wanted_dry_runs,
    wanted_moves,
)
from zkdeployment.strategies.daemon import LeaderAdapters, RolloutDaemon, log_changes, log_unmatched_selectors
from zkdeployment.strategies.progress import advance, start, supersede
from zkdeployment.strategies.strategy import MemberKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.promotion.branches import FleetBranches
    from zkdeployment.promotion.services import FleetServices
    from zkdeployment.promotion.store import PromoterStore, PromotionSnapshot
    from zkdeployment.publishing.records import CommitSummary
    from zkdeployment.strategies.state import RolloutState

#: Seconds between two cycles: at most without any change, and while services have not answered yet.
_MOST_SECONDS = 10.0
_UNREAD_SECONDS = 1.0

#: Seconds after which an unchanged report is written again, so that people see that the promoter works.
_REPORT_AGE = 30.0

#: The events of the log, by the outcome of a push.
_EVENTS = {
    MoveOutcome.MOVED: "branch-moved",
    MoveOutcome.RACED: "push-raced",
    MoveOutcome.REFUSED: "push-refused",
}

#: Commits of which the documents are kept, besides the newest one.
_KEPT = 3

#: Commits of which it is remembered what they roll back, besides the newest one.
_MOST_UNDONE = 100

#: The last commits of the main branch that operators can name.
_MOST_COMMITS = 200

#: Fleets that a sentence names.
_NAMED = 5

#: The begin of the reason for which a promotion waits for the first answers of services.
_UNREAD = "the services of these fleets have not answered yet:"

#: The state in metrics of a fleet whose branch does not exist, in place of the one that its service reports.
_NO_BRANCH = "no branch"


def fleet_metrics(standings: Sequence[FleetStanding], *, leads: bool, streams: int = 0) -> Iterator[Metric]:
    """Yield the metrics of the fleets, which only a promoter that ``leads`` knows; ``streams`` are open."""
    found = [_NO_BRANCH if each.tip is None else each.state.value for each in standings]
    known = (*(state.value for state in FleetState), _NO_BRANCH)
    states = {state: float(found.count(state)) for state in known} if leads else {}
    yield labelled("promoter_fleets", "The fleets under promotion, by state.", "state", states)
    behind = {each.name: float(each.behind) for each in standings}
    yield labelled("promoter_fleet_commits_behind", "Commits behind the main branch, by fleet.", "fleet", behind)
    withheld = sum(each.withheld is not None for each in standings) if leads else None
    yield gauge("promoter_fleets_withheld", "The fleets that operators withhold.", withheld)
    pinned = sum(each.pin is not None for each in standings) if leads else None
    yield gauge("promoter_fleets_pinned", "The fleets that operators pinned to a revision.", pinned)
    yield gauge(
        "promoter_event_streams", "The open event streams of fleets' services.", streams if leads else None
    )


@dataclass(frozen=True, slots=True)
class _Governing:
    """The documents of a revision: the fleets and their promotion, or the problem with them."""

    fleets: Fleets | None = None
    promotion: Promotion | None = None
    problem: str = ""


class _Repository:
    """The facts about commits, each read from the mirror once, and the last state of the git server.

    ``problem`` is why the last fetch failed, or empty; ``main`` is the tip of the main branch.
    """

    def __init__(self, branches: FleetBranches, clock: Clock, interval: float) -> None:
        self.branches = branches
        self._clock = clock
        self._interval = interval
        self._due = 0.0
        self._governing: dict[str, _Governing] = {}
        self._summaries: dict[str, CommitSummary] = {}
        self._undone: dict[str, str] = {}
        self._recent: tuple[str, MainCommits] | None = None
        self.main: str | None = None
        self.problem = ""

    @property
    def is_due(self) -> bool:
        """Whether the git server is to be read again."""
        return self._clock.monotonic() >= self._due

    def expire(self) -> None:
        """Read the git server again in the next cycle."""
        self._due = 0.0

    def fetch(self) -> None:
        """Read the git server; without an answer, what it answered before stays."""
        self._due = self._clock.monotonic() + self._interval
        try:
            self.main, self.problem = self.branches.fetch(), ""
        except SourceError as error:
            if str(error) != self.problem:
                get_logger().warning("git-failed", reason=str(error))
            self.problem = str(error)

    def governing(self, commit: str) -> _Governing:
        """Return the documents of a commit."""
        if commit not in self._governing:
            try:
                read = self._read(commit)
            except SourceError as error:  # such as a commit that the main branch had before it was rewritten
                return _Governing(problem=f"cannot read the documents of {short(commit)}: {error}")
            self._governing = {commit: read, **dict([*self._governing.items()][:_KEPT])}
        return self._governing[commit]

    def _read(self, commit: str) -> _Governing:
        found = read_documents(document_files(self.branches.documents(commit)))
        if found.errors:
            return _Governing(problem=f"the documents of {short(commit)} have errors: {found.errors[0]}")
        governing = promotion_in_force(found)
        if governing is None:
            missing = "a document zkdeployment/Fleets/v1 and a document zkdeployment/Promotion/v1"
            return _Governing(problem=f"{short(commit)} does not promote: expected {missing} in the top directory")
        return _Governing(*governing)

    def summary(self, commit: str) -> CommitSummary:
        """Return the author, the subject and the time of a commit."""
        if commit not in self._summaries:
            self._summaries = {commit: self.branches.summary(commit)}
        return self._summaries[commit]

    def recent(self, tip: str) -> MainCommits:
        """Return the last commits of the main branch, whose tip this is."""
        if self._recent is None or self._recent[0] != tip:
            self._recent = tip, self.branches.recent(_MOST_COMMITS)
        return self._recent[1]

    def rolls_back(self, commit: str) -> str:
        """Return the revision from which a commit leads away; empty for a commit that rolls back nothing."""
        if commit not in self._undone:
            self._undone = {commit: self.branches.undone(commit), **dict([*self._undone.items()][:_MOST_UNDONE])}
        return self._undone[commit]

    def compared(self, tip: str, state: RolloutState | None, choice: Choice | None) -> MainBranch:
        """Return the main branch, compared with the newest promotion; rollbacks before a choice do not count."""
        source = tip if choice is None else choice.revision
        if state is None:
            return MainBranch(source)
        promoted, contains = str(state.revision), self.branches.contains
        if not contains(tip, promoted):
            return MainBranch(source, has_promoted=False)
        since = choice.main if choice is not None and contains(choice.main, promoted) else promoted
        rollbacks = () if tip == since else self.branches.rollbacks(since)
        found = (commit for commit, _ in rollbacks if contains(commit, promoted))
        return MainBranch(source, rollback=next(filter(self.rolls_back, found), None))

    def readings(
        self, fleets: Fleets, reports: Mapping[str, FleetReport], pins: Mapping[str, Pin], revision: str
    ) -> dict[str, FleetFacts]:
        """Return the facts about all fleets, in relation to a revision; ``pins`` are those in force, by fleet."""
        tips = self.branches.tips([fleet.branch for fleet in fleets.fleets])
        return {
            fleet.name: self._reading(tips[fleet.branch], reports.get(fleet.name), pins.get(fleet.name), revision)
            for fleet in fleets.fleets
        }

    def _reading(self, tip: BranchTip, report: FleetReport | None, pin: Pin | None, revision: str) -> FleetFacts:
        contains = self.branches.contains
        published = None if report is None else report.revision
        refused = None if report is None else report.refused
        return FleetFacts(
            tip,
            report,
            has=tip.commit is not None and contains(tip.commit, revision),
            runs=published is not None and contains(published, revision),
            refuses=refused is not None and contains(refused, revision),
            follows=published is None or tip.commit is None or contains(tip.commit, published),
            pin=pin,
            pinned=pin is not None and not contains(pin.revision, revision),
            escaped=pin is not None and tip.commit is not None and not contains(pin.revision, tip.commit),
        )


class Promoter(RolloutDaemon):
    """Leads the promotions of ``store``.

    ``interval`` is the number of seconds between two reads of the git server. ``reach`` is called before and after
    each push.
    """

    KIND = MemberKind.FLEET
    FAILURES = (
        *LEAD_FAILURES,
        FailureKind(SourceError, "git-failed", logging.WARNING, pause=5.0),
        FailureKind(Exception, "promotion-failed", logging.ERROR, pause=2.0),
    )
    LONGEST_PAUSE = 60.0
    _least = 0.5

    def __init__(
        self,
        store: PromoterStore,
        branches: FleetBranches,
        services: FleetServices,
        adapters: LeaderAdapters,
        *,
        interval: float = 10.0,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> None:
        super().__init__(adapters)
        self._store = store
        self._services = services
        self._reach = reach
        self._repository = _Repository(branches, self._clock, interval)
        self._most = min(_MOST_SECONDS, interval)
        self._standings: Sequence[FleetStanding] = ()
        self._refused: dict[tuple[str, str], str] = {}
        self._raced: dict[str, tuple[BranchMove, str] | None] = {}
        self._reported: PromoterReport | None = None
        self._tidied = False

    def _forget(self) -> None:
        self._store.forget()
        self._repository.expire()
        self._services.forget()
        self._standings, self._reported, self._tidied = (), None, False
        self._refused, self._raced = {}, {}

    def _metrics(self, leads: bool) -> Iterator[Metric]:  # noqa: FBT001
        standings, streams = (self._standings, self._services.open_streams) if leads else ((), 0)
        return fleet_metrics(standings, leads=leads, streams=streams)

    def _work(self) -> float:
        """Begin the next promotion, or advance the newest one; return the seconds until the next cycle."""
        if self._repository.is_due:
            with self._notifier.uninterrupted():
                self._repository.fetch()
        tip, now = self._repository.main, round(self._clock.now(), 1)
        self._store.end_pins(now)
        found = self._store.snapshot()
        self._telemetry.lead(found.state)
        if tip is None:
            self._report(now, problem=self._repository.problem)
            return self._most
        state, lost = found.state, self._lost(found.choice, tip)
        main = self._repository.compared(tip, state, found.choice)
        wanted = None if lost else next_promotion(state, main, found.acts, last_sequence=found.last_sequence)
        current = None if state is None else self._repository.governing(str(state.revision))
        problem, waiting = self._repository.problem or lost, pause_reason(state, main) if wanted is None else ""
        reports = self._read_services(current, wanted)
        if wanted is not None and not problem:
            problem, waiting, begun = self._begin(found, wanted, reports, now)
            if begun:
                return 0.0
        pause = self._most
        if state is not None and current is not None and current.fleets is not None:
            try:
                pause = self._advance(found, state, current, reports, now, wanted)
            except SourceError as error:  # such as a push that the git server denies
                self._report(now, problem=str(error), waiting=waiting)
                raise
        elif wanted is not None and (fleets := self._repository.governing(wanted.revision).fleets) is not None:
            self._record_standings(found, fleets, self._facts(found, fleets, reports, wanted.revision, now), now)
        self._store.write_commits(self._repository.recent(tip))
        self._report(now, problem=problem, waiting=waiting)
        if state is not None and not self._tidied:
            self._store.tidy(state.id)
            self._tidied = True
        return min(pause, _UNREAD_SECONDS) if waiting.startswith(_UNREAD) else pause

    def _lost(self, choice: Choice | None, tip: str) -> str:
        """Return a sentence on a chosen commit that the main branch does not contain any more; else empty."""
        if choice is None or self._repository.branches.contains(tip, choice.revision):
            return ""
        return (
            f"{choice}, but the main branch has lost it, so nothing new is promoted; choose another"
            " commit with 'zkdeployment promote run-from', or run 'zkdeployment promote follow'"
        )

    def _read_services(
        self, current: _Governing | None, wanted: NextPromotion | None
    ) -> Mapping[str, FleetReport]:
        """Return the reports of all fleets of the newest promotion and of the next one."""
        coming = None if wanted is None else self._repository.governing(wanted.revision)
        addresses: dict[str, str] = {}
        for governing in (current, coming):
            if governing is not None and governing.fleets is not None:
                addresses |= {fleet.name: fleet.service for fleet in governing.fleets.fleets}
        return self._services.reports(addresses)

    def _facts(
        self,
        found: PromotionSnapshot,
        fleets: Fleets,
        reports: Mapping[str, FleetReport],
        revision: str,
        now: float,
    ) -> PromotionFacts:
        orders = found.orders
        pins = {each.name: orders.pin(each.name, each.branch, now) for each in fleets.fleets}
        withheld = {each.name: orders.withholding(each.name, each.branch) for each in fleets.fleets}
        in_force = {name: pin for name, pin in pins.items() if pin is not None}
        return PromotionFacts(
            fleets,
            self._repository.readings(fleets, reports, in_force, revision),
            withheld={name: act for name, act in withheld.items() if act is not None},
            rolls_back=bool(self._repository.rolls_back(revision)),
            standings=found.standings,
        )

    def _begin(
        self, found: PromotionSnapshot, wanted: NextPromotion, reports: Mapping[str, FleetReport], now: float
    ) -> tuple[str, str, bool]:
        """Begin a promotion; return the problem or the reason for which it waits, and whether it began."""
        governing = self._repository.governing(wanted.revision)
        fleets, promotion = governing.fleets, governing.promotion
        if fleets is None or promotion is None:
            return governing.problem, "", False
        facts = self._facts(found, fleets, reports, wanted.revision, now)
        if facts.unread:
            return "", f"{_UNREAD} {listing(facts.unread, _NAMED)}", False
        bad = self._bad_fleets(facts, wanted.revision)
        if halt := halt_reason(promotion, now, rolls_back=bool(bad)):
            return "", halt, False
        waiting = [fleet for fleet in fleets.fleets if facts.awaits_reset(fleet.name)]
        strategy = rollback_strategy(promotion.strategy, bad, waiting)
        before = found.state
        if before is not None and before.ended is None:
            self._write(found, before, supersede(before, now), {}, now)
        first = first_rollout_facts(facts, strategy, now)
        state = start(
            strategy,
            first,
            sequence=wanted.sequence,
            attempt=wanted.attempt,
            revision=wanted.revision,
            before=before,
        )
        choice = found.choice
        entry = replace(self._entry(state), chosen="" if choice is None else choice.authorship)
        if ends_choice := choice is not None and choice.revision != state.revision:
            get_logger().info("choice-ended", revision=None if choice is None else choice.revision)
            entry = replace(entry, chosen="")
        entry = history_entry(entry, state, facts.readings, now)
        self._store.begin(state, entry, ends_choice=ends_choice)
        self._refused, self._raced, self._tidied = {}, {}, False
        log_changes(None, state)
        log_unmatched_selectors(state, {**first.absent, **first.present})
        return "", "", True

    def _bad_fleets(self, facts: PromotionFacts, revision: str) -> frozenset[str]:
        """Return the fleets that a rollback leads back first; none if the revision is no rollback."""
        bad, contains = self._repository.rolls_back(revision), self._repository.branches.contains
        return frozenset(
            fleet.name
            for fleet, reading in facts.members
            if bad
            and not (reading.has or reading.diverged)
            and reading.tip.commit is not None
            and contains(reading.tip.commit, bad)
        )

    def _advance(
        self,
        found: PromotionSnapshot,
        state: RolloutState,
        governing: _Governing,
        reports: Mapping[str, FleetReport],
        now: float,
        wanted: NextPromotion | None,
    ) -> float:
        fleets, promotion = governing.fleets, governing.promotion
        if fleets is None or promotion is None:
            return self._most
        revision, blocked = str(state.revision), self._blocked(state)
        facts = self._facts(found, fleets, reports, revision, now)
        if facts.unread:
            return _UNREAD_SECONDS
        kept = participating(state, facts)
        facts = replace(
            facts,
            dry_runs=self._services.dry_runs(wanted_dry_runs(kept, facts), revision, state.id),
            refused={name: words for (of, name), words in self._refused.items() if of == state.id},
            unmoved={
                name: raced[1]
                for name, reading in facts.readings.items()
                if (raced := self._raced.get(name)) is not None and raced[0].old == reading.tip.commit
            },
        )
        if not blocked and wanted is not None and state.ended is None:
            blocked = f"{short(wanted.revision)} is to supersede the promotion"
        halt = blocked or halt_reason(promotion, now, state=state)
        observed = replace(
            rollout_facts(kept, facts, now, acts=found.acts, halt=halt),
            outside=self._outside(kept, now),
        )
        after = advance(kept, observed)
        self._write(found, state, after, facts.readings, now)
        self._services.dry_runs(wanted_dry_runs(after, facts), revision, state.id)
        self._record_standings(found, fleets, facts, now)  # before the push, which may be denied
        moved = False if blocked else self._push(after, wanted_moves(after, facts))
        return 0.0 if moved else self._pause(state, after, observed)

    def _blocked(self, state: RolloutState) -> str:
        """Return why no branch can move; empty if branches can move."""
        if self._repository.problem:
            return f"the git server cannot be read: {self._repository.problem}"
        tip = self._repository.main
        if tip is None or not self._repository.branches.contains(tip, str(state.revision)):
            return f"the main branch does not contain {short(state.revision)} any more"
        return ""

    def _push(self, state: RolloutState, moves: Mapping[str, BranchMove]) -> bool:
        """Move branches as the recorded promotion demands; return whether the server moved or refused one.

        After a lost race the branch is read again. If it is still where it was, the server could not lock it.
        """
        if not moves:
            return False
        with self._notifier.uninterrupted():
            results = self._repository.branches.move([*moves.values()], self._confirm_lead)
        self._reach("after:push")
        self._repository.expire()
        for name, move in moves.items():
            result = results[move.branch]
            if result.outcome is MoveOutcome.REFUSED:
                self._refused[state.id, name] = result.words
            self._raced[name] = (move, result.words) if result.outcome is MoveOutcome.RACED else None
            log = get_logger().bind(promotion=state.id, fleet=name, branch=move.branch, revision=move.new)
            log.info(_EVENTS[result.outcome], reason=result.words)
        return any(result.outcome is not MoveOutcome.RACED for result in results.values())

    def _confirm_lead(self) -> None:
        """Check immediately before git starts that this promoter still leads, and that there is no newer order.

        Raises ``LockLostError`` or ``ConflictError``. An order that arrives later does not stop the push.
        """
        self._store.confirm()
        self._reach("before:push")

    def _write(
        self,
        found: PromotionSnapshot,
        before: RolloutState,
        after: RolloutState,
        facts: Mapping[str, FleetFacts],
        now: float,
    ) -> None:
        """Record the state of a promotion with its entry in the history, if one of them changed."""
        known = next((entry for entry in found.history if entry.id == after.id), None)
        entry = history_entry(known or self._entry(after), after, facts, now)
        if after != before:
            self._store.record(after, entry)
            self._telemetry.state = after
            log_changes(before, after)
        elif entry != known:
            self._store.write_entry(entry)
        summary = after.waiting or ("ended" if after.ended is not None else "under way")
        self._notifier.status(f"promotion {after.id} of {short(after.revision)}: {summary}")

    def _entry(self, state: RolloutState) -> PromotionEntry:
        """Return a new entry of the history, with the facts about the commit."""
        revision = str(state.revision)
        summary = self._repository.summary(revision)
        return PromotionEntry(
            id=state.id,
            revision=revision,
            subject=summary.subject,
            author=summary.author,
            committed=summary.time,
            begun=state.begun,
            rolls_back=self._repository.rolls_back(revision),
        )

    def _record_standings(
        self, found: PromotionSnapshot, fleets: Fleets, facts: PromotionFacts, now: float
    ) -> None:
        standings = [standing(fleet, facts, found.standings.get(fleet.name), now) for fleet in fleets.fleets]
        self._standings = standings
        self._store.write_standings(standings)

    def _report(self, now: float, *, problem: str = "", waiting: str = "") -> None:
        """Write the report of the promoter, if it changed or is old; log a new problem."""
        before, report = self._reported, PromoterReport(now, self._repository.main, problem, waiting)
        if before is not None and replace(before, time=now) == report and now - before.time < _REPORT_AGE:
            return
        if problem and (before is None or before.problem != problem):
            get_logger().warning("promotion-impossible", reason=problem)
        self._store.write_report(report)
        self._reported = report
