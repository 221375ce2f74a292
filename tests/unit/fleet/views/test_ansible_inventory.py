"""The fleet as an inventory of Ansible: groups, variables, and names that cannot be confused."""

from __future__ import annotations

import pytest

from support.builders import make_host, make_known_host
from support.trees import compile_nodes
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import NotFoundError
from zkdeployment.fleet.views.ansible_inventory import ansible_inventory
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import fleet_status

TARGETS = compile_nodes(
    {
        "/shop/web": {"type": "web", "version": "1"},
        "/shop/web/deploy/h1": {},
        "/shop/web/deploy/front": {"n": 2},
    }
)


def inventory(*hosts, absent=()):
    snapshot = FleetSnapshot(Cluster(7), 7, hosts=hosts, absent=absent)
    return ansible_inventory(fleet_status(snapshot), snapshot, TARGETS)


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
    assert inventory(make_host("-oProxyCommand=x", 7)).variables == {}


def test_names_that_would_become_equal_stay_two_groups():
    found = inventory(make_host("h1", 7, tags=("a-b",)), make_host("h2", 7, tags=("a.b",)))
    tags = {name: hosts for name, hosts in found.groups.items() if name.startswith("tag")}
    assert sorted(tags.values()) == [("h1.example.com",), ("h2.example.com",)]
    assert all(name.startswith("tag_a_b_") for name in tags)


def test_labels_with_underscores_in_the_key_or_the_value_stay_two_groups():
    found = inventory(make_host("h1", 7, labels={"a": "b_c"}), make_host("h2", 7, labels={"a_b": "c"}))
    labels = {name: hosts for name, hosts in found.groups.items() if name.startswith("label_a_b_c_")}
    assert sorted(labels.values()) == [("h1.example.com",), ("h2.example.com",)]


def test_hosts_with_the_same_name_have_their_ids_as_names():
    twins = (make_known_host("h1"), make_known_host("h2"))
    renamed = [type(host)(type(host.identity)(host.identity.id, "app.example.com")) for host in twins]
    assert set(inventory(absent=tuple(renamed)).variables) == {"h1", "h2"}


def test_unknown_hosts_are_refused():
    with pytest.raises(NotFoundError, match="no host has the name or the id h9"):
        inventory(make_host("h1", 7)).host("h9")
