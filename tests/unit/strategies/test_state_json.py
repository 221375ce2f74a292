"""The stored form of a rollout: nothing is lost, damage is reported, ten thousand hosts fit into a node."""

import json
import string
from dataclasses import replace
from random import Random

import pytest

from support.strategies import active_rollout, advanced_rollout, begun_rollout, ended_rollout, group, strategy
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import Facts
from zkdeployment.strategies.analysis import GroupAnalysis, Measurement, MetricProgress, Outcome
from zkdeployment.strategies.permission import Phase, PhaseReport
from zkdeployment.strategies.queries import QueryVariables
from zkdeployment.strategies.state import Directive, RolloutAct, state_from_json, state_to_json
from zkdeployment.strategies.store.records import decode_state, encode_state
from zkdeployment.strategies.strategy import Selector
from zkdeployment.zookeeper.transactions import NODE_LIMIT


def fully_equipped():
    state = active_rollout(
        advanced_rollout(begun_rollout(), "mon1", until="compute-nodes-1"), granted=["one2"], failed=["one1"]
    )
    act = Act("ann@ops", "rollout promote", "now", 7.5)
    return replace(
        state,
        errors={"ctl1": "boom"},
        absent={"two1": 3.25},
        promoted=frozenset({"ntp-node"}),
        forced=frozenset({"control-nodes"}),
        proven=frozenset({"ntp01", "ctl1", "ctl2"}),
        paused=act,
        halted_since=8.5,
        acts=(RolloutAct(Directive.PROMOTE, act, "ntp-node", 3),),
        last_act_number=3,
        waiting="for better times",
    )


@pytest.mark.parametrize(
    "state",
    [
        begun_rollout(),
        fully_equipped(),
        active_rollout(begun_rollout(), granted=["mon1"], baking=5.0),
        replace(active_rollout(begun_rollout()), coordinated_at=9.5),
        replace(
            ended_rollout(advanced_rollout(begun_rollout())),
            late_joiners={"one1": Phase.DEPLOY},
            late_since={"one1": 4.5},
        ),
        begun_rollout(revision=4711),
    ],
)
def test_every_state_is_read_back_unchanged(state):
    value = json.loads(json.dumps(state_to_json(state)))
    assert state_from_json(value) == state
    assert state_to_json(state_from_json(value)) == value


def test_states_of_newer_coordinators_are_read():
    state = active_rollout(begun_rollout(), granted=["mon1"])
    value = state_to_json(state)
    value["stage"]["mood"] = value["mood"] = value["courses"]["ntp-node"]["mood"] = "good"
    assert state_from_json(value) == state


@pytest.mark.parametrize("key", ["looked", "entered", "proven", "forced"])
def test_a_state_without_one_of_its_keys_is_an_error_that_names_the_key(key):
    value = state_to_json(begun_rollout())
    del value[key]
    with pytest.raises(ValueError, match=f"not a valid rollout: .*{key}"):
        state_from_json(value)


def test_additions_of_newer_coordinators_to_a_state_are_written_again():
    state = active_rollout(begun_rollout(), granted=["mon1"])
    value = state_to_json(state)
    assert not state_from_json(value).unknown
    read = state_from_json({**value, "mood": "good"})
    assert state_to_json(replace(read, waiting="for the night")) == {
        **value,
        "waiting": "for the night",
        "mood": "good",
    }


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: [],
        lambda value: value | {"states": "-"},
        lambda value: value | {"states": "z" * len(value["hosts"])},
        lambda value: value | {"members": {"x": "a-b"}},
        lambda value: value | {"revision": None},
        lambda value: value | {"strategy": {}},
        lambda value: value | {"stage": 7},
        lambda value: value | {"held": "long"},
        lambda value: value | {"ending": "well"},
        lambda value: value | {"hosts": [1, 2]},
        lambda value: {name: text for name, text in value.items() if name != "order"},
    ],
)
def test_damage_is_an_error(spoil):
    with pytest.raises(ValueError, match=r"valid|expected|invalid|zip"):
        state_from_json(spoil(state_to_json(begun_rollout())))


def test_an_unreadable_node_is_an_error_with_advice():
    with pytest.raises(ZkdeploymentError, match="the next publication begins another"):
        decode_state(b"{}")


def test_ten_thousand_hosts_with_any_errors_fit_into_a_node():
    hosts = {f"i-{number * 2654435761 % 2**32:08x}": Facts(rack=f"rack{number % 50}") for number in range(10_000)}
    racks = [
        replace(group(f"g{number}"), selectors=(Selector(racks=frozenset({f"rack{number}"})),))
        for number in range(50)
    ]
    state = begun_rollout(strategy(*racks, group("all")), hosts)
    state = advanced_rollout(state, until="all")
    assert len(encode_state(state)) < NODE_LIMIT / 2
    errors = {host: f"{host} says: {host * 10}" for host in hosts}
    state = replace(state, errors=errors)
    assert len(encode_state(state)) < NODE_LIMIT
    assert decode_state(encode_state(state)).rollout == state.rollout


def random_text(random, length):
    """Return text that cannot be compressed much."""
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))


def worst_hosts(random):
    return {random_text(random, 36): Facts() for _ in range(10_000)}


@pytest.mark.parametrize("reporting", [True, False], ids=["reports", "errors"])
def test_ten_thousand_hosts_that_all_fail_differently_fit_into_a_node(reporting):
    random = Random(1)
    hosts = worst_hosts(random)
    state = active_rollout(begun_rollout(strategy(group("all")), hosts), granted=hosts)
    errors = {host: random_text(random, 200) for host in hosts}
    if reporting:
        reports = {host: PhaseReport(1_800_000_000 + random.randrange(10**6), errors[host]) for host in hosts}
        state = replace(state, active_phase=replace(state.active_phase, reports=reports))
    else:
        state = replace(state, active_phase=None, errors=errors)
    data = encode_state(state)
    assert len(data) < NODE_LIMIT
    read = decode_state(data)
    kept = {host: report.error for host, report in read.active_phase.reports.items()} if reporting else read.errors
    assert kept.keys() == errors.keys()
    assert all(
        error is not None and errors[host].startswith(error.removesuffix("…")) for host, error in kept.items()
    )
    assert read.rollout == state.rollout


def test_all_other_records_of_ten_thousand_hosts_fit_into_a_node():
    random = Random(2)
    hosts = worst_hosts(random)
    act = RolloutAct(Directive.PAUSE, Act("ann@ops", "rollout pause", random_text(random, 5_000), 7.5), None, 3)
    state = replace(
        ended_rollout(advanced_rollout(begun_rollout(strategy(group("all")), hosts))),
        absent={host: 1_800_000_000.0 + random.randrange(10**6) for host in hosts},
        late_joiners={host: random.choice([Phase.PREPARE, Phase.DEPLOY]) for host in hosts},
        late_since={host: 1_800_000_000.0 + random.randrange(10**6) for host in hosts},
        proven=frozenset(random.sample(sorted(hosts), 5_000)),
        acts=(act,) * 1000,
        paused=replace(act.act, reason=random_text(random, 300_000)),
    )
    data = encode_state(state)
    assert len(data) < NODE_LIMIT
    read = decode_state(data)
    assert (read.absent, read.late_joiners, read.late_since) == (
        state.absent,
        state.late_joiners,
        state.late_since,
    )
    assert len(read.acts) == 50
    assert read.paused == replace(state.paused, reason=f"{state.paused.reason[:500]}…")


@pytest.mark.parametrize(
    ("size", "judged", "active", "measurements"), [(10, 1, 1, 150), (400_000, 0, 1, 150), (800_000, 0, 0, 150)]
)
def test_the_values_of_variables_are_dropped_before_measurements(size, judged, active, measurements):
    random = Random(3)
    taken = tuple(Measurement(60.0 * number, 1.0, Outcome.PASSED, random.random()) for number in range(150))
    progress = MetricProgress(passed=150, next=150, measurements=taken)

    def analysis():
        return GroupAnalysis(
            {"errors": progress}, variables=(QueryVariables(instances=(random_text(random, size),)),)
        )

    rollout = advanced_rollout(begun_rollout(), "mon1", until="ntp-node")
    state = replace(rollout, analyses={"monitoring-nodes": analysis(), "compute-nodes-1": analysis()})
    assert state.rollout.progress["monitoring-nodes"].verdict is not None
    data = encode_state(state)
    assert len(data) <= NODE_LIMIT
    read = decode_state(data).analyses
    assert [len(read[name].variables) for name in state.analyses] == [judged, active]
    assert [len(each.metrics["errors"].measurements) for each in read.values()] == [measurements] * 2


def test_measurements_are_thinned_evenly_if_a_state_is_still_too_large():
    random = Random(4)
    metrics = {}
    for _ in range(100):
        taken = tuple(Measurement(60.0 * number, 1.0, Outcome.PASSED, random.random()) for number in range(150))
        metrics[random_text(random, 6_000)] = MetricProgress(passed=150, next=150, measurements=taken)
    state = replace(begun_rollout(), analyses={"monitoring-nodes": GroupAnalysis(metrics)})
    read = decode_state(encode_state(state)).analyses["monitoring-nodes"]
    times = [measurement.at for measurement in read.metrics[min(metrics)].measurements]
    assert times == [*(60.0 * number for number in range(0, 150, 32)), 60.0 * 149]


def test_states_that_are_not_too_large_keep_the_form_that_older_coordinators_read():
    value = state_to_json(fully_equipped())
    assert (value["errors"], value["absent"], value["late"]) == ({"ctl1": "boom"}, {"two1": 3.25}, {})
    assert state_from_json(json.loads(json.dumps(state_to_json(fully_equipped(), longest=99)))) == fully_equipped()


def test_reports_at_ten_thousand_different_times_fit_too():
    hosts = {f"i-{number * 2654435761 % 2**32:08x}": Facts() for number in range(10_000)}
    state = active_rollout(begun_rollout(strategy(group("all")), hosts), granted=hosts)
    reports = {host: PhaseReport(1_800_000_000 + number * 0.37) for number, host in enumerate(hosts)}
    state = replace(state, active_phase=replace(state.active_phase, reports=reports))
    assert len(encode_state(state)) < NODE_LIMIT
    assert decode_state(encode_state(state)) == state
