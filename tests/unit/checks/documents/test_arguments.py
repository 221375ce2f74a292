"""Arguments with placeholders: which there are, and how values take their place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.checks.documents import (
    ArgumentPart,
    CheckConfiguration,
    Predicate,
    Threshold,
    argument_parts,
    argument_text,
    placeholders,
    unknown_placeholder,
    with_values,
)


def filled(template, value):
    return argument_text(argument_parts(template), dict.fromkeys(placeholders(template), value))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("-H", []),
        ("{host.address}", ["host.address"]),
        ("http://{host.name}:{property.port}/", ["host.name", "property.port"]),
        ("{{path}}", []),
        ("{{{path}}}", ["path"]),
        ("{", []),
        ("a}b{", []),
        ("{}", [""]),
        ("{x{path}", ["path"]),
    ],
)
def test_names_in_braces_are_placeholders(template, expected):
    assert list(placeholders(template)) == expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("-p {path}!", "-p VALUE!"),
        ("{{path}}", "{path}"),
        ('{{"a": {{"b": 1}}}}', '{"a": {"b": 1}}'),
        ("{{{path}}}", "{VALUE}"),
        ("100 % {", "100 % {"),
    ],
)
def test_values_take_the_place_of_placeholders(template, expected):
    assert filled(template, "VALUE") == expected


@given(st.text())
def test_a_value_is_never_searched_for_placeholders(value):
    assert filled("<{path}>", value) == f"<{value}>"


@given(st.text())
def test_every_template_can_be_filled(template):
    assert isinstance(filled(template, "x"), str)


def test_known_values_are_filled_in_first_and_the_others_stay_placeholders():
    parts = with_values(
        argument_parts("{path}:{property.x}@{host.address}!"), {"path": "/a", "property.x": "{path}"}
    )
    assert parts == (
        ArgumentPart("/a:{path}@"),
        ArgumentPart("host.address", is_placeholder=True),
        ArgumentPart("!"),
    )
    assert argument_text(parts, {"host.address": "192.0.2.1"}) == "/a:{path}@192.0.2.1!"


def test_levels_that_exist_are_named():
    configuration = CheckConfiguration(
        "x", "", "nagios1", "check_x", thresholds=(Threshold("warning", Predicate.LESS, 1),)
    )
    assert unknown_placeholder(configuration, "threshold.warning") is None
    assert unknown_placeholder(configuration, "threshold.fatal") == (
        "unknown placeholder {threshold.fatal}; the configuration has the thresholds warning"
    )
