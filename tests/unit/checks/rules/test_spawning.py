"""The wanted check instances: which there are, for which hosts, and which of them a change concerns."""

import re

import pytest
from hypothesis import given

from support.checks.bases import check_bases
from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Facts, Identity
from zkdeployment.checks.documents import CheckConfiguration, CheckConstraints
from zkdeployment.checks.rules.spawning import CheckBasis, CheckedHost, CheckScope, changed_scope, wanted_instances
from zkdeployment.strategies.strategy import Selector

CHECK = CheckConfiguration("front-http", "/p1/shop", "nagios1", "check_http", ("{property.port}",))
FRONT = Assignment("/p1/shop/front", 1, "front", "front", version="1")
BACK = Assignment("/p1/shop/back", 2, "back-2.0", "back")


def host(host_id, role=None, **facts):
    name = f"{host_id}.example.com"
    return CheckedHost(Identity(host_id, name, role), "192.0.2.1", Facts(name=name, **facts))


def basis(*configurations, targets=None, properties=None, hosts=None):
    return CheckBasis(
        {found.name: found for found in configurations or (CHECK,)},
        {"host1": (BACK, FRONT)} if targets is None else targets,
        {FRONT.path: {"port": 80}, BACK.path: {"port": 81}} | (properties or {}),
        {found.identity.id: found for found in hosts or [host("host1")]},
    )


def constrained(**constraints):
    return CheckConfiguration("x", "", "nagios1", "check_x", constraints=CheckConstraints(**constraints))


def keys(found):
    return [(wanted.key.path, wanted.key.number, wanted.key.host) for wanted in wanted_instances(found)]


def test_a_check_is_passed_down_to_each_deployment_of_each_service_below_its_object():
    assert keys(basis()) == [
        ("/p1/shop/back", 0, "host1"),
        ("/p1/shop/back", 1, "host1"),
        ("/p1/shop/front", 0, "host1"),
    ]


@pytest.mark.parametrize(
    ("configuration", "paths"),
    [
        (CheckConfiguration("x", "/p1/shop/front", "nagios1", "check_x"), {FRONT.path}),
        (CheckConfiguration("x", "/p1/shop/front", "nagios1", "check_x", children_only=True), set()),
        (CheckConfiguration("x", "/p1/shop/front", "nagios1", "check_x", inheritance=False), {FRONT.path}),
        (CheckConfiguration("x", "/p1/shop", "nagios1", "check_x", inheritance=False), set()),
        (CheckConfiguration("x", "", "nagios1", "check_x"), {FRONT.path, BACK.path}),
        (constrained(packages=("front",)), {FRONT.path}),
        (constrained(packages=("back",)), {BACK.path}),
        (constrained(packages=("back-2.0",)), {BACK.path}),
        (constrained(packages=("front", "back")), set()),
        (constrained(properties=(("port", "80"),)), {FRONT.path}),
        (constrained(properties=(("port", "80"), ("tier", "web"))), set()),
        (constrained(attributes=("port",)), {FRONT.path, BACK.path}),
        (constrained(attributes=("missing",)), set()),
        (constrained(selectors=(Selector(tags=frozenset({"edge"})),)), {FRONT.path, BACK.path}),
        (constrained(selectors=(Selector(names=frozenset({"host1.example.com"})),)), {FRONT.path, BACK.path}),
        (constrained(selectors=(Selector(tags=frozenset({"edge"})), Selector(racks=frozenset({"r2"})))), set()),
    ],
)
def test_constraints_and_inheritance_choose_the_services(configuration, paths):
    found = basis(configuration, hosts=[host("host1", rack="r1", tags=frozenset({"edge"}))])
    assert {path for path, _, _ in keys(found)} == paths


def test_each_value_of_an_attribute_has_an_instance_and_several_attributes_have_combinations():
    configuration = CheckConfiguration(
        "x",
        "",
        "nagios1",
        "check_x",
        ("{attribute.port}/{property.port}/{attribute.zone}/{attribute.tier}",),
        constraints=CheckConstraints(attributes=("port", "zone", "tier")),
    )
    properties = {FRONT.path: {"port": [80, 81, 80, None], "zone": ["a", "b"], "tier": "web"}}
    found = list(wanted_instances(basis(configuration, targets={"host1": (FRONT,)}, properties=properties)))
    assert [wanted.key.attributes for wanted in found] == [
        (("port", 80), ("zone", "a")),
        (("port", 80), ("zone", "b")),
        (("port", 81), ("zone", "a")),
        (("port", 81), ("zone", "b")),
    ]
    assert [wanted.details()["arguments"] for wanted in found][1] == ["80/80/b/web"]
    assert found[1].details()["properties"] == {"port": 80, "zone": "b", "tier": "web"}
    assert len({wanted.id for wanted in found}) == 4


def test_an_instance_stays_the_same_when_its_configuration_and_its_properties_change():
    other = CheckConfiguration("front-http", "", "nagios2", "check_tcp", ("{property.port}",), interval=5)
    before = [wanted.id for wanted in wanted_instances(basis())]
    after = [wanted.id for wanted in wanted_instances(basis(other, properties={FRONT.path: {"port": 1}}))]
    assert before == after


def test_roles_resolve_to_all_known_hosts_with_the_role():
    hosts = [host("host1", "web"), host("host2", "web"), host("host3")]
    found = basis(targets={"web": (FRONT,), "host3": (BACK,), "host1": (BACK,)}, hosts=hosts)
    assert keys(found) == [
        ("/p1/shop/front", 0, "host1"),
        ("/p1/shop/front", 0, "host2"),
        ("/p1/shop/back", 0, "host3"),
        ("/p1/shop/back", 1, "host3"),
    ]


def test_a_service_without_a_property_that_the_arguments_name_has_no_details():
    found = basis(targets={"host1": (FRONT,)}, properties={FRONT.path: {"port": None}})
    (wanted,) = wanted_instances(found)
    assert wanted.faults == ("{property.port} has no value: the service has no property port",)


def test_an_unknown_placeholder_is_a_fault_of_each_instance():
    configuration = CheckConfiguration("x", "", "nagios1", "check_x", ("{host.adress}",))
    (wanted,) = wanted_instances(basis(configuration, targets={"host1": (FRONT,)}))
    assert wanted.faults[0].startswith("unknown placeholder {host.adress}; expected one of: ")


@given(check_bases())
def test_every_instance_has_an_id_of_its_own(found):
    wanted = list(wanted_instances(found))
    assert len({one.id for one in wanted}) == len(wanted)


@given(check_bases(), check_bases())
def test_affected_and_unaffected_instances_together_are_all_wanted_instances(before, after):
    scope = changed_scope(before, after)
    kept = described(wanted for wanted in wanted_instances(before) if not scope.concerns(wanted.key))
    renewed = described(wanted_instances(after, scope))
    assert kept | renewed == described(wanted_instances(after))
    assert all(scope.concerns(wanted.key) for wanted in wanted_instances(after, scope))


@given(check_bases())
def test_an_unchanged_tree_concerns_no_instance(found):
    assert not changed_scope(found, found)
    assert list(wanted_instances(found, CheckScope())) == []


def test_a_changed_property_concerns_one_service_only():
    before = basis()
    after = basis(properties={FRONT.path: {"port": 8080}})
    scope = changed_scope(before, after)
    assert scope == CheckScope(paths=frozenset({FRONT.path}))
    assert [wanted.key.path for wanted in wanted_instances(after, scope)] == [FRONT.path]


def test_a_release_of_a_package_concerns_no_check():
    released = Assignment(FRONT.path, 1, "front", "front", version="2")
    after = basis(targets={"host1": (BACK, released)}, properties={FRONT.path: {"port": 80, "version": "2"}})
    assert not changed_scope(basis(), after)


@given(check_bases())
def test_values_of_the_tree_are_never_read_as_placeholders(found):
    for wanted in wanted_instances(found):
        if wanted.faults:
            continue
        details = wanted.details()
        for template, text in zip(wanted.check.configuration.arguments, details["arguments"], strict=True):
            if template == "{property.port}" and isinstance(details["properties"]["port"], str):
                assert text == details["properties"]["port"]
            if template == "{{x}}{path}":
                assert re.fullmatch(r"\{x\}/p[12][/a-z]*", text)


def described(instances):
    return {one.id: (one.key, one.system, one.faults or one.details()) for one in instances}
