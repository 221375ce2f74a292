"""A fleet of values: hosts that execute their grants, as a coordinator would observe them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.strategies import plain_hosts
from zkdeployment.base.act import Act
from zkdeployment.strategies.analysis import Reading
from zkdeployment.strategies.criteria import CHECKS, HostHealth
from zkdeployment.strategies.group_analysis import ANALYSIS, MetricAnswer, MetricKey, due_requests
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.progress import advance, grants, restarted_hosts, start
from zkdeployment.strategies.state import Directive, RolloutAct, RolloutFacts, RolloutState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.strategies.permission import Grant, Phase
    from zkdeployment.strategies.strategy import Strategy

#: The time at which every test starts, in seconds since the epoch.
NOON = 1_800_000_000.0


@dataclass
class SimulatedFleet:
    """The observable state of a fleet.

    ``failing`` pairs of phase and host report an error, ``silent`` hosts report nothing. ``unhealthy`` and
    ``unchecked`` are the hosts with failing checks, and with checks without results. ``metrics`` are the present
    values of metrics (``None``: the server does not answer), also ``NAME.others``; ``answers`` are the last ones.
    ``entered`` lists group, phase and host of every executed grant, in order.
    """

    present: dict[str, Facts]
    absent: dict[str, Facts] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)
    maintenance: set[str] = field(default_factory=set)
    rebooting: set[str] = field(default_factory=set)
    current: set[str] = field(default_factory=set)
    outdated: set[str] = field(default_factory=set)
    erring: set[str] = field(default_factory=set)
    failing: set[tuple[Phase, str]] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    reports: dict[tuple[Phase, str], PhaseReport] = field(default_factory=dict)
    acts: list[RolloutAct] = field(default_factory=list)
    entered: list[tuple[str, Phase, str]] = field(default_factory=list)
    unhealthy: dict[str, str] = field(default_factory=dict)
    unchecked: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float | None] | None = None
    answers: dict[MetricKey, MetricAnswer] = field(default_factory=dict)
    outside: dict[str, object] = field(default_factory=dict)
    active: bool = True
    now: float = NOON

    @property
    def _away(self) -> set[str]:
        return self.maintenance | self.rebooting

    def observe(self) -> RolloutFacts:
        """Return the present facts for a coordinator."""
        return RolloutFacts(
            now=self.now,
            halt="" if self.active else "the fleet is stopped",
            present={host: facts for host, facts in self.present.items() if host not in self._away},
            absent=self.absent | {host: self.present[host] for host in self.maintenance},
            maintenance=frozenset(self.maintenance),
            rebooting=frozenset(self.rebooting),
            left_at=dict(self.left),
            current=frozenset(self.current),
            outdated=frozenset(self.outdated),
            failing=frozenset(self.erring),
            reports=dict(self.reports),
            acts=tuple(self.acts),
            outside={
                CHECKS: HostHealth(dict(self.unhealthy), dict(self.unchecked)),
                ANALYSIS: dict(self.answers),
                **self.outside,
            },
        )

    def start(self, strategy: Strategy, before: RolloutState | None = None) -> RolloutState:
        """Return a rollout that starts now."""
        return start(strategy, self.observe(), sequence=7, attempt=1, revision="r2", before=before)

    def restart(self, current: set[str]) -> None:
        """Prepare a new attempt: drop all reports and acts; the ``current`` hosts have the revision already."""
        self.current, self.reports, self.acts, self.entered = current, {}, [], []

    def measure(self, state: RolloutState) -> None:
        """Answer the measurements that are due now."""
        self.answers, values = {}, self.metrics or {}
        for request in (each for each in due_requests(state, self.now) if not each.is_ahead):
            name = request.metric.name
            reading = Reading(values.get(name), "", values.get(f"{name}.others"))
            self.answers[request.key] = MetricAnswer(request.at, request.asked, self.now, reading, "main")

    def advance(self, state: RolloutState) -> RolloutState:
        """Run one cycle of the coordinator; remove the reports of hosts that begin again."""
        if self.metrics is not None:
            self.measure(state)
        after = advance(state, self.observe())
        if self.metrics is not None and after.ended is None:
            self.measure(after)
            after = advance(after, self.observe())
        again = restarted_hosts(state, after)
        self.reports = {key: report for key, report in self.reports.items() if key[1] not in again}
        self.outdated -= again
        return after

    def act(self, directive: Directive, group: str | None = None) -> None:
        """Record an operator's act."""
        act = Act("ann@ops", f"rollout {directive.value}", "because", self.now)
        self.acts.append(RolloutAct(directive, act, group, len(self.acts)))

    def deregister(self, host: str) -> None:
        """Make a registered host absent."""
        self.absent[host] = self.present.pop(host)

    def register(self, host: str, facts: Facts) -> None:
        """Make a host present."""
        self.absent.pop(host, None)
        self.present[host] = facts

    def wait(self, state: RolloutState, seconds: float) -> RolloutState:
        """Advance the clock, with cycles of the coordinator; hosts do nothing."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 15)
            state = self.advance(state)
        return state

    def execute_grants(self, granted: Mapping[str, Grant]) -> None:
        """Execute the grant of every present host that has not reported yet."""
        for host, grant in granted.items():
            if grant.phase is None or host not in self.present or host in self.silent | self._away:
                continue
            if (grant.phase, host) not in self.reports:
                self.entered.append((grant.group, grant.phase, host))
                failed = (grant.phase, host) in self.failing
                self.reports[grant.phase, host] = PhaseReport(self.now, "boom" if failed else None)

    def step(self, state: RolloutState) -> RolloutState:
        """Run one cycle of the coordinator, then of the hosts."""
        state = self.advance(state)
        self.execute_grants(grants(state))
        return state

    def run(
        self, state: RolloutState, until: Callable[[RolloutState], bool] = lambda state: state.ended is not None
    ) -> RolloutState:
        """Step every ten seconds until the condition holds (default: the rollout ended) or nothing changes."""
        for _ in range(500):
            before, state = state, self.step(state)
            if until(state):
                return state
            self.now += 10
            if state == before and advance(state, self.observe()) == state:
                return state
        raise AssertionError(f"it goes on for ever: {state}")

    @property
    def groups(self) -> list[str]:
        """The groups in the order in which hosts entered them."""
        return list(dict.fromkeys(group for group, _, _ in self.entered))


def fleet_of(names: str, **fields: object) -> SimulatedFleet:
    """Return a fleet with one host for each letter of ``names``."""
    return SimulatedFleet(plain_hosts(names), **fields)  # type: ignore[arg-type]
