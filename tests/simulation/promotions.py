"""``scripts/simulate --fleets``: the real promoter with simulated fleets, which is killed, by a seed.

The promoter, its rules and the engine of strategies are the program's own. The home ensemble, the git server, the
services of fleets and the time are simulated. Each fleet publishes what its branch has, converges host by host,
stops at bad commits or rolls back by itself, cannot be reached for a while, lies, or gets commits of its own. A
frozen promoter continues after another one has led. People push during a push, and rewrite the main branch.
"""

from __future__ import annotations

import json
import math
import random
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from simulation.green import Killed
from simulation.promotion_servers import (
    BEGIN,
    GitServer,
    HomeEnsemble,
    MemoryLead,
    MemoryStore,
    SimulatedBranches,
    SimulatedClock,
)
from zkdeployment.base.act import Act
from zkdeployment.base.daemon.connection_status import ConnectionStatus
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.daemon.metrics import MetricsFile, Probe
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.base.source_files import SourceFile
from zkdeployment.promotion.daemon import Promoter
from zkdeployment.promotion.records import DryRun, FleetReport, FleetState, Pin
from zkdeployment.strategies.daemon import LeaderAdapters
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.progress import has_failed
from zkdeployment.strategies.state import Directive
from zkdeployment.strategies.views import directive_objection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.promotion.records import BranchMove
    from zkdeployment.strategies.state import RolloutState

#: The bytes that a node of ZooKeeper may have, and the seconds of processor time that a decision may take.
_NODE_LIMIT = 1_000_000
DECISION_LIMIT = 1.0

#: The seconds after which a service is asked again.
_INTERVAL = 10.0

#: The simulated seconds in which everything heals after the faults.
_CALM = 40_000.0

_WAVES = 4

#: When the window of the promotion is closed, in minutes after midnight (UTC); the simulation begins at 8 o'clock.
_CLOSED = (8 * 60 + 20, 8 * 60 + 35)

#: The seconds until operators reset a branch that diverged.
_UNTIL_RESET = 2000.0

#: Where a promoter has confirmed its lead and pushes.
_PUSHES = ("before:push", "between:moves")


@dataclass(frozen=True)
class PromotionOptions:
    """The size of a simulation: ``fleets``, the ``hosts`` of all of them, and the seconds with ``faults``."""

    seed: int
    fleets: int = 100
    hosts: int = 10_000
    faults: float = 20_000.0


@dataclass
class PromotionResult:
    """A seed's outcome: the longest ``decision`` in seconds of processor time, and the largest node in bytes."""

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    decision: float = 0.0
    size: int = 0

    @property
    def sentence(self) -> str:
        """The result in one line."""
        counts = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items()))
        found = "; ".join(self.violations) or "all invariants held"
        limits = f"slowest decision {self.decision:.3f} s; largest node {self.size} bytes"
        return f"seed {self.seed}: {counts}; {limits}: {found}"


@dataclass
class SimulatedFleet:
    """One fleet: the truth, and how its service reports it.

    ``published`` is the commit that its syncer published last, ``converged`` the number of hosts that have it,
    ``reached`` are the commits at which every host converged. ``away`` and ``lies`` are until when the service
    does not answer, or reports a commit that its branch does not have; ``told`` are such commits.
    """

    name: str
    wave: int
    hosts: int
    rate: float = 1.0
    published: str | None = None
    publishing: float | None = None
    converged: float = 0.0
    limit: float | None = None
    reached: list[str] = field(default_factory=list)
    away: float = -1.0
    lies: float = -1.0
    is_stopped: bool = False
    heal: float | None = None
    own_since: float | None = None
    told: set[str] = field(default_factory=set)

    @property
    def branch(self) -> str:
        """The branch that the fleet follows."""
        return f"fleets/{self.name}"

    @property
    def has_converged(self) -> bool:
        """Whether every host has the published commit."""
        return self.published is not None and not self.is_stopped and self.converged >= self.hosts


class SimulatedServices:
    """The services as one promoter knows them, with the interface of ``FleetServices``.

    An answer arrives after the call that asks for it, so each report is as old as a real one may be. No service
    has an event stream.
    """

    open_streams = 0

    def __init__(self, world: PromotionWorld) -> None:
        self._world = world
        self._asked: dict[str, float] = {}
        self._reports: dict[str, FleetReport] = {}
        self._tried: dict[tuple[str, str, str], tuple[float, DryRun]] = {}

    def forget(self) -> None:
        """Forget all answers."""
        self._asked, self._reports, self._tried = {}, {}, {}

    def reports(self, services: Mapping[str, str]) -> Mapping[str, FleetReport]:
        """Return the last reports, and ask for those that are due."""
        now = self._world.clock.time
        known = {name: self._reports[name] for name in services if name in self._reports}
        self._asked = {name: self._asked[name] for name in known}
        self._reports = dict(known)
        for name in services:
            if now - self._asked.get(name, -math.inf) >= _INTERVAL:
                self._asked[name], self._reports[name] = now, self._world.report(name)
        return known

    def dry_runs(self, services: Mapping[str, str], commit: str, promotion: str = "") -> Mapping[str, DryRun]:
        """Return the answers to the dry runs of a commit for a promotion, and ask the other services."""
        now, of = self._world.clock.time, (commit, promotion)
        self._tried = {key: each for key, each in self._tried.items() if key[1:] == of}
        known = {name: self._tried[name, *of][1] for name in services if (name, *of) in self._tried}
        for name in services:
            answered, answer = self._tried.get((name, *of), (0.0, None))
            if answer is None or (answer.problem and now - answered >= _INTERVAL):
                self._tried[name, *of] = now, self._world.dry_run(name, commit)
        return known


class PromotionWorld:
    """One seed: fleets, commits, operators, faults, and promoters that are killed."""

    def __init__(self, options: PromotionOptions, say: Callable[[str], None] = lambda _: None) -> None:
        self._options = options
        self._random = random.Random(options.seed)
        self._say = say
        self.clock = SimulatedClock()
        self.result = PromotionResult(options.seed)
        each = max(1, options.hosts // options.fleets)
        self.fleets = {
            f"fleet{number}": SimulatedFleet(f"fleet{number}", _wave(number, options.fleets), each)
            for number in range(options.fleets)
        }
        self.git = GitServer(_documents([*self.fleets.values()]))
        self.home = HomeEnsemble()
        self._is_calm = False
        self._killing = 0.0
        self._freezing = 0.0
        self._is_frozen = self._is_late = False
        self._elsewhere = 0.0  # seconds of processor time of other promoters, while one is frozen
        self._moved: set[tuple[str, str]] = set()
        self._promoted_by_operator: set[tuple[str, str]] = set()
        self._excused: dict[str, float] = {}
        self.git.branches["main"] = self.git.commit(None)
        self._promoter = self._new_promoter()

    # What promoters reach

    def count(self, name: str) -> None:
        """Count an event."""
        self.result.counts[name] = self.result.counts.get(name, 0) + 1

    def reach(self, place: str) -> None:
        """Kill the promoter at this place, or not."""
        if self._random.random() < self._killing:
            self.count("kills")
            self._trace(f"the promoter is killed at {place}")
            raise Killed
        disturbing = self._freezing * (10 if place in _PUSHES else 1)
        if not self._is_frozen and self._random.random() < disturbing:
            self._freeze(place)
        if place in _PUSHES and self._random.random() < disturbing:
            self._intrude()

    def _freeze(self, place: str) -> None:
        """Let another promoter lead while this one is frozen; this one then continues where it was."""
        self.count("freezes")
        self._trace(f"the promoter is frozen at {place}")
        begun, self._is_frozen, self.home.leader = time.process_time(), True, None
        self._promoter = self._new_promoter()
        for _ in range(self._random.randint(1, 20)):
            self._step(self._random.uniform(1.0, 60.0))
        self._is_frozen, self._is_late = False, place in _PUSHES
        self._elsewhere += time.process_time() - begun
        self._trace("the frozen promoter continues")

    def _intrude(self) -> None:
        """Let a person push to the branch of a fleet during a push of the promoter."""
        fleet = self._random.choice([*self.fleets.values()])
        main, tip = self.git.branches["main"], self.git.branches.get(fleet.branch)
        if tip is not None and self._random.random() < 0.5 and self.git.contains(main, tip):
            self.git.branches[fleet.branch] = main
            self.count("pushes by people")
            self._trace(f"a person moves {fleet.name} to {main[:7]}")
        else:
            self._diverge(fleet)

    def report(self, name: str) -> FleetReport:
        """Return what a promoter learns from the service of a fleet."""
        fleet, now = self.fleets[name], self.clock.now()
        if fleet.away > self.clock.time:
            return FleetReport(FleetState.UNREACHABLE, problem="the service did not answer within 10 s")
        tip, own = self.git.branches["main"], self.git.branches.get(fleet.branch)
        if fleet.lies > self.clock.time and not (own is not None and self.git.contains(own, tip)):
            fleet.told.add(tip)
            return FleetReport(FleetState.CONVERGED, tip, fleet.hosts, fleet.hosts, read_at=now)
        state = FleetState.CONVERGED if fleet.has_converged else FleetState.ROLLING_OUT
        state = FleetState.STOPPED if fleet.is_stopped else state
        problem = "host1 failed: the script ended with 1" if fleet.is_stopped else ""
        return FleetReport(state, fleet.published, fleet.hosts, int(fleet.converged), problem=problem, read_at=now)

    def dry_run(self, name: str, commit: str) -> DryRun:
        """Return the answer of a fleet's service to a dry run: some commits are refused by some fleets."""
        fleet = self.fleets[name]
        if fleet.away > self.clock.time:
            return DryRun(problem="the service did not answer within 10 s")
        refuses = not self._is_calm and (self.git.commits[commit].number * 31 + len(name)) % 97 == fleet.wave
        return DryRun("a.zk:1:1: no such type" if refuses else "")

    # Invariants

    def violate(self, text: str) -> None:
        """Record a broken invariant."""
        self._trace(f"VIOLATION: {text}")
        self.result.violations.append(f"at {self.clock.time:.0f} s: {text}")

    def judge_move(self, move: BranchMove, main: str) -> None:
        """Check a move of a branch, before it is made, against the records and the truth."""
        fleet = self.fleets[move.branch.removeprefix("fleets/")]
        state = self.home.state
        self._trace(f"move {fleet.name} to {move.new[:7]}")
        self._moved.add((fleet.name, move.new))
        if not self.git.contains(main, move.new):
            self.violate(f"{fleet.name} gets {move.new[:7]}, which is not in main")
        if move.old is not None and not self.git.contains(move.new, move.old):
            self.violate(f"{fleet.name} moves backwards from {move.old[:7]} to {move.new[:7]}")
        if self._is_late:
            return  # the records have changed since this promoter confirmed its lead
        if state is None or str(state.revision) != move.new:
            self.violate(f"{fleet.name} gets {move.new[:7]}, which is not the recorded promotion")
            return
        active = state.active_phase
        granted = active is not None and active.task.phase is Phase.DEPLOY and fleet.name in active.granted
        joins = state.late_joiners.get(fleet.name) is Phase.DEPLOY
        is_closed = _is_closed(self.clock.now()) and not self._is_in_rollback_group(state, fleet)
        broken = {
            "before its grant is recorded": not (granted or joins),
            "after the end of the promotion": granted and state.ended is not None,
            "although the promotion is paused": state.paused is not None,
            "although it is withheld": fleet.name in self.home.withheld,
            "beyond its pin": self._is_beyond_pin(fleet, move.new),
            "outside the window of the promotion": is_closed,
        }
        for words in [words for words, is_broken in broken.items() if is_broken]:
            self.violate(f"{fleet.name} moves {words}")
        self._judge_order(state, fleet)

    def _is_beyond_pin(self, fleet: SimulatedFleet, commit: str) -> bool:
        pin = self.home.pins.get(fleet.name)
        in_force = pin is not None and pin.is_in_force(self.clock.now())
        return pin is not None and in_force and not self.git.contains(pin.revision, commit)

    def _judge_order(self, state: RolloutState, fleet: SimulatedFleet) -> None:
        """Check that enough fleets of each earlier critical wave really have the revision."""
        revision = str(state.revision)
        if self._is_in_rollback_group(state, fleet):
            return  # fleets with a bad revision come first
        for wave in range(fleet.wave):
            group = f"wave{wave}"
            if (state.id, group) in self._promoted_by_operator:
                continue
            members = [each for each in self.fleets.values() if each.wave == wave and self._counts(state, each)]
            reached = [each for each in members if self._has_reached(each, revision)]
            if len(reached) < _REQUIRED[wave] / 100 * len(members):
                have = f"{len(reached)} of {len(members)} fleets of {group}"
                self.violate(f"{fleet.name} of wave{fleet.wave} gets {revision[:7]} when {have} have it")

    def _is_in_rollback_group(self, state: RolloutState, fleet: SimulatedFleet) -> bool:
        members = state.rollout.members
        return any(name.startswith("rollback") and fleet.name in fleets for name, fleets in members.items())

    def _counts(self, state: RolloutState, fleet: SimulatedFleet) -> bool:
        """Whether a fleet counts in its group: it took part since the promotion began, and could be reached."""
        was_excused = self._excused.get(fleet.name, -1.0) + BEGIN >= state.begun - 0.1  # promoters round times
        return fleet.name in state.rollout.hosts and not was_excused

    def _has_reached(self, fleet: SimulatedFleet, revision: str) -> bool:
        """Whether a fleet had the revision on all hosts, or its service said so right before its branch got it.

        A promoter compares a report with the branch, and cannot know that the report is older than the branch.
        """
        if any(self.git.contains(at, revision) for at in fleet.reached):
            return True
        has = self.git.contains(self.git.branches.get(fleet.branch, ""), revision)
        had = (fleet.name, revision) in self._moved  # and was perhaps reset
        return (has or had) and any(self.git.contains(lie, revision) for lie in fleet.told)

    def _judge_records(self) -> None:
        for entry in self.home.history.values():
            for name in entry.reached:
                fleet = self.fleets[name]
                if not self._has_reached(fleet, entry.revision):
                    self.violate(f"the history shows {entry.revision[:7]} at {name}, which does not have it")
        state = self.home.state
        for name, error in {} if state is None else state.errors.items():
            if self._is_rollback(state) and "diverged" in error and (name, state.revision) not in self._moved:
                self.violate(f"the rollback {state.id} counts {name} as failed, which waits for its reset")
        if self.home.largest > _NODE_LIMIT:
            self.violate(f"a node has {self.home.largest} bytes")

    # The run

    def run(self) -> PromotionResult:
        """Simulate faults, then a calm time in which everything has to converge on the main branch."""
        self._killing, self._freezing = 0.004, 0.002
        while self.clock.time < self._options.faults and not self.result.violations:
            self._step(self._random.uniform(1.0, 30.0))
        self._heal()
        while not self.result.violations and not self._has_settled():
            if self.clock.time > self._options.faults + _CALM:
                behind = [name for name, fleet in self.fleets.items() if not self._is_settled(fleet)]
                self.violate(f"after the faults, {len(behind)} fleets are not at main: {', '.join(behind[:5])}")
                break
            self._step(10.0)
        self.result.size = self.home.largest
        self.result.counts["promotions"] = len(self.home.history)
        if self.result.decision > DECISION_LIMIT:
            self.violate(f"a decision took {self.result.decision:.2f} s")
        return self.result

    def _step(self, seconds: float) -> None:
        end = self.clock.time + seconds
        pause = 0.0
        for _ in range(30):  # a promoter that never waits would be a defect of its own
            pause = max(0.5, self._cycle())
            self.clock.time += min(pause, max(0.5, end - self.clock.time))
            if self.clock.time >= end:
                break
        for fleet in self.fleets.values():
            self._advance(fleet, self.clock.time - end + seconds)
        if not self._is_calm:
            self._act()
        self._judge_records()

    def _cycle(self) -> float:
        """Run one cycle of the promoter; a killed one has a successor."""
        promoter, begun, elsewhere = self._promoter, time.process_time(), self._elsewhere
        try:
            return promoter.run_cycle()
        except Killed:
            if self._promoter is promoter:  # else another one leads already
                self.home.leader = None  # its session expires
                self._promoter = self._new_promoter()
            return 10.0
        finally:
            self._is_late = False
            used = time.process_time() - begun - (self._elsewhere - elsewhere)
            self.result.decision = max(self.result.decision, used)

    def _new_promoter(self) -> Promoter:
        self.count("promoters")
        lead = MemoryLead(self.home, self.reach)
        return Promoter(
            MemoryStore(self.home, lead),  # type: ignore[arg-type]  the same interface
            SimulatedBranches(self.git, self),  # type: ignore[arg-type]
            SimulatedServices(self),  # type: ignore[arg-type]
            LeaderAdapters(
                lead=lead,  # type: ignore[arg-type]
                clock=self.clock,
                control=Control(self.clock),
                notifier=SystemdNotifier({}),
                probe=Probe(MetricsFile(None), self.clock, ConnectionStatus, "1"),
                connect=lambda: None,
                record_failure=lambda message: (
                    self.violate(f"a defect: {message}") if "unexpected" in message else None
                ),
            ),
            reach=self.reach,
        )

    # Fleets

    def _advance(self, fleet: SimulatedFleet, seconds: float) -> None:
        """Let a fleet do its own work for some seconds."""
        now, tip = self.clock.time, self.git.branches.get(fleet.branch)
        ordered = fleet.name in self.home.withheld or fleet.name in self.home.pins
        if fleet.away > now - seconds or ordered or self._awaits_reset(fleet):
            self._excused[fleet.name] = now
        if tip is not None and tip != fleet.published and fleet.publishing is None:
            fleet.publishing = now + self._random.uniform(1, 40)
        self._resume(fleet, tip)
        if tip is not None and fleet.publishing is not None and now >= fleet.publishing and not fleet.is_stopped:
            fleet.publishing = None
            if tip != fleet.published:
                self._publish(fleet, tip)
        if fleet.published is not None and not fleet.is_stopped and fleet.converged < fleet.hosts:
            fleet.converged = min(fleet.hosts, fleet.converged + fleet.rate * seconds)
            if fleet.limit is not None and fleet.converged >= fleet.limit:
                fleet.is_stopped, fleet.heal = True, now + self._random.uniform(300, 3000)
                self.count("fleets stopped")
                if self._random.random() < 0.3:
                    self._roll_itself_back(fleet)
            elif fleet.has_converged:
                fleet.reached.append(fleet.published)
        self._note_divergence(fleet)

    def _note_divergence(self, fleet: SimulatedFleet) -> None:
        """Let operators reset a branch some time after it diverged, also if the main branch was rewritten."""
        tip, now = self.git.branches.get(fleet.branch), self.clock.time
        if tip is None or self.git.contains(self.git.branches["main"], tip):
            fleet.own_since = None
            return
        if self._is_rollback(self.home.state):
            self._excused[fleet.name] = now
        if fleet.own_since is None:
            fleet.own_since = now
        elif now - fleet.own_since > _UNTIL_RESET:
            self._reset(fleet)

    def _is_rollback(self, state: RolloutState | None) -> bool:
        return state is not None and bool(self.git.commits[str(state.revision)].rolls_back)

    def _roll_itself_back(self, fleet: SimulatedFleet) -> None:
        """Let the coordinator of a fleet commit a revert to the fleet's branch, unless that has moved."""
        if self.git.branches[fleet.branch] == fleet.published:
            self.git.branches[fleet.branch] = self.git.commit(fleet.published, rolls_back=fleet.published)
            fleet.is_stopped, fleet.limit, fleet.heal = False, None, None
            fleet.publishing = self.clock.time
            self.count("fleets rolled back")

    def _awaits_reset(self, fleet: SimulatedFleet) -> bool:
        """Whether the promotion is a rollback, which does not wait for a diverged fleet."""
        state = self.home.state
        rolls_back = state is not None and bool(self.git.commits[str(state.revision)].rolls_back)
        return rolls_back and fleet.own_since is not None

    def _resume(self, fleet: SimulatedFleet, tip: str | None) -> None:
        """Let an operator resume a stopped fleet, unless its branch still has what stopped it."""
        now = self.clock.time
        if fleet.is_stopped and fleet.heal is not None and now >= fleet.heal:
            if tip != fleet.published or self._is_calm or not self.git.is_bad(str(tip)):
                fleet.is_stopped, fleet.heal, fleet.limit = False, None, None  # an operator resumed it
                fleet.publishing = now
            else:
                fleet.heal = now + 600

    def _publish(self, fleet: SimulatedFleet, tip: str) -> None:
        fleet.published, fleet.converged = tip, 0.0
        fleet.rate = fleet.hosts / self._random.uniform(30, 900)
        fails = not self._is_calm and self._random.random() < (0.9 if self.git.is_bad(tip) else 0.01)
        fleet.limit = self._random.uniform(0, fleet.hosts) if fails else None

    def _reset(self, fleet: SimulatedFleet) -> None:
        """Reset a diverged branch to the rollback that is promoted, or to the newest commit of main in it."""
        main, state = self.git.branches["main"], self.home.state
        own = self.git.ancestors(self.git.branches[fleet.branch])
        target = next(each.id for each in own if self.git.contains(main, each.id))
        if state is not None and self._is_rollback(state):
            target = str(state.revision) if self.git.contains(main, str(state.revision)) else target
        self.git.branches[fleet.branch] = target
        fleet.own_since = None
        self.count("branches reset")

    # People and faults

    def _act(self) -> None:
        """Do what people and faults do at times."""
        fleet = self._random.choice([*self.fleets.values()])
        events: tuple[tuple[float, Callable[[SimulatedFleet], None]], ...] = (
            (0.02, self._push_commit),
            (0.02, self._push_rollback),
            (0.03, self._vanish),
            (0.01, self._lie),
            (0.01, self._diverge),
            (0.01, self._withhold),
            (0.01, self._pin),
            (0.02, self._direct),
            (0.004, self._rewrite),
            (0.005, self._lose_git),
        )
        for chance, event in events:
            if self._random.random() < chance:
                event(fleet)
        if self.git.is_away and self._random.random() < 0.2:
            self.git.is_away = False

    def _push_commit(self, _fleet: SimulatedFleet) -> None:
        is_bad = self._random.random() < 0.3
        self.git.branches["main"] = self.git.commit(self.git.branches["main"], is_bad=is_bad)
        self.count("commits")

    def _push_rollback(self, _fleet: SimulatedFleet) -> None:
        """Roll back the promotion under way, or the last one, if its revision is bad."""
        state, main = self.home.state, self.git.branches["main"]
        if state is None or not self.git.is_bad(main):
            return
        bad = next((each.id for each in self.git.ancestors(main) if each.is_bad), None)
        if bad is not None:
            self.git.branches["main"] = self.git.commit(main, rolls_back=bad)
            self.count("rollbacks")

    def _vanish(self, fleet: SimulatedFleet) -> None:
        fleet.away = self.clock.time + self._random.expovariate(1 / 800)
        self._excused[fleet.name] = self.clock.time
        self.count("fleets vanished")

    def _lie(self, fleet: SimulatedFleet) -> None:
        fleet.lies = self.clock.time + self._random.expovariate(1 / 400)
        self.count("lies")

    def _diverge(self, fleet: SimulatedFleet) -> None:
        tip = self.git.branches.get(fleet.branch)
        if tip is not None:
            self.git.branches[fleet.branch] = self.git.commit(tip)
            fleet.own_since = self.clock.time
            self.count("fleets diverged")

    def _withhold(self, fleet: SimulatedFleet) -> None:
        if self.home.withheld.pop(fleet.name, None) is None:
            self.home.withhold(fleet.name, Act("op", "withhold", "why", self.clock.now()))

    def _pin(self, fleet: SimulatedFleet) -> None:
        """Pin a fleet to its tip for a while."""
        tip, now = self.git.branches.get(fleet.branch), self.clock.now()
        if tip is not None:
            until = now + self._random.expovariate(1 / 600)
            self.home.pin(fleet.name, Pin(Act("op", "pin", "why", now), tip, until))
            self.count("pins")

    def _direct(self, _fleet: SimulatedFleet) -> None:
        """Record an operator's act, as ``store.direct`` does."""
        state = self.home.state
        if state is None:
            return
        directive = self._random.choice([*Directive])
        group = None
        if directive in {Directive.PROMOTE, Directive.FAIL}:
            group = self._random.choice(state.rollout.strategy.groups).name
        if directive_objection(state, directive, group) is None:
            self.home.direct(directive, Act("op", directive.value, "why", self.clock.now()), group)
            self.count("acts")
            if directive is Directive.PROMOTE:
                self._promoted_by_operator.add((state.id, str(group)))

    def _rewrite(self, _fleet: SimulatedFleet) -> None:
        """Rewrite the main branch: its newest commit is lost, and perhaps replaced."""
        parent = self.git.commits[self.git.branches["main"]].parent
        if parent is not None:
            is_replaced = self._random.random() < 0.7
            self.git.branches["main"] = self.git.commit(parent) if is_replaced else parent
            self.count("rewrites of main")

    def _lose_git(self, _fleet: SimulatedFleet) -> None:
        self.git.is_away = True
        self.count("outages of git")

    # The end

    def _heal(self) -> None:
        """End all faults, and push a good commit; operators do what the messages ask for."""
        self._is_calm, self._killing, self._freezing, self.git.is_away = True, 0.0, 0.0, False
        self.home.withheld.clear()
        self.home.pins.clear()
        main = self.git.branches["main"]
        for commit in [each for each in self.git.ancestors(main) if self.git.is_bad(main) and each.is_bad]:
            main = self.git.commit(main, rolls_back=commit.id)
        self.git.branches["main"] = self.git.commit(main)
        for fleet in self.fleets.values():
            fleet.away = fleet.lies = -1.0
            fleet.heal = self.clock.time if fleet.is_stopped else None
            tip = self.git.branches.get(fleet.branch)
            if tip is not None and not self.git.contains(self.git.branches["main"], tip):
                self._reset(fleet)

    def _has_settled(self) -> bool:
        state = self.home.state
        if state is not None and self._is_calm:
            self._operate(state)
        return all(map(self._is_settled, self.fleets.values()))

    def _operate(self, state: RolloutState) -> None:
        """Resume what operators paused, and try a failed promotion again."""
        waits = state.paused is not None or (state.ended is not None and has_failed(state))
        pending = any(act.number > state.last_act_number for act in self.home.acts)
        if waits and not pending and directive_objection(state, Directive.RESUME) is None:
            self.home.direct(Directive.RESUME, Act("op", "resume", "why", self.clock.now()))

    def _is_settled(self, fleet: SimulatedFleet) -> bool:
        return fleet.has_converged and fleet.published == self.git.branches["main"]

    def _trace(self, text: str) -> None:
        self._say(f"{self.clock.time:9.1f} {text}")


def _is_closed(now: float) -> bool:
    """Whether the window of the promotion is closed."""
    minute = now / 60 % (24 * 60)
    return _CLOSED[0] <= minute < _CLOSED[1]


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _wave(number: int, fleets: int) -> int:
    """Return the wave of a fleet: a few fleets come first, most of them last."""
    share = number / fleets
    return 0 if number == 0 else 1 if share < 0.1 else 2 if share < 0.4 else 3


#: The percentage of fleets that have to succeed, by wave.
_REQUIRED = (100, 80, 70, 60)


def _documents(fleets: Sequence[SimulatedFleet]) -> tuple[SourceFile, ...]:
    listed = [
        {
            "name": fleet.name,
            "branch": fleet.branch,
            "service": f"https://{fleet.name}.example.com",
            "tags": [f"wave{fleet.wave}"],
        }
        for fleet in fleets
    ]
    groups: list[dict[str, Any]] = [
        {
            "name": f"wave{wave}",
            "critical": True,
            "depends_on": [f"wave{wave - 1}"] if wave else [],
            "selectors": [{"node_tags": [f"wave{wave}"]}],
            "success_criteria": {"percent_successful_nodes": _REQUIRED[wave]},
            "bake_time": 120,
            **({"max_parallel": 10} if wave == 3 else {}),
        }
        for wave in range(min(_WAVES, 1 + max(fleet.wave for fleet in fleets)))
    ]
    windows = [{"from": _clock(_CLOSED[1]), "to": _clock(_CLOSED[0])}]
    return (
        _document("fleets.yaml", "zkdeployment/Fleets/v1", {"fleets": listed}),
        _document(
            "promotion.yaml",
            "zkdeployment/Promotion/v1",
            {"groups": groups, "absent_after": 1200, "windows": windows},
        ),
    )


def _document(name: str, schema: str, data: dict[str, Any]) -> SourceFile:
    return SourceFile(name, json.dumps({"schema": schema, "data": data}).encode())


def run_promotions(options: PromotionOptions, seeds: Iterable[int], say: Callable[[str], None]) -> int:
    """Simulate promotions, one for each seed; return 1 at the first that breaks an invariant, else 0."""
    done = 0
    for seed in seeds:
        result = PromotionWorld(replace(options, seed=seed)).run()
        say(result.sentence)
        done += 1
        if result.violations:
            trace: list[str] = []
            PromotionWorld(replace(options, seed=seed), trace.append).run()
            say("\n".join(trace[-100:]))
            return 1
    say(f"{done} seeds of promotions: all invariants held")
    return 0
