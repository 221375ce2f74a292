"""Selection and criteria, statement by statement."""

import pytest

from support.strategies import EXAMPLE_HOSTS, example
from zkdeployment.base.host import Facts
from zkdeployment.strategies.strategy import (
    Criteria,
    Group,
    Selector,
    Strategy,
    members,
    misses,
    unmatched_selectors,
)

HOSTS = {
    "a": Facts("r1", frozenset({"control", "ssd"}), {"tier": "web"}),
    "b": Facts("r1", frozenset({"compute"}), {"tier": "db"}),
    "c": Facts("r2", frozenset({"compute"})),
    "d": Facts(),
}


def selector(names=(), tags=(), labels=(), racks=()):
    return Selector(frozenset(names), frozenset(tags), frozenset(labels), frozenset(racks))


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param([], "abcd", id="no selectors: every host"),
        pytest.param([selector()], "abcd", id="a selector with nothing in it: every host"),
        pytest.param([selector(names="ac")], "ac", id="names: any of them"),
        pytest.param([selector(tags=["ssd", "compute"])], "abc", id="tags: any of them"),
        pytest.param([selector(labels=[("tier", "web"), ("tier", "db")])], "ab", id="labels: any of them"),
        pytest.param([selector(racks=["r1", "r2"])], "abc", id="racks: any of them"),
        pytest.param([selector(names="ab", tags=["compute"], racks=["r1"])], "b", id="within one: intersection"),
        pytest.param([selector(names="a"), selector(racks=["r2"])], "ac", id="across selectors: union"),
        pytest.param([selector(names="a"), selector()], "abcd", id="a narrow one and one of all hosts: all"),
        pytest.param([selector(names="x")], "", id="nobody"),
        pytest.param([selector(labels=[("tier", "cache")])], "", id="another value of a label"),
    ],
)
def test_a_group_has_the_hosts_that_its_selectors_select(selectors, expected):
    group = Group("g", critical=False, selectors=tuple(selectors))
    assert members(group, HOSTS) == set(expected)


def test_a_host_that_can_be_leased_is_in_no_group():
    hosts = {"a": Facts(is_leasable=True), "b": Facts()}
    for selectors in ((), (selector(),), (selector(names="ab"),)):
        assert members(Group("g", critical=False, selectors=selectors), hosts) == {"b"}


def test_a_host_is_selected_by_its_id_and_by_its_name():
    hosts = {"0015C5": Facts(name="app1.example.com"), "0015C6": Facts(name="app2.example.com")}
    for name in ("0015C5", "app1.example.com"):
        assert members(Group("g", critical=False, selectors=(selector(names=[name]),)), hosts) == {"0015C5"}


def test_the_example_selects_by_name_tag_and_rack():
    members_by_group = {group.name: sorted(members(group, EXAMPLE_HOSTS)) for group in example().groups}
    assert members_by_group == {
        "control-nodes": ["ctl1", "ctl2", "ctl3"],
        "compute-nodes-1": ["one1", "one2"],
        "compute-nodes-2": ["two1"],
        "monitoring-nodes": ["mon1"],
        "ntp-node": ["ntp01"],
    }


@pytest.mark.parametrize(
    ("criteria", "successful", "failed", "total", "expected"),
    [
        pytest.param(Criteria(), 0, 9, 9, 0, id="none: never missed"),
        pytest.param(Criteria(percent_successful=75), 3, 1, 4, 0, id="3 of 4 are 75 percent"),
        pytest.param(Criteria(percent_successful=76), 3, 1, 4, 1, id="a quotient, not rounded"),
        pytest.param(Criteria(percent_successful=67), 2, 1, 3, 1, id="66.7 percent are not 67"),
        pytest.param(Criteria(percent_successful=100), 0, 0, 0, 0, id="of no hosts all are successful"),
        pytest.param(Criteria(minimum_successful=3), 3, 0, 3, 0, id="the minimum is enough"),
        pytest.param(Criteria(minimum_successful=1), 0, 0, 0, 1, id="no hosts miss a minimum"),
        pytest.param(Criteria(maximum_failed=1), 2, 1, 3, 0, id="the maximum is allowed"),
        pytest.param(Criteria(maximum_failed=0), 2, 1, 3, 1, id="more than the maximum"),
        pytest.param(Criteria(maximum_failed=0), 0, 0, 0, 0, id="no hosts fail"),
        pytest.param(Criteria(90, 3, 1), 2, 2, 4, 3, id="each is judged alone"),
    ],
)
def test_criteria_are_judged_each_alone(criteria, successful, failed, total, expected):
    assert len(list(misses(criteria, successful=successful, failed=failed, total=total))) == expected


def test_a_missed_criterion_names_expected_and_found_numbers():
    missed = list(misses(Criteria(90, 3, 0), successful=2, failed=1, total=3))
    assert missed == [
        "2 of 3 hosts successful (66.67 %), expected at least 90 %",
        "2 of 3 hosts successful, expected at least 3",
        "1 of 3 hosts failed, expected at most 0",
    ]


def test_each_selector_that_matches_no_known_host_is_described():
    groups = (
        Group("every", critical=True),
        Group("any", critical=True, selectors=(selector(),)),
        Group("half", critical=True, selectors=(selector(names="a"), selector(names="vwxyz", racks=["r1"]))),
        Group("none", critical=True, selectors=(selector(tags=["ssd"], labels=[("tier", "db")]),)),
    )
    message = "selector {} matches no known host ({}); correct the selector or the hosts' configuration"
    assert unmatched_selectors(Strategy("s", groups), HOSTS) == (
        message.format("2 of group half", "node_names v or w or x or 2 more; rack_names r1"),
        message.format("1 of group none", "node_tags ssd; node_labels tier: db"),
    )


def test_of_no_known_hosts_every_selector_is_described():
    (warning,) = unmatched_selectors(Strategy("s", (Group("g", critical=True, selectors=(selector(),)),)), {})
    assert warning.startswith("selector 1 of group g matches no known host (any host)")
