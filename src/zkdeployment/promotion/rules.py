"""Decides what is promoted next, what branches and services mean for a promotion, and which branches move.

A promotion is a rollout whose hosts are fleets. A fleet is prepared when its syncer would accept the revision, has
entered the phase ``deploy`` when its branch may move, and has succeeded when its service reports that it converged
at the revision and its branch really has the revision.
"""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import NO_REASON
from zkdeployment.base.cluster import short
from zkdeployment.base.durations import utc_text
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.host import RESTART, Facts
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.promotion.records import (
    BranchMove,
    BranchTip,
    DryRun,
    FleetReport,
    FleetStanding,
    FleetState,
    Pin,
    PromotionEntry,
)
from zkdeployment.strategies.criteria import proving
from zkdeployment.strategies.permission import Phase, PhaseReport
from zkdeployment.strategies.phases import awaited
from zkdeployment.strategies.progress import apply_acts, dismiss, has_failed, takes_late_joiners, withdraw
from zkdeployment.strategies.state import Directive, Ending, RolloutAct, RolloutFacts, RolloutState
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.strategy import Group, Selector, Strategy, is_open, members, next_opening
from zkdeployment.strategies.views import RolloutProgressState, rollout_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.promotion.documents import Fleet, Fleets, Promotion
    from zkdeployment.promotion.records import MainCommits


#: The fleets that a sentence names.
_NAMED = 5

#: The results in the history of promotions that did not succeed.
FAILED_RESULTS = frozenset(
    state.value
    for state in (RolloutProgressState.FAILED, RolloutProgressState.PARTIAL, RolloutProgressState.ABORTED)
)

#: Seconds between two records of the time at which a service last answered, if nothing else has changed.
_SEEN_AGAIN = 30.0


@dataclass(frozen=True, slots=True)
class MainBranch:
    """The main branch at one moment, compared with the newest promotion.

    ``tip`` is the commit from which promotions run, another one than the tip if an operator chose it.
    ``has_promoted`` is whether the branch contains the revision of that promotion, true without a promotion.
    ``rollback`` is the newest commit after that revision that rolls back a promotion.
    """

    tip: str
    has_promoted: bool = True
    rollback: str | None = None


@dataclass(frozen=True, slots=True)
class NextPromotion:
    """The promotion that begins now: its revision, its sequence, and the number of its attempt."""

    revision: str
    sequence: int
    attempt: int


def next_promotion(
    state: RolloutState | None, main: MainBranch, acts: Iterable[RolloutAct] = (), *, last_sequence: int = 0
) -> NextPromotion | None:
    """Return the promotion that begins now; ``None`` while the newest one continues or nothing is new.

    A rollback supersedes a promotion that is under way, and so does a main branch that lost its revision. Other
    commits wait until the promotion has ended, and until the end of its pause. ``acts`` are the acts on the newest
    promotion, ``last_sequence`` is the highest sequence of any promotion.
    """
    sequence = max(last_sequence, 0 if state is None else state.sequence) + 1
    if state is None:
        return NextPromotion(main.tip, sequence, 1)
    if main.rollback is not None and main.rollback != state.revision:
        return NextPromotion(main.rollback, sequence, 1)
    if main.has_promoted and (state.ended is None or _is_paused_after_end(state, acts)):
        return None
    if main.tip != state.revision:
        return NextPromotion(main.tip, sequence, 1)
    if state.ending is Ending.SUPERSEDED or (has_failed(state) and _is_resumed(state, acts)):
        return NextPromotion(main.tip, state.sequence, state.attempt + 1)
    return None


def pause_reason(state: RolloutState | None, main: MainBranch) -> str:
    """Return why a new commit waits although the newest promotion has ended; empty if no pause is in force."""
    if state is None or state.paused is None or main.tip == state.revision or not _is_paused_after_end(state, ()):
        return ""
    return (
        f"promotions are paused by {state.paused.by}: {state.paused.reason or NO_REASON}; 'zkdeployment promote"
        " resume' ends that"
    )


def _is_paused_after_end(state: RolloutState, acts: Iterable[RolloutAct]) -> bool:
    """Whether a promotion has ended in a way that keeps its pause: fleets may still join late."""
    if state.ended is None:
        return False
    applied = apply_acts(state, acts, state.ended)
    return applied.paused is not None and takes_late_joiners(applied)


def _is_resumed(state: RolloutState, acts: Iterable[RolloutAct]) -> bool:
    return any(act.directive is Directive.RESUME and act.number > state.last_act_number for act in acts)


def rollback_strategy(strategy: Strategy, bad: Collection[str], waiting: Iterable[Fleet] = ()) -> Strategy:
    """Return the strategy of a rollback: first all ``bad`` fleets at once, then the usual groups.

    The first group has no criteria, bake time and window, and its fleets need no verdict of a dry run: a fleet
    without an answer delays no others. Fleets that are ``waiting`` for the reset of their branches lower the
    numbers of fleets that their groups require.
    """
    missing = {fleet.name: fleet.facts for fleet in waiting}
    strategy = replace(strategy, groups=tuple(_without(group, missing) for group in strategy.groups))
    if not bad:
        return strategy
    name = rollback_group_name(strategy)
    first = Group(name, critical=False, selectors=(Selector(names=frozenset(bad)),))
    groups = (group if group.depends_on else replace(group, depends_on=(name,)) for group in strategy.groups)
    return replace(strategy, groups=(first, *groups))


def _without(group: Group, missing: Mapping[str, Facts]) -> Group:
    """Return a group that requires fewer fleets, because it lacks some of its fleets."""
    number, criteria = len(members(group, missing)), group.criteria
    least, required = criteria.minimum_successful, group.require_hosts
    return replace(
        group,
        criteria=replace(criteria, minimum_successful=None if least is None else max(0, least - number)),
        require_hosts=None if required is None else max(0, required - number),
    )


def rollback_group_name(strategy: Strategy) -> str:
    """Return the name of the first group of a rollback, which no other group has."""
    name, names = "rollback", {group.name for group in strategy.groups}
    while name in names:
        name += "-first"
    return name


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """The facts about one fleet at one moment, in relation to one revision.

    ``has``: the fleet's branch contains the revision. ``runs``: the commit that its service reports contains the
    revision. ``refuses``: the commit that its syncer refuses contains the revision. ``follows``: the fleet's
    branch contains the commit that its service reports. ``pin`` is the pin in force; ``pinned``: the revision is
    beyond the pin, ``escaped``: the branch is.
    """

    tip: BranchTip = BranchTip()
    report: FleetReport | None = None
    has: bool = False
    runs: bool = False
    refuses: bool = False
    follows: bool = True
    pin: Pin | None = None
    pinned: bool = False
    escaped: bool = False

    @property
    def diverged(self) -> bool:
        """Whether the branch has a commit that the main branch does not contain."""
        return self.tip.commit is not None and not self.tip.in_main

    @property
    def is_reachable(self) -> bool:
        """Whether the service answers."""
        return self.report is not None and self.report.state is not FleetState.UNREACHABLE

    @property
    def has_converged(self) -> bool:
        """Whether the fleet converged at the revision, according to its service and to its branch.

        A service that reports a commit which its branch does not contain is not believed.
        """
        converged = self.report is not None and self.report.state is FleetState.CONVERGED
        return converged and self.runs and self.has and self.follows and not self.diverged

    def failure(self, fleet: str, resumed: float) -> str:
        """Return why the ``fleet`` failed to reach the revision; empty if it may still reach it.

        A fleet that was stopped before it published the revision, or before an operator ``resumed`` the promotion,
        has not failed: it waits for its operators.
        """
        if self.diverged:
            return (
                f"its branch has diverged from the main branch at {short(self.tip.commit)}; bring the change into"
                f" the main branch, then run 'zkdeployment promote reset {fleet}'"
            )
        if self.report is None:
            return ""
        if self.refuses:
            return _because("its syncer refuses the revision", self.report.problem)
        is_known = self.report.since is not None and self.report.since < resumed
        if self.report.state is FleetState.STOPPED and self.runs and not is_known:
            by = f" by {self.report.by}" if self.report.by else ""
            return _because(f"the fleet was stopped{by}", self.report.problem)
        return ""


def _because(sentence: str, reason: str) -> str:
    return f"{sentence}: {reason}" if reason else sentence


@dataclass(frozen=True, slots=True)
class PromotionFacts:
    """The facts that a promotion is decided on, by fleet.

    ``readings`` has all fleets of the promotion, ``withheld`` those that operators withhold. ``rolls_back``: the
    revision rolls back a promotion. ``dry_runs`` are the answers to dry runs of the revision, ``refused`` the
    words with which the git server refused a push, ``unmoved`` those with which it could not move a branch yet.
    """

    fleets: Fleets
    readings: Mapping[str, FleetFacts]
    withheld: Mapping[str, Act] = field(default_factory=dict)
    rolls_back: bool = False
    dry_runs: Mapping[str, DryRun] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    unmoved: Mapping[str, str] = field(default_factory=dict)
    standings: Mapping[str, FleetStanding] = field(default_factory=dict)

    @property
    def unread(self) -> tuple[str, ...]:
        """The fleets whose services have neither answered nor failed to answer yet, since the promoter leads."""
        return tuple(name for name, reading in self.readings.items() if reading.report is None)

    @property
    def members(self) -> Iterator[tuple[Fleet, FleetFacts]]:
        """The fleets that take part: operators do not keep them out, and their branches wait for no reset."""
        for fleet in self.fleets.fleets:
            if fleet.name not in self.kept_out and not self.awaits_reset(fleet.name):
                yield fleet, self.readings[fleet.name]

    @property
    def kept_out(self) -> frozenset[str]:
        """The fleets that operators keep out: they are withheld, or the revision is beyond their pins."""
        return frozenset({*self.withheld, *(name for name, reading in self.readings.items() if reading.pinned)})

    def awaits_reset(self, fleet: str) -> bool:
        """Whether a rollback omits a fleet until its branch is reset: it diverged and lacks the rollback.

        Such a fleet has usually rolled back by itself. A fleet that has the rollback and diverged has failed.
        """
        reading = self.readings[fleet]
        return self.rolls_back and reading.diverged and not reading.has


def standing(fleet: Fleet, facts: PromotionFacts, before: FleetStanding | None, now: float) -> FleetStanding:
    """Return the standing of a fleet; ``before`` is the last one, from which times are kept."""
    reading, withheld = facts.readings[fleet.name], facts.withheld.get(fleet.name)
    tip, report = reading.tip, reading.report
    if report is None:  # the service has not answered this promoter yet
        known = FleetStanding(fleet.name, problem="the service has not answered yet") if before is None else before
        return replace(
            known,
            tip=tip.commit,
            behind=tip.behind,
            withheld=withheld,
            pin=reading.pin,
            branch=fleet.branch,
            service=fleet.service,
        )
    state = FleetState.DIVERGED if reading.diverged else report.state
    if state is FleetState.CONVERGED and not (tip.commit == report.revision and reading.follows):
        state = FleetState.ROLLING_OUT
    same = before is not None and before.state is state
    reported = report.since if state is report.state else None
    since = reported if reported is not None else before.since if same and before is not None else now
    unreachable = report.state is FleetState.UNREACHABLE
    kept = before if unreachable and before is not None else None
    found = FleetStanding(
        name=fleet.name,
        state=state,
        tip=tip.commit,
        revision=report.revision if kept is None else kept.revision,
        hosts=report.hosts if kept is None else kept.hosts,
        converged=report.converged if kept is None else kept.converged,
        since=since,
        by=report.by,
        problem="; ".join(filter(None, (_problem(fleet, facts, report), *_open_problems(fleet, facts)))),
        behind=tip.behind,
        seen=(None if kept is None else kept.seen) if unreachable else report.read_at,
        withheld=withheld,
        pin=reading.pin,
        branch=fleet.branch,
        service=fleet.service,
    )
    return before if before is not None and _is_recent(before, found) else found


def _is_recent(before: FleetStanding, after: FleetStanding) -> bool:
    """Whether a standing differs from the last one only by an answer a moment later, which needs no record."""
    if before.seen is None or after.seen is None or replace(after, seen=before.seen) != before:
        return False
    return 0 <= after.seen - before.seen < _SEEN_AGAIN


def _problem(fleet: Fleet, facts: PromotionFacts, report: FleetReport) -> str:
    """Return one sentence on what keeps a fleet from the tip of the main branch; empty if nothing does."""
    reading = facts.readings[fleet.name]
    if reading.diverged:
        way_back = "bring the change into the main branch, as 'zkdeployment promote rollback' does, then"
        if facts.awaits_reset(fleet.name):
            way_back = "the rollback is in the main branch;"
        return (
            f"branch {fleet.branch} has {short(reading.tip.commit)}, which the main branch does not contain;"
            f" nothing is promoted to this fleet: {way_back} run 'zkdeployment promote reset {fleet.name}'"
        )
    if not reading.follows:
        return (
            f"the service reports {short(report.revision)}, which branch {fleet.branch} does not contain; does the"
            " fleet's syncer follow this branch, and is this the service of the fleet?"
        )
    if reading.pin is not None and reading.escaped:
        escaped = (
            f"branch {fleet.branch} was at {short(reading.tip.commit)} already when the fleet was pinned to"
            f" {short(reading.pin.revision)}: a pin moves no branch back, and 'zkdeployment promote rollback' does"
        )
        return f"{escaped}; {report.problem}" if report.problem else escaped
    if reading.tip.commit is None:
        missing = f"there is no branch {fleet.branch}: the first promotion creates it"
        return f"{missing}; {report.problem}" if report.problem else missing
    return report.problem


def _open_problems(fleet: Fleet, facts: PromotionFacts) -> Iterator[str]:
    """Yield why the promoter repeats a dry run or a push."""
    answer = facts.dry_runs.get(fleet.name)
    if answer is not None and answer.problem:
        yield f"the dry run has no answer: {answer.problem}"
    if fleet.name in facts.unmoved:
        yield (
            f"the git server could not move {fleet.branch}: {facts.unmoved[fleet.name]}; the push is repeated;"
            " check the disk of the server, and remove a lock that another git left behind there"
        )


def pinned_revision(standing: FleetStanding, commits: MainCommits, named: str) -> str:
    """Return the revision to which a fleet is pinned: the ``named`` commit, or the tip of its branch.

    Raises ``RefusedError`` if the main branch does not contain that commit, and if the branch has a newer one.
    """
    name, tip = standing.name, standing.tip
    if not named:
        if tip is None:
            raise RefusedError(f"the fleet {name} has no branch yet; name the REVISION to which it is pinned")
        return tip
    revision = commits.find(named)
    if _is_newer(standing, revision, commits):
        raise RefusedError(
            f"{short(revision)} is older than {short(tip)}, to which the branch of {name} points, and a pin moves"
            f" no branch back; pin the fleet to {short(tip)}, or go back with 'zkdeployment promote rollback"
            f" {short(revision)}'"
        )
    return revision


def choice_hazards(
    revision: str,
    commits: MainCommits,
    standings: Collection[FleetStanding],
    history: Iterable[PromotionEntry],
) -> tuple[str, ...]:
    """Return clauses on what a person has to know before promotions run from a commit: why they may be in vain."""
    newer = [each.name for each in standings if _is_newer(each, revision, commits)]
    last = next((entry for entry in history if entry.revision == revision), None)
    hazards = []
    if newer:
        hazards.append(
            f"a step back: {listing(newer, _NAMED)} {'has' if len(newer) == 1 else 'have'} a newer commit and"
            f" keep{'s' if len(newer) == 1 else ''} it, because a promotion moves no branch back; to go back, run"
            f" 'zkdeployment promote rollback {short(revision)}'"
        )
    if last is not None and last.result in FAILED_RESULTS:
        hazards.append(f"promotion {last.id} of {short(revision)} ended before: {last.result}")
    hazards += [
        f"{each.name} refuses {short(revision)}: {each.problem}"
        for each in standings
        if each.state is FleetState.REFUSED and each.tip == revision
    ]
    return tuple(hazards)


def _is_newer(fleet: FleetStanding, revision: str, commits: MainCommits) -> bool:
    """Whether the branch of a fleet contains a revision and further commits."""
    return fleet.tip is not None and fleet.tip != revision and commits.contains(fleet.tip, revision)


def absent_since(before: FleetStanding | None, now: float) -> float:
    """Return since when a fleet that cannot be reached counts as absent, in seconds since the epoch."""
    if before is None or before.state is not FleetState.UNREACHABLE or before.since is None:
        return now
    return before.since


def first_rollout_facts(facts: PromotionFacts, strategy: Strategy, now: float) -> RolloutFacts:
    """Return the fleets with which a promotion begins.

    Fleets that cannot be reached are absent from the time since when they could not be reached.
    """
    absent = {fleet.name: fleet.facts for fleet, reading in facts.members if not reading.is_reachable}
    # The engine counts a host as gone RESTART seconds after it left.
    shift = strategy.absent_after - RESTART
    return RolloutFacts(
        now=now,
        present={fleet.name: fleet.facts for fleet, reading in facts.members if reading.is_reachable},
        absent=absent,
        left_at={name: absent_since(facts.standings.get(name), now) + shift for name in absent},
        current=frozenset(fleet.name for fleet, reading in facts.members if reading.has_converged),
    )


def participating(state: RolloutState, facts: PromotionFacts) -> RolloutState:
    """Return a promotion without the fleets that take no part and have not finished: they leave their groups.

    A fleet that operators keep out stays if its branch has moved. A fleet that waits for the reset of its branch
    leaves.
    """
    idle = {name for name in facts.kept_out if not (name in facts.readings and facts.readings[name].has)}
    waiting = {name for name in facts.readings if facts.awaits_reset(name)}
    return dismiss(withdraw(state, facts.kept_out), idle | waiting)


def rollout_facts(
    state: RolloutState, facts: PromotionFacts, now: float, *, acts: Sequence[RolloutAct] = (), halt: str = ""
) -> RolloutFacts:
    """Return the facts of the rollout of a promotion that has begun, from the facts about its fleets."""
    members = dict(_participants(state, facts))
    proven = proving(state)
    return RolloutFacts(
        now=now,
        halt=halt,
        present={fleet.name: fleet.facts for fleet, reading in members.values() if reading.is_reachable},
        current=frozenset(
            name
            for name, (_, reading) in members.items()
            if name not in state.rollout.hosts and reading.has_converged
        ),
        outdated=frozenset(
            name
            for name, (_, reading) in members.items()
            if state.rollout.hosts.get(name) is HostProgress.SUCCESS
            and not (reading.has or reading.diverged or name in facts.kept_out)
        ),
        failing=frozenset(
            name
            for name, (_, reading) in members.items()
            if name in proven and (reading.failure(name, _resumed(state)) or not reading.has)
        ),
        reports={
            (phase, name): report
            for phase, name in awaited(state)
            if name in members and (report := _report(state, phase, *members[name], facts, now)) is not None
        },
        acts=tuple(acts),
    )


def _participants(state: RolloutState, facts: PromotionFacts) -> Iterator[tuple[str, tuple[Fleet, FleetFacts]]]:
    """Yield the fleets that take part, also those that stay although operators keep them out."""
    taking_part = {fleet.name for fleet, _ in facts.members}
    for fleet in facts.fleets.fleets:
        if fleet.name in taking_part or fleet.name in state.rollout.hosts:
            yield fleet.name, (fleet, facts.readings[fleet.name])


def _report(
    state: RolloutState, phase: Phase, fleet: Fleet, reading: FleetFacts, facts: PromotionFacts, now: float
) -> PhaseReport | None:
    """Return the report of a fleet on a phase; ``None`` while its outcome is open."""
    if phase is Phase.DEPLOY:
        error = reading.failure(fleet.name, _resumed(state)) or _refused_push(fleet, reading, facts)
        return PhaseReport(now, error) if error else PhaseReport(now) if reading.has_converged else None
    if reading.diverged:
        return PhaseReport(now, reading.failure(fleet.name, _resumed(state)))
    if reading.has:
        return PhaseReport(now)
    answer = facts.dry_runs.get(fleet.name)
    if answer is None:
        return None
    if answer.problem:
        return PhaseReport(now) if _leads_back_first(state, facts, fleet) else None
    refusal = f"its syncer would refuse {short(state.revision)}: {answer.refusal}"
    return PhaseReport(now, refusal if answer.refusal else None)


def _resumed(state: RolloutState) -> float:
    """Return when an operator resumed a promotion that had failed; minus infinity for its first attempt."""
    return state.begun if state.attempt > 1 else -math.inf


def _leads_back_first(state: RolloutState, facts: PromotionFacts, fleet: Fleet) -> bool:
    """Whether a fleet is in the first group of a rollback, in which only its own syncer judges the revision."""
    strategy = state.rollout.strategy
    first = rollback_group_name(replace(strategy, groups=strategy.groups[1:]))
    return facts.rolls_back and fleet.name in state.rollout.members.get(first, ())


def _refused_push(fleet: Fleet, reading: FleetFacts, facts: PromotionFacts) -> str:
    words = facts.refused.get(fleet.name)
    if words is None or reading.has:
        return ""
    return _because(f"the git server refused the push to {fleet.branch}", words)


def wanted_dry_runs(state: RolloutState, facts: PromotionFacts) -> dict[str, str]:
    """Return the services that are to be asked for a dry run of a promotion's revision, by fleet."""
    fleets = facts.fleets.by_name
    return {
        name: fleets[name].service
        for phase, name in awaited(state)
        if phase is Phase.PREPARE and name in fleets and not facts.readings[name].has
    }


def wanted_moves(state: RolloutState, facts: PromotionFacts) -> dict[str, BranchMove]:
    """Return the moves of branches that follow from a recorded promotion, by fleet.

    A branch that diverged, or whose push was refused, does not move, and during a pause, a freeze or another halt
    no branch does. A successor repeats moves that its predecessor could not complete.
    """
    if state.halted_since is not None:
        return {}
    fleets, moves = facts.fleets.by_name, {}
    for phase, name in sorted(awaited(state), key=lambda each: each[1]):
        reading = facts.readings.get(name)
        if phase is not Phase.DEPLOY or reading is None or name in facts.refused:
            continue
        if not reading.has and not reading.diverged:
            moves[name] = BranchMove(fleets[name].branch, reading.tip.commit, str(state.revision))
    return moves


def halt_reason(
    promotion: Promotion, now: float, *, state: RolloutState | None = None, rolls_back: bool = False
) -> str:
    """Return why nothing may be promoted now: a freeze or a closed window; empty if it may.

    The first group of a rollback waits for neither: ``state`` is the promotion under way, ``rolls_back`` whether
    one would begin with such a group.
    """
    if rolls_back if state is None else _is_first_pending(promotion, state):
        return ""
    for freeze in promotion.freezes:
        if freeze.start <= now < freeze.end:
            return f"promotions are frozen until {utc_text(freeze.end)}: {freeze.reason}"
    if not is_open(promotion.windows, now):
        return f"the window of the promotion opens at {utc_text(next_opening(promotion.windows, now))}"
    return ""


def _is_first_pending(promotion: Promotion, state: RolloutState) -> bool:
    """Whether the promotion is a rollback whose first group has no verdict yet."""
    first = rollback_group_name(promotion.strategy)
    progress = state.rollout.progress.get(first)
    return progress is not None and progress.verdict is None


def history_entry(
    before: PromotionEntry, state: RolloutState, readings: Mapping[str, FleetFacts], now: float
) -> PromotionEntry:
    """Return the entry of a promotion in the history; the times at which fleets reached the revision are kept."""
    reached = dict.fromkeys((name for name, reading in readings.items() if reading.has_converged), now)
    return replace(
        before,
        ended=state.ended,
        result="" if state.ended is None else rollout_state(state).value,
        reached={**reached, **before.reached},
    )
