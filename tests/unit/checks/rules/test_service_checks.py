"""The details of a check for one deployment on one host."""

import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.host import Facts, Identity
from zkdeployment.checks.documents import CheckConfiguration, CheckConstraints, Predicate, Threshold
from zkdeployment.checks.rules.spawning import LARGEST_DETAILS, MOST_COMBINATIONS, CheckedHost, service_checks

HOST = CheckedHost(Identity("host1", "host1.example.com"), "192.0.2.1", Facts())
FRONT = Assignment("/p1/shop/front", 2, "front", "front", version="1.0")


def check(*arguments, thresholds=(), **constraints):
    return CheckConfiguration(
        "front-http",
        "/p1/shop",
        "nagios1",
        "check_http",
        arguments,
        thresholds=thresholds,
        constraints=CheckConstraints(**constraints),
    )


def details(configuration, properties, number=0):
    (found,) = service_checks(configuration, FRONT, properties)
    assert found.faults == ()
    return found.details(HOST, number)


def test_details_have_the_values_for_a_monitoring_system_but_no_package_version():
    thresholds = (
        Threshold("warning", Predicate.GREATER_OR_EQUAL, 0.5),
        Threshold("critical", Predicate.LESS, 2),
    )
    configuration = check(
        "-H",
        "{host.address}",
        "-p",
        "{property.port}",
        "{host.name}/{host.id}{path}#{number}",
        "{threshold.warning} {threshold.critical}",
        thresholds=thresholds,
        properties=(("tier", "web"),),
    )
    properties = {"port": 8080, "tier": "web", "version": "1.0", "secret": "x"}
    assert details(configuration, properties, 1) == {
        "configuration": "front-http",
        "monitoring": "nagios1",
        "host": {"id": "host1", "name": "host1.example.com", "address": "192.0.2.1"},
        "path": "/p1/shop/front",
        "number": 1,
        "command": "check_http",
        "arguments": [
            "-H",
            "192.0.2.1",
            "-p",
            "8080",
            "host1.example.com/host1/p1/shop/front#1",
            "0.5 2:",
        ],
        "thresholds": [
            {"level": "warning", "predicate": ">=", "value": 0.5},
            {"level": "critical", "predicate": "<", "value": 2},
        ],
        "interval": 60,
        "properties": {"port": 8080, "tier": "web"},
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{host.name}", "{host.name}"),
        ("a'b\"c$USER1$!;\n", "a'b\"c$USER1$!;\n"),
        ("{{", "{{"),
        (8080, "8080"),
        (0.5, "0.5"),
        (True, "true"),
        (["ä", 1], '["ä", 1]'),
        ({"a": None}, '{"a": null}'),
    ],
)
def test_values_stay_values(value, expected):
    assert details(check("<{property.x}>"), {"x": value})["arguments"] == [f"<{expected}>"]


@pytest.mark.parametrize(
    ("value", "text", "matches"),
    [
        ("web", "web", True),
        ("web", "Web", False),
        (8080, "8080", True),
        ("8080", "8080", True),
        (1.5, "1.5", True),
        (True, "true", True),
        (None, "null", False),
        (["web"], "web", False),
    ],
)
def test_a_property_is_compared_as_text(value, text, matches):
    found = list(service_checks(check(properties=(("x", text),)), FRONT, {"x": value}))
    assert bool(found) is matches


@pytest.mark.parametrize("value", [[], None, [None]])
def test_an_attribute_without_values_leaves_no_check(value):
    assert list(service_checks(check(attributes=("port",)), FRONT, {"port": value})) == []


def test_values_that_are_not_scalars_are_text():
    (found,) = service_checks(check("{attribute.x}", attributes=("x",)), FRONT, {"x": [{"a": 1}]})
    assert found.attributes == (("x", '{"a": 1}'),)
    assert found.details(HOST, 0)["arguments"] == ['{"a": 1}']


def test_too_many_combinations_of_attributes_are_a_fault_of_the_whole_check():
    many = {"a": list(range(10)), "b": list(range(10)), "c": list(range(10))}
    configuration = check(attributes=("a", "b", "c"))
    assert len(list(service_checks(configuration, FRONT, many))) == MOST_COMBINATIONS
    (found,) = service_checks(configuration, FRONT, many | {"c": list(range(11))})
    assert (found.attributes, found.is_overfull) == ((), True)
    assert found.faults[0].startswith(
        "the values of a, b, c have 1,100 combinations; expected at most 1,000: shorte"
    )
    assert len(list(service_checks(configuration, FRONT, many | {"c": []}))) == 0


def test_details_that_are_too_large_for_some_host_are_a_fault():
    configuration = check("{host.address}", "{property.text}")
    (fits,) = service_checks(configuration, FRONT, {"text": "x" * (LARGEST_DETAILS // 2 - 1000)})
    assert fits.faults == ()
    (found,) = service_checks(configuration, FRONT, {"text": "x" * (LARGEST_DETAILS // 2)})
    (fault,) = found.faults
    assert fault.endswith("expected at most 16,384: name smaller properties in arguments and constraints")
