"""The outline that agents read has the same facts about a rollout as its whole state."""

import json

import pytest

from support.strategies import active_rollout, advanced_rollout, begun_rollout, ended_rollout
from zkdeployment.strategies.permission import Phase, outline_from_json
from zkdeployment.strategies.progress import takes_late_joiners
from zkdeployment.strategies.state import Ending, state_to_json
from zkdeployment.strategies.state_machine import HostProgress, RolloutResult


def outline(state, *, longest=None):
    return outline_from_json(json.loads(json.dumps(state_to_json(state, longest=longest))))


@pytest.mark.parametrize("longest", [None, 99], ids=["full form", "short form"])
def test_hosts_are_listed_by_their_progress(longest):
    state = advanced_rollout(begun_rollout(errors={"mon1": "boom"}), "mon1", "ctl1", until="compute-nodes-1")
    value = outline(state, longest=longest)
    hosts = state.rollout.hosts
    assert value.sequence == 7
    assert value.succeeded == {host for host, progress in hosts.items() if progress is HostProgress.SUCCESS}
    assert value.failures == {"mon1": "boom", "ctl1": "the host failed"}
    assert value.under_way is None


def test_reports_of_the_group_under_way_are_failures_before_the_group_is_judged():
    state = advanced_rollout(begun_rollout(), until="compute-nodes-1")
    value = outline(active_rollout(state, granted=["one2"], failed=["one1"]))
    assert value.failures == {"one1": "boom"}
    assert value.under_way == state.rollout.members["compute-nodes-1"]


def test_hosts_that_join_late_are_listed():
    state = begun_rollout(late_joiners={"one1": Phase.DEPLOY}, late_since={"one1": 4.5})
    assert outline(state).late_joiners == {"one1"}


@pytest.mark.parametrize("failing", [(), ("mon1",), ("ctl1", "ctl2"), ("one1", "one2", "two1", "two2")])
@pytest.mark.parametrize("ending", Ending)
def test_a_rollout_has_ended_well_if_hosts_may_still_enter(failing, ending):
    state = ended_rollout(advanced_rollout(begun_rollout(), *failing), ending)
    assert outline(state).ended_well is takes_late_joiners(state)


def test_the_examples_of_ended_rollouts_are_unlike():
    results = {advanced_rollout(begun_rollout(), *failing).rollout.result for failing in ((), ("ctl1", "ctl2"))}
    assert results == {RolloutResult.SUCCESS, RolloutResult.FAILED}


def test_a_rollout_under_way_has_not_ended_well():
    assert not outline(begun_rollout()).ended_well


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: [],
        lambda value: value | {"states": "-"},
        lambda value: value | {"late": 7},
        lambda value: value | {"stage": 7},
        lambda value: value | {"errors": [["boom", "a-b"]]},
        lambda value: {name: text for name, text in value.items() if name != "sequence"},
    ],
)
def test_damage_is_an_error(spoil):
    with pytest.raises(ValueError, match=r"valid|invalid|zip"):
        outline_from_json(spoil(state_to_json(begun_rollout())))
