"""Measures the coordinator: the decision which group runs next, writing grants to ZooKeeper, and memory use.

The reference for the decision is a plain implementation that recomputes everything from facts and reports with
sets. The reference for grants sends one request after another.
"""

import logging
import multiprocessing
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, best, seconds
from support.fleets.coordinated import CoordinatedFleet
from support.fleets.simulated import SimulatedFleet
from zkdeployment.base import log
from zkdeployment.base.host import Facts
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.rollouts.measuring import MetricMeasurements, VariableReader, metrics_servers
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.sandbox.analysis_demo import PrometheusServer
from zkdeployment.strategies.analysis import (
    MOST_MEASUREMENTS,
    AnalysisMetric,
    GroupAnalysis,
    Measurement,
    MetricProgress,
    MetricStage,
    Outcome,
    parse_comparison,
)
from zkdeployment.strategies.criteria import OutsideCriterion
from zkdeployment.strategies.group_analysis import ANALYSIS, due_requests
from zkdeployment.strategies.permission import Grant, Phase, PhaseReport
from zkdeployment.strategies.progress import advance, grants
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.store.agent_records import encode_grant
from zkdeployment.strategies.store.records import encode_state
from zkdeployment.strategies.strategy import Criteria, Group, Pace, Selector, Strategy, members, misses
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Create, Set

if TYPE_CHECKING:
    from zkdeployment.strategies.state import RolloutState

#: The metrics of a group that bakes, the seconds between two measurements of one, and the most times by which they
#: may slow down the cycle that records them.
_METRICS = 50
_INTERVAL = 10.0
_MOST_DELAY = 10

#: The number of rounds for the plain implementation, which is slow.
_SLOW_ROUNDS = 2


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a fleet with a tenth as many hosts as the largest tree has nodes, in fifty sequential groups."""
    hosts = {f"host{number:05}": Facts(rack=f"rack{number % 50}") for number in range(scale.large // 10)}
    strategy = _strategy(min(50, len(hosts)))
    size = f"{len(hosts):,} hosts in {len(strategy.groups)} groups"
    yield from _decision(strategy, hosts, size, scale.rounds)
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        yield _granting(server.address, hosts)
        yield _measuring(server.address, Path(scratch) / "prometheus", scale.rounds)
        yield _memory(server.address, strategy, hosts, size)


def _strategy(groups: int) -> Strategy:
    def group(number: int) -> Group:
        parents = (f"group{number - 1}",) if number else ()
        selectors = (Selector(racks=frozenset({f"rack{number}"})),)
        return Group(f"group{number}", True, parents, selectors, Criteria(percent_successful=90))

    return Strategy("racks", tuple(map(group, range(groups))))


def _decision(strategy: Strategy, hosts: Mapping[str, Facts], size: str, rounds: int) -> Iterator[Result]:
    """Measure the decision half-way through a rollout, just after the last host of a group reported."""
    fleet = SimulatedFleet(dict(hosts))
    state = fleet.start(strategy)
    half = strategy.groups[len(strategy.groups) // 2].name
    while half not in state.rollout.order:
        fleet.execute_grants(grants(state))
        before, seen = state, fleet.observe()
        state = advance(state, seen)
    ours, plain = [], []
    for _ in range(rounds):
        ours.append(seconds(lambda: grants(advance(before, seen))))
        if len(plain) < _SLOW_ROUNDS:
            plain.append(seconds(lambda: _decide_from_scratch(strategy, hosts, seen.reports)))
    assert grants(state) == _decide_from_scratch(strategy, hosts, seen.reports)
    yield Result(
        work="next group decided",
        size=size,
        value=best(ours),
        against="all again with sets",
        reference=best(plain),
        at_least=12,
    )
    yield Result(work="state of a rollout", size=size, value=len(encode_state(state)) / 1000, unit="kB")


def _decide_from_scratch(
    strategy: Strategy, hosts: Mapping[str, Facts], reports: Mapping[tuple[Phase, str], PhaseReport]
) -> dict[str, Grant]:
    """Recompute the grants of all hosts from facts and reports, for groups that run sequentially."""
    states = dict.fromkeys(hosts, HostProgress.NOT_STARTED)
    granted: dict[str, Grant] = {}
    for group in strategy.groups:
        selected = members(group, hosts)
        for phase, wanted, reached in (
            (Phase.PREPARE, HostProgress.NOT_STARTED, HostProgress.PREPARED),
            (Phase.DEPLOY, HostProgress.PREPARED, HostProgress.SUCCESS),
        ):
            todo = {host for host in selected if states[host] is wanted}
            granted |= dict.fromkeys(todo, Grant(group.name, phase))
            done = {host for host in todo if (phase, host) in reports}
            if done != todo:
                return granted
            good = {host for host in done if reports[phase, host].error is None}
            states |= dict.fromkeys(done - good, HostProgress.FAILURE) | dict.fromkeys(good, reached)
            if list(misses(group.criteria, successful=len(good), failed=len(done - good), total=len(selected))):
                return granted
    return granted


def _granting(address: str, hosts: Mapping[str, Facts]) -> Result:
    with Session(address) as session:
        fleet = CoordinatedFleet(address, session)
        fleet.publish("r0", _strategy(1))
        with fleet.coordinator() as coordinator:
            coordinator.run_cycle()
            state: RolloutState = fleet.running
            wanted = {host: Grant("all", Phase.PREPARE) for host in hosts}
            ours = seconds(lambda: coordinator.store.grant(state, wanted))
        session.ensure("/plain")
        few = list(wanted.items())[: max(1, len(wanted) // 20)]

        def plain() -> None:
            for host, grant in few:
                session.commit(Create(f"/plain/{host}", encode_grant(grant)))

        reference = seconds(plain) / len(few) * len(wanted)
        assert len(session.children(paths.grants_path(state.id)) or ()) == len(hosts)
    return Result(
        work="grants written",
        size=f"{len(hosts):,} hosts",
        value=ours,
        against="one request at a time",
        reference=reference,
        at_least=5,
    )


def _measuring(address: str, scratch: Path, rounds: int) -> Result:
    """Compare cycles that grant a phase to a late host, beside metrics with many measurements and without any."""
    query = 'vector(0.5) unless up{host=~"$hosts"}'
    metrics = tuple(
        AnalysisMetric(f"m{number}", query, parse_comparison("<= 1"), interval=_INTERVAL)
        for number in range(_METRICS)
    )
    prometheus = PrometheusServer(scratch)
    prometheus.start()
    try:
        ours = _late_grants(f"{address}/measured", metrics, rounds, MetricsSettings(url=prometheus.url))
    finally:
        prometheus.kill()
    return Result(
        work="a host is granted its phase while another group bakes, slowest cycle",
        size=f"{_METRICS} metrics every {_INTERVAL:g} s with {MOST_MEASUREMENTS} measurements",
        value=ours,
        against="without metrics",
        reference=_late_grants(f"{address}/plain-rollout", (), rounds),
        at_most=_MOST_DELAY,
    )


def _late_grants(
    address: str, metrics: tuple[AnalysisMetric, ...], rounds: int, server: MetricsSettings | None = None
) -> float:
    """Return the seconds of the slowest cycle that grants a phase to a host of an earlier group that came late."""
    early = Group("early", critical=False, selectors=(Selector(racks=frozenset({"early"})),))
    baking = Group(
        "baking",
        critical=False,
        depends_on=("early",),
        selectors=(Selector(names=frozenset({"baker"})),),
        pace=Pace(bake_time=36_000.0, analysis=metrics),
    )
    answered = threading.Event()
    with Session(address, create_chroot=True) as session:
        reader = VariableReader(session, SystemClock())
        servers = {} if server is None else {"main": server}
        measurements = MetricMeasurements(metrics_servers(servers), reader.read, SystemClock(), answered.set)
        criterion = OutsideCriterion(ANALYSIS, measurements.start, measurements.close, measurements.read)
        fleet = CoordinatedFleet(address, session)
        fleet.register({"first": Facts(rack="early"), "baker": Facts()})
        fleet.publish("r1", Strategy("late", (early, baking)))
        with fleet.coordinator(criteria=[criterion]) as coordinator:
            coordinator.run_cycle()
            while (active := fleet.running.active_phase) is None or active.baking_since is None:
                fleet.work()
                coordinator.run_cycle()
            _measure_all(fleet, metrics)
            coordinator.run_cycle()  # reads the state of another coordinator
            measurements.start()
            taken = []
            for number in range(2 * max(rounds, 3)):  # one cycle asks the server, the next one records the answers
                fleet.register({f"late{number}": Facts(rack="early")})
                taken.append(seconds(coordinator.run_cycle))
                assert f"late{number}" in fleet.grants()
                if due_requests(fleet.running, fleet.clock.time):
                    assert answered.wait(30)
                    answered.clear()
                else:
                    fleet.clock.time += _INTERVAL
        measurements.close()
        recorded = fleet.running.analyses.get("baking", GroupAnalysis()).metrics.values()
        assert all(progress.passed > MOST_MEASUREMENTS for progress in recorded)
    return max(taken)


def _measure_all(fleet: CoordinatedFleet, metrics: tuple[AnalysisMetric, ...]) -> None:
    """Write the state after as many measurements as are kept of each metric."""
    state, random = fleet.running, Random(1)
    assert state.active_phase is not None
    fleet.clock.time += _INTERVAL * MOST_MEASUREMENTS
    progress = {
        metric.name: MetricProgress(
            MetricStage.PROVEN,
            passed=MOST_MEASUREMENTS,
            next=MOST_MEASUREMENTS,
            measurements=tuple(
                Measurement(
                    metric.due(number), fleet.clock.time, Outcome.PASSED, random.random(), 1.0, server="main"
                )
                for number in range(MOST_MEASUREMENTS)
            ),
        )
        for metric in metrics
    }
    analyses = {"baking": GroupAnalysis(progress)} if metrics else {}
    state = replace(state, coordinated_at=fleet.clock.time, analyses=analyses)
    fleet.session.commit(Set(paths.rollout_path(state.id), encode_state(state)))


def _memory(address: str, strategy: Strategy, hosts: Mapping[str, Facts], size: str) -> Result:
    """Return the peak memory of a separate process that reads all hosts and runs the first phases."""
    context = multiprocessing.get_context("spawn")
    with Session(address) as session:
        fleet = CoordinatedFleet(address, session)
        fleet.register(hosts)
        fleet.publish("r1", strategy)
        here, there = context.Pipe()
        process = context.Process(target=_coordinate, args=(address, there), daemon=True)
        process.start()
        there.close()
        for _ in range(4):
            here.recv()
            fleet.work()
            here.send(True)
        peak = here.recv()
        process.join()
    return Result(work="coordinator's memory, at its peak", size=size, value=peak, unit="MB")


def _coordinate(address: str, pipe: Connection) -> None:
    """Alternate between coordinator cycles and agent reports, then send the peak memory in MB."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    with Session(address) as session:
        fleet = CoordinatedFleet(address, session)
        with fleet.coordinator() as coordinator:
            coordinator.run_cycle()
            for _ in range(4):
                coordinator.run_cycle()
                pipe.send(None)
                pipe.recv()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    pipe.send(int(status["VmHWM"].split()[0]) / 1024)
