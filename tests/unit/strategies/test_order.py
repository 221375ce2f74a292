"""The order in which a strategy rolls a tree out to hosts."""

from support.builders import make_host, make_known_host
from support.strategies import group, strategy
from zkdeployment.strategies.order import order
from zkdeployment.strategies.strategy import Group, Pace, Selector

HOSTS = [make_host(name, rack="r1") for name in "ab"]
KNOWN = [
    make_known_host("b", rack="old"),
    make_known_host("c", rack="r2"),
]
TARGETS = dict.fromkeys(["a", "b.example.com", "web", "/roles/web", "d.example.com"], ())


def of_rack(name, rack, *parents):
    return Group(name, critical=False, depends_on=parents, selectors=(Selector(racks=frozenset({rack})),))


def look(*groups):
    return order(strategy(*groups), HOSTS, KNOWN, TARGETS)


def turns(order):
    return [(turn.group.name, turn.hosts, turn.before, turn.fault) for turn in order.turns]


def test_parents_go_first_and_a_host_goes_with_its_first_group():
    order = look(group("all", "canary"), group("canary", hosts="b"))
    assert turns(order) == [("canary", ("b",), (), ""), ("all", ("a", "c", "d.example.com"), ("b",), "")]
    assert order.others == ()


def test_registered_hosts_are_selected_by_their_nodes_and_absent_hosts_by_their_last_inventory():
    order = look(of_rack("one", "r1"), of_rack("two", "r2"), of_rack("old", "old"))
    assert turns(order) == [("one", ("a", "b"), (), ""), ("two", ("c",), (), ""), ("old", (), (), "")]
    assert order.others == ("d.example.com",)


def test_a_group_that_cannot_meet_its_criteria_keeps_others_from_going():
    order = look(group("few", hosts="a", minimum_successful=2), group("rest", "few", hosts="bc"))
    assert [(name, hosts) for name, hosts, _, _ in turns(order)] == [("few", ("a",)), ("rest", ("b", "c"))]
    few, rest = order.turns
    assert few.fault == "prepare: 1 of 1 hosts successful, expected at least 2"
    assert "few" in rest.fault


def test_the_order_can_be_restricted_to_some_hosts():
    turns_left = look(group("canary", hosts="b"), group("all", "canary")).only({"b", "c"})
    assert turns(turns_left) == [("canary", ("b",), (), ""), ("all", ("c",), ("b",), "")]


def test_it_has_a_form_for_programs():
    manual = Group("m", critical=True, selectors=(Selector(names=frozenset("a")),), pace=Pace(manual=True))
    assert look(manual).to_json() == {
        "strategy": "deployment-strategy",
        "groups": [
            {
                "name": "m",
                "critical": True,
                "depends_on": [],
                "manual": True,
                "hosts": ["a"],
                "before": [],
                "fault": None,
            }
        ],
        "others": ["b", "c", "d.example.com"],
        "warnings": [],
    }


def test_selectors_that_match_no_known_host_are_named_although_a_target_has_such_a_name():
    group = Group("g", critical=False, selectors=(Selector(names=frozenset({"d.example.com"})),))
    assert [warning.partition(";")[0] for warning in look(group, of_rack("x", "r2")).to_json()["warnings"]] == [
        "selector 1 of group g matches no known host (node_names d.example.com)"
    ]
