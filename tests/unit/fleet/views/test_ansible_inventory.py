"""The fleet as an inventory of Ansible: groups, variables, and names that cannot be confused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from support.builders import make_host, make_known_host
from support.manual import MANUAL
from support.trees import compile_nodes
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.host import Identity
from zkdeployment.fleet.views.ansible_inventory import InventoryNames, ansible_inventory
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import HostState, fleet_status

TARGETS = compile_nodes(
    {
        "/shop/web": {"type": "web", "version": "1"},
        "/shop/web/deploy/h1": {},
        "/shop/web/deploy/front": {"n": 2},
    }
)

PLAIN = InventoryNames()


def inventory(*hosts, absent=(), choices=PLAIN):
    snapshot = FleetSnapshot(Cluster(7), 7, hosts=hosts, absent=absent)
    return ansible_inventory(fleet_status(snapshot), snapshot, TARGETS, choices)


def named(host_id, name):
    return replace(make_host(host_id, 7), identity=Identity(host_id, name))


def test_hosts_are_in_groups_by_their_facts_services_state_and_revision():
    found = inventory(
        make_host("h1", 7, tags=("fast",), labels={"tier": "web"}, rack="r 1"),
        make_host("h2", 6, "front", error="no space left"),
        absent=(make_known_host("h3"),),
    )
    assert found.groups == {
        "label_tier_web": ("h1.example.com",),
        "rack_r_1": ("h1.example.com",),
        "revision_6": ("h2.example.com",),
        "revision_7": ("h1.example.com",),
        "revision_none": ("h3.example.com",),
        "role_front": ("h2.example.com",),
        "service_shop_web": ("h1.example.com", "h2.example.com"),
        "state_absent": ("h3.example.com",),
        "state_converged": ("h1.example.com",),
        "state_failed": ("h2.example.com",),
        "tag_fast": ("h1.example.com",),
    }


def test_variables_describe_a_host():
    found = inventory(make_host("h2", 6, "front", error="no space left", address="192.0.2.7"))
    values = found.variables["h2.example.com"]
    assert values["ansible_host"] == "192.0.2.7"
    assert values["zkdeployment_role"] == "front"
    assert values["zkdeployment_state"] == "failed"
    assert (values["zkdeployment_version"], values["zkdeployment_wanted"]) == (6, 7)
    assert values["zkdeployment_error"] == "no space left"
    (service,) = values["zkdeployment_services"]
    assert (service["path"], service["n"], service["package"]) == ("/shop/web", 2, "web")
    assert (
        found.host("h2") == found.host("h2.example.com") == found.to_json()["_meta"]["hostvars"]["h2.example.com"]
    )
    assert "ansible_host" not in inventory(make_host("h1", 7)).host("h1")


def test_ansible_evaluates_no_text_of_a_host():
    host = make_host(
        "h1", 7, "{{ r }}", error="{{ e }}", tags=("{{ t }}",), labels={"__ansible_vault": "v", "l": "{{ l }}"}
    )
    values = inventory(host).host("h1")
    assert values["zkdeployment_error"] == {"__ansible_unsafe": "{{ e }}"}
    assert values["zkdeployment_role"] == {"__ansible_unsafe": "{{ r }}"}
    assert values["zkdeployment_tags"] == [{"__ansible_unsafe": "{{ t }}"}]
    assert values["zkdeployment_labels"] == {"l": {"__ansible_unsafe": "{{ l }}"}}
    assert (values["zkdeployment_version"], values["zkdeployment_rack"]) == (7, None)


def test_texts_that_ssh_would_read_as_options_are_no_addresses_and_no_names():
    for address in ("-oProxyCommand=x", "fe80::1%x", "app.example.com"):
        assert "ansible_host" not in inventory(make_host("h1", 7, address=address)).host("h1")
    (name,) = inventory(make_host("-oProxyCommand=x", 7)).variables
    assert re.fullmatch("host__oProxyCommand_x_[0-9a-f]{16}", name)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_no_host_has_the_address_of_the_machine_that_runs_ansible(address):
    assert "ansible_host" not in inventory(make_host("h1", 7, address=address)).host("h1")


#: Names that Ansible or ssh could read as something else than this one host.
AMBIGUOUS = (
    *(
        "all",
        "ungrouped",
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "::1",
        "_meta,all",
        "h1*",
        "h[1:3]",
        "!h1",
        "@file",
    ),
    *(f"{kind}_x" for kind in ("state", "revision", "role", "tag", "label", "rack", "service", "host")),
    *("", "h2\n", "\ud800", "hä"),
)


@pytest.mark.parametrize("name", [*AMBIGUOUS, "h1"])
def test_a_name_that_could_stand_for_something_else_is_replaced_by_the_id(name):
    found = inventory(named("h1", "h1.example.com"), named("h2", name))
    assert set(found.variables) == {"h1.example.com", "h2"}
    assert sorted(found.groups["state_converged"]) == ["h1.example.com", "h2"]
    assert found.host("h1")["zkdeployment_id"] == {"__ansible_unsafe": "h1"}


@pytest.mark.parametrize("host_id", AMBIGUOUS)
def test_an_id_that_could_stand_for_something_else_is_replaced_by_a_digest(host_id):
    (name,) = inventory(named(host_id, host_id)).variables
    assert re.fullmatch("host_[A-Za-z0-9_]*_[0-9a-f]{16}", name)


def test_a_host_whose_name_is_its_own_id_keeps_it_and_another_host_does_not_get_it():
    assert set(inventory(named("h1", "h1"), named("h2", "h1")).variables) == {"h1", "h2"}


@pytest.mark.parametrize(
    ("plain", "facts"),
    [
        ("tag_a_b", [{"tags": ("a-b",)}, {"tags": ("a.b",)}, {"tags": ("a_b",)}]),
        ("rack_r_1", [{"rack": "r 1"}, {"rack": "r.1"}]),
        ("tag_", [{"tags": ("\ud800",)}, {"tags": ("ä",)}]),
        ("label_a_b_c", [{"labels": {"a": "b_c"}}, {"labels": {"a_b": "c"}}]),
        ("label_a_b_c", [{"labels": {"a": "b=c"}}, {"labels": {"a=b": "c"}}]),
        ("revision_none", [{"version": "none"}, {"version": None}]),
        ("revision_" + "a" * 12, [{"version": "a" * 40}, {"version": "a" * 39 + "b"}]),
    ],
)
def test_values_whose_names_would_become_equal_stay_several_groups(plain, facts):
    hosts = [make_host(f"h{number}", **{"version": 7, **given}) for number, given in enumerate(facts)]
    groups = {name: found for name, found in inventory(*hosts).groups.items() if name.startswith(f"{plain}_")}
    assert sorted(groups.values()) == [(host.identity.name,) for host in hosts]
    assert plain not in inventory(*hosts).groups


def test_no_value_can_have_the_digest_of_another_one():
    others = [make_host("h1", 7, tags=("a-b",)), make_host("h2", 7, tags=("a.b",))]
    taken = [name for name in inventory(*others).groups if name.startswith("tag_")]
    forged = [make_host(f"f{number}", 7, tags=(name.removeprefix("tag_"),)) for number, name in enumerate(taken)]
    groups = inventory(*others, *forged).groups
    assert sorted(groups[name] for name in taken) == [("h1.example.com",), ("h2.example.com",)]
    assert sum(name.startswith("tag_") for name in groups) == 4


def test_hosts_with_the_same_name_have_their_ids_as_names():
    assert set(inventory(named("h1", "app"), named("h2", "app")).variables) == {"h1", "h2"}


def test_a_prefix_begins_the_names_of_all_groups_and_no_host_is_named_like_one_of_them():
    hosts = (make_host("h1", 7, tags=("a-b",)), make_host("h2", 7, tags=("a.b",)), named("h3", "zkd_tag_a"))
    plain, prefixed = inventory(*hosts), inventory(*hosts, choices=InventoryNames("zkd_"))
    assert set(prefixed.groups) == {f"zkd_{name}" for name in plain.groups}
    assert set(plain.variables) == {"h1.example.com", "h2.example.com", "zkd_tag_a"}
    assert set(prefixed.variables) == {"h1.example.com", "h2.example.com", "h3"}
    assert set(inventory(named("h4", "state_x"), choices=InventoryNames("zkd_")).variables) == {"h4"}


def test_racks_are_groups_within_their_sites():
    found = inventory(
        make_host("h1", 7, labels={"site": "ams"}, rack="r1"),
        make_host("h2", 7, labels={"site": "ams"}, rack="r2"),
        make_host("h3", 7, labels={"site": "fra"}, rack="r1"),
        make_host("h4", 7, labels={"site": "fra"}),
        make_host("h5", 7, rack="r1"),
        choices=InventoryNames("x_", "site"),
    ).to_json()
    assert {name: group for name, group in found.items() if name.startswith(("x_label", "x_rack"))} == {
        "x_label_site_ams": {
            "hosts": ["h1.example.com", "h2.example.com"],
            "children": ["x_rack_ams_r1", "x_rack_ams_r2"],
        },
        "x_label_site_fra": {"hosts": ["h3.example.com", "h4.example.com"], "children": ["x_rack_fra_r1"]},
        "x_rack_ams_r1": {"hosts": ["h1.example.com"]},
        "x_rack_ams_r2": {"hosts": ["h2.example.com"]},
        "x_rack_fra_r1": {"hosts": ["h3.example.com"]},
        "x_rack_r1": {"hosts": ["h1.example.com", "h3.example.com", "h5.example.com"]},
        "x_rack_r2": {"hosts": ["h2.example.com"]},
    }


def test_a_rack_that_is_named_like_the_rack_of_a_site_is_another_group():
    found = inventory(
        make_host("h1", 7, labels={"site": "ams"}, rack="r1"),
        make_host("h2", 7, rack="ams_r1"),
        choices=InventoryNames(site="site"),
    )
    assert "rack_ams_r1" not in found.groups
    ((inside,),) = found.children.values()
    assert found.groups[inside] == ("h1.example.com",)


def test_hosts_have_their_ids_as_names_if_that_is_chosen():
    hosts = (make_host("h1", 7), named("h2", "h1"), named("state_x", "h4.example.com"))
    found = inventory(*hosts, choices=InventoryNames(by_id=True))
    first, second, third = sorted(found.variables)
    assert (first, second) == ("h1", "h2")
    assert re.fullmatch("host_state_x_[0-9a-f]{16}", third)
    assert found.host("h1")["zkdeployment_name"] == {"__ansible_unsafe": "h1.example.com"}


def test_unknown_hosts_are_refused():
    with pytest.raises(NotFoundError, match="no host has the name or the id h9"):
        inventory(make_host("h1", 7)).host("h9")


def test_the_manual_names_the_group_of_each_state():
    page = (MANUAL / "ansible.rst").read_text()
    assert [state.value for state in HostState if f"``{state.value.replace(' ', '_')}``" not in page] == []
