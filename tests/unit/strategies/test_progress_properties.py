"""The invariants of every rollout under any acts of hosts and operators; and that a crash changes nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fleets.simulated import SimulatedFleet
from support.strategies import EXAMPLE_HOSTS, NAMES, any_strategies, example, paces, plain_hosts, widths
from zkdeployment.base.host import Facts
from zkdeployment.strategies.order import Faults, simulate
from zkdeployment.strategies.permission import Phase, PhaseReport
from zkdeployment.strategies.progress import advance, grants, restarted_hosts, seconds_until_change
from zkdeployment.strategies.state import Directive, state_from_json, state_to_json
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress
from zkdeployment.strategies.strategy import misses

host_names = st.sampled_from(NAMES)
events = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 20, 60, 400])),
    st.tuples(st.just("report"), st.tuples(host_names, st.booleans())),
    st.tuples(st.just("leave"), host_names),
    st.tuples(st.just("come"), host_names),
    st.tuples(st.just("act"), st.tuples(st.sampled_from(Directive), st.sampled_from(["g0", "g1", "g2"]))),
    st.tuples(st.just("stop"), st.booleans()),
    st.tuples(st.just("err"), host_names),
    st.tuples(st.just("reinstall"), host_names),
)


def happen(fleet, state, event):
    """Apply an event to the fleet and its rollout."""
    match event:
        case "wait", seconds:
            fleet.now += seconds
        case "report", (host, good):
            grant = grants(state).get(host)
            if grant is not None and grant.phase is not None:
                fleet.reports.setdefault((grant.phase, host), PhaseReport(fleet.now, None if good else "boom"))
        case "leave", host if host in fleet.present:
            fleet.deregister(host)
        case "come", host:
            fleet.register(host, Facts())
        case "act", (directive, group):
            fleet.act(directive, group)
        case "stop", active:
            fleet.active = active
        case "err", host:
            fleet.erring.add(host)
        case "reinstall", host if host in fleet.present and state.rollout.hosts.get(host) is HostProgress.SUCCESS:
            fleet.outdated.add(host)


def check(state, fleet, granted):
    """Check what must hold at any moment; ``granted`` remembers who was let into which phase by which group."""
    courses = state.rollout.progress
    assert all(courses[name].verdict is not None for name in state.rollout.order[:-1])
    if state.active_phase is not None:
        name = state.active_phase.task.group
        assert all(begun == name or courses[begun].verdict is not None for begun in state.rollout.order)
    for host, grant in grants(state).items():
        if state.rollout.hosts[host] is HostProgress.FAILURE:
            assert grant.phase is None
        if grant.phase is not None:
            assert granted.setdefault((grant.phase, host), grant.group) == grant.group
    left = seconds_until_change(state, fleet.observe())
    assert left is None or left > 0  # what time alone brings now was done just now


def check_entries(before, after):
    """Check what must hold of hosts that enter a phase between two states."""
    late = after.late_joiners.keys() - before.late_joiners.keys()
    if after.halted_since is not None:
        assert late == set()
    for host in late:
        names = [name for name, members in after.rollout.members.items() if host in members]
        assert names
        assert all(after.rollout.progress[name].verdict is GroupVerdict.SUCCESS for name in names)
        assert all(at_work(after, name) <= width(after, name) for name in names)
    phase = after.active_phase
    if phase is None:
        return
    group = after.rollout.strategy.group(phase.task.group)
    same = before.active_phase is not None and phase_of(before.active_phase) == phase_of(phase)
    entered = phase.granted.keys() - (before.active_phase.granted.keys() if same else set())
    if entered:
        assert after.halted_since is None
        assert at_work(after, group.name) <= width(after, group.name)
        assert all(after.rollout.progress[parent].verdict is GroupVerdict.SUCCESS for parent in group.depends_on)
    if entered and (phase.task.phase is Phase.DEPLOY or group.pace.max_parallel is not None):
        assert not certainly_missed(after, group)


def check_verdicts(before, after, fleet):
    """Check what must hold of groups that succeeded between two states."""
    for group in after.rollout.strategy.groups:
        name, states = group.name, after.rollout.hosts
        former, verdict = before.rollout.progress[name].verdict, after.rollout.progress[name].verdict
        if former is verdict or verdict is not GroupVerdict.SUCCESS:
            continue
        members = after.rollout.members[name]
        done = {host for host in members if states[host] in {HostProgress.SUCCESS, HostProgress.FAILURE}}
        assert done or not (group.critical and members) or name in after.forced
        if group.pace.bake_time:
            assert {host for host in members if states[host] is HostProgress.SUCCESS} <= after.proven
            proven = (after.proven - before.proven) & members
            reports = [fleet.reports.get((Phase.DEPLOY, host)) for host in proven]
            ended = [report.time for report in reports if report is not None]
            assert all(fleet.now - when >= group.pace.bake_time for when in ended)


def phase_of(phase):
    """Name the phase that is under way."""
    return phase.task.group, phase.task.phase


def at_work(state, name):
    """Count the hosts of a group that were let into a phase and have not reported, late hosts included."""
    busy = {host for host in state.late_joiners if host in state.rollout.members[name]}
    if state.active_phase is not None and state.active_phase.task.group == name:
        busy |= state.active_phase.granted.keys() - state.active_phase.reports.keys()
    return len(busy)


def width(state, name):
    """Return how many hosts of a group may run at the same time."""
    share = state.rollout.strategy.group(name).pace.max_parallel
    if share is None:
        return len(NAMES)
    return max(1, len(state.rollout.members[name]) * share.number // 100) if share.percent else share.number


def certainly_missed(state, group):
    """Return the criteria that a group misses even if all its other hosts succeed."""
    hosts = state.rollout.members[group.name]
    failed = {host for host in hosts if state.rollout.hosts[host] is HostProgress.FAILURE}
    failed |= {host for host, report in state.active_phase.reports.items() if report.error is not None}
    total = len(hosts)
    return list(misses(group.criteria, successful=total - len(failed), failed=len(failed), total=total))


@given(
    any_strategies(pace=paces, requires=True),
    st.sets(host_names, min_size=1),
    st.sets(host_names),
    st.lists(events, max_size=40),
)
def test_any_rollout_keeps_the_rules_at_any_moment(any_strategy, there, current, happening):
    absent = dict.fromkeys(set(NAMES[:4]) - there, Facts())
    fleet = SimulatedFleet(dict.fromkeys(sorted(there), Facts()), absent=absent, current=current)
    state, granted = fleet.start(any_strategy), {}
    for event in happening:
        before, state = state, fleet.advance(state)
        assert advance(state, fleet.observe()) == state
        granted = {key: name for key, name in granted.items() if key[1] not in restarted_hosts(before, state)}
        check_entries(before, state)
        check_verdicts(before, state, fleet)
        kept = state_from_json(json.loads(json.dumps(state_to_json(state), sort_keys=True)))
        assert kept == state
        assert grants(kept) == grants(state)
        check(state, fleet, granted)
        happen(fleet, state, event)


@given(any_strategies(pace=widths), st.sets(host_names), st.sets(host_names))
def test_the_rollout_ends_as_the_simulation_predicts(any_strategy, bad_prepare, bad_deploy):
    fleet = SimulatedFleet(
        plain_hosts(NAMES),
        failing={(Phase.PREPARE, host) for host in bad_prepare} | {(Phase.DEPLOY, host) for host in bad_deploy},
    )
    faults = Faults(prepare=frozenset(bad_prepare), deploy=frozenset(bad_deploy))
    assert (
        fleet.run(fleet.start(any_strategy)).rollout == simulate(any_strategy, plain_hosts(NAMES), faults).rollout
    )


class KilledError(Exception):
    """The coordinator died here."""


class Kept:
    """State and grants outside the coordinator, which dies before its write number ``kill``."""

    def __init__(self, state, kill) -> None:
        self.running = state
        self.granted = {}
        self.kill = kill
        self.writes = 0

    def turn(self, fleet):
        after = advance(self.running, fleet.observe())
        if after != self.running:
            self.write(lambda: setattr(self, "running", after))
        for host, grant in grants(after).items():
            if self.granted.get(host) != grant:
                self.write(lambda host=host, grant=grant: self.granted.update({host: grant}))
        for host in self.granted.keys() - grants(after).keys():
            self.write(lambda host=host: self.granted.pop(host))

    def write(self, do):
        self.writes += 1
        if self.writes == self.kill:
            raise KilledError
        do()


def through(kill):
    failing = {(Phase.PREPARE, "ctl1"), (Phase.DEPLOY, "one1")}
    fleet = SimulatedFleet(dict(EXAMPLE_HOSTS), failing=failing)
    kept = Kept(fleet.start(example()), kill)
    for _ in range(60):
        try:
            kept.turn(fleet)
        except KilledError:
            continue  # the next turn is its successor's
        fleet.execute_grants(kept.granted)
    return kept, fleet


def writes_of_a_whole_rollout():
    return through(kill=0)[0].writes


@pytest.mark.parametrize("kill", range(1, writes_of_a_whole_rollout() + 1))
def test_killed_before_any_write_a_successor_comes_to_the_same_end(kill):
    whole, seen = through(kill=0)
    kept, fleet = through(kill)
    assert kept.writes == whole.writes + 1
    assert kept.running.ended is not None
    assert kept.running.rollout == whole.running.rollout
    assert kept.running.errors == whole.running.errors
    assert kept.granted == whole.granted
    assert fleet.entered == seen.entered
