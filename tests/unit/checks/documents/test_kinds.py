"""Documents of monitoring systems and check configurations: their values, and each fault with its place."""

import json

import pytest

from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.source_files import SourceFile
from zkdeployment.checks.documents import (
    CHECK,
    SYSTEM,
    CheckConfiguration,
    CheckConstraints,
    MonitoringSystem,
    Predicate,
    Threshold,
)
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.strategies.strategy import Selector

SYSTEM_TEXT = """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
data: {callback: "http://nagios1.example.com:8421/poke"}
"""

CHECK_TEXT = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: front-http}
data:
  object: /p1/shop
  inheritance: true
  children_only: false
  monitoring: nagios1
  interval: 60
  check: {command: check_http, arguments: ["-H", "{host.address}", -p, 8080]}
  thresholds: [{level: warning, predicate: ">=", value: 0.5}, {level: critical, predicate: ">=", value: 2}]
  constraints:
    - package: front
    - selector: {node_tags: [edge]}
    - property: {tier: web}
    - attribute: port
"""

SHORT_TEXT = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: alive}
data: {object: /, monitoring: nagios1, check: {command: check_ping}}
"""


def read(text):
    return read_documents([SourceFile("c.yaml", text.encode())])


def test_a_monitoring_system_is_read():
    found = read(SYSTEM_TEXT)
    assert found.problems == ()
    assert found.of(SYSTEM) == {("nagios1",): MonitoringSystem("nagios1", "http://nagios1.example.com:8421/poke")}


@pytest.mark.parametrize("data", ["", "data: {}\n"])
def test_a_monitoring_system_without_a_callback_polls(data):
    text = SYSTEM_TEXT.rpartition("data: ")[0] + data
    assert read(text).of(SYSTEM) == {("nagios1",): MonitoringSystem("nagios1", None)}


def test_a_check_configuration_is_read_with_all_keys():
    found = read(CHECK_TEXT)
    assert found.problems == ()
    assert found.of(CHECK) == {
        ("front-http",): CheckConfiguration(
            name="front-http",
            path="/p1/shop",
            monitoring="nagios1",
            command="check_http",
            arguments=("-H", "{host.address}", "-p", "8080"),
            interval=60,
            inheritance=True,
            children_only=False,
            thresholds=(
                Threshold("warning", Predicate.GREATER_OR_EQUAL, 0.5),
                Threshold("critical", Predicate.GREATER_OR_EQUAL, 2),
            ),
            constraints=CheckConstraints(
                packages=("front",),
                selectors=(Selector(tags=frozenset({"edge"})),),
                properties=(("tier", "web"),),
                attributes=("port",),
            ),
        )
    }


def test_keys_that_are_not_given_have_defaults():
    assert read(SHORT_TEXT).of(CHECK) == {("alive",): CheckConfiguration("alive", "", "nagios1", "check_ping")}


@pytest.mark.parametrize(
    ("predicate", "value", "expected"),
    [
        (">=", 2, "2"),
        (">", 0.5, "0.5"),
        ("<", 10, "10:"),
        ("<=", 0.25, "0.25:"),
        (">", 1e-7, "0.0000001"),
        (">", 1e20, "100000000000000000000"),
    ],
)
def test_thresholds_are_ranges_of_plugins(predicate, value, expected):
    assert Threshold("warning", Predicate(predicate), value).range == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("{name: front-http}", "{name: instances}", "2:18: metadata.name: instances is a word of 'zkdeployment"),
        ("{name: front-http}", "{name: summary}", "2:18: metadata.name: summary is a word of 'zkdeployment chec"),
        ("{name: front-http}", "{name: a/b}", "2:18: metadata.name: expected a name of at most 128 letters"),
        ("object: /p1/shop", "object: p1/shop", "4:11: data.object: expected the path of a node, as in /p1/shop,"),
        ("  object: /p1/shop\n", "", "4:3: data: 'object' is a required property"),
        ("inheritance: true", "inheritance: maybe", "5:16: data.inheritance: expected true or false, found 'may"),
        ("inheritance: true", "inheritence: true", "5:16: data.inheritence: unknown key 'inheritence'; did you"),
        ("interval: 60", "interval: 0", "8:13: data.interval: expected a whole number of seconds, at least 1, f"),
        ("interval: 60", "interval: 1m", "8:13: data.interval: expected a whole number of seconds, at least 1,"),
        ("check_http,", "../check_http,", "9:20: data.check.command: expected the name of a plugin without its"),
        ("command: check_http", "command: 'a b'", "9:20: data.check.command: expected the name of a plugin"),
        ("8080]", "{a: b}]", "9:72: data.check.arguments[3]: expected an argument, as text, found {'a': 'b'}"),
        ('"-H"', '"-H\\0"', "9:44: data.check.arguments[0]: expected an argument, as text, found '-H\\x00'"),
        ('predicate: ">=", value: 0.5', "predicate: '==', value: 0.5", "thresholds[0].predicate: expected one o"),
        ("value: 0.5", "value: much", "10:57: data.thresholds[0].value: expected a number, found 'much'"),
        ("value: 0.5", "value: .inf", "10:57: data.thresholds[0].value: expected a number, found '.inf'"),
        ("level: critical", "level: warning", "10:71: data.thresholds[1].level: there is another threshold warn"),
        ("- package: front", "- package: front\n      attribute: port", "12:7: data.constraints[0]: expected on"),
        ("- package: front", "- packages: front", "12:17: data.constraints[0].packages: unknown key 'packages';"),
        ("- package: front", "- front", "12:7: data.constraints[0]: expected one of: package, selector, propert"),
        ("{node_tags: [edge]}", "{tags: [edge]}", "constraints[1].selector.tags: unknown key 'tags'; did you me"),
        ("{node_tags: [edge]}", "{}", "13:17: data.constraints[1].selector: {} should be non-empty"),
        ("{tier: web}", "{}", "14:17: data.constraints[2].property: expected a mapping of properties to values"),
        ("{tier: web}", "{tier: [web]}", "14:24: data.constraints[2].property.tier: expected a value of a prope"),
        ("attribute: port", "attribute: [port]", "15:18: data.constraints[3].attribute: expected the name of a"),
        ("children_only: false\n", "children_only: true\n  interval: 5\n", "interval is given twice"),
        ("Configuration/v1", "Configuration/v2", "1:9: schema: expected one of: shipyard"),
    ],
)  # fmt: skip
def test_a_faulty_configuration_is_an_error_with_its_place(before, after, expected):
    assert before in CHECK_TEXT
    text = CHECK_TEXT.replace(before, after)
    assert document_files([SourceFile("c.yaml", text.encode())])
    messages = [str(problem) for problem in read(text).problems]
    assert len(messages) == 1
    assert messages[0].startswith("c.yaml:")
    assert expected in messages[0]


def test_children_only_needs_inheritance():
    text = CHECK_TEXT.replace("inheritance: true", "inheritance: false").replace(
        "children_only: false", "children_only: true"
    )
    (problem,) = read(text).problems
    assert str(problem) == (
        "c.yaml:6:18: data.children_only: children_only without inheritance leaves no service;"
        " remove children_only or set inheritance: true"
    )


@pytest.mark.parametrize(("inheritance", "children_only"), [("true", "true"), ("false", "false")])
def test_inheritance_with_children_only_and_neither_are_accepted(inheritance, children_only):
    text = CHECK_TEXT.replace("inheritance: true", f"inheritance: {inheritance}").replace(
        "children_only: false", f"children_only: {children_only}"
    )
    assert read(text).problems == ()


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        ("nagios1:8421", "3:18: data.callback: expected the URL of a monitoring system, as in http://nagios1"),
        ("ftp://nagios1/poke", "3:18: data.callback: expected the URL of a monitoring system"),
        ("http://me:secret@nagios1/", "3:18: data.callback: the URL contains a password; write it without one"),
        ("http://nagios1:99999/poke", "3:18: data.callback: expected a URL with a host and a valid port, found"),
        ("http://:8421/poke", "3:18: data.callback: expected a URL with a host and a valid port, found"),
    ],
)
def test_a_faulty_callback_is_an_error_that_shows_no_password(callback, expected):
    (problem,) = read(SYSTEM_TEXT.replace("http://nagios1.example.com:8421/poke", callback)).problems
    assert expected in str(problem)
    assert "secret" not in str(problem)


@pytest.mark.parametrize("name", ["nagios:eu", "_nagios", "n" * 65, "nagios 1"])
def test_a_monitoring_system_has_a_name_that_its_user_may_have(name):
    (problem,) = read(SYSTEM_TEXT.replace("nagios1}", f"{json.dumps(name)}}}")).problems
    assert name_problem(NameKind.USER, name) is not None
    assert "metadata.name: expected a user name of at most 64 letters" in str(problem)
    (problem,) = read(CHECK_TEXT.replace("monitoring: nagios1", f"monitoring: {json.dumps(name)}")).problems
    assert "data.monitoring: expected a user name of at most 64 letters" in str(problem)


def test_two_configurations_of_one_name_are_an_error():
    (problem,) = read(f"{CHECK_TEXT}---\n{CHECK_TEXT}").problems
    assert "there is another check front-http in c.yaml, line 1; keep one of them" in str(problem)


@pytest.mark.parametrize(
    ("keys", "path", "concerned"),
    [
        ({}, "/p1/shop", True),
        ({}, "/p1/shop/front", True),
        ({}, "/p1/shopping", False),
        ({}, "/p1", False),
        ({"inheritance": False}, "/p1/shop", True),
        ({"inheritance": False}, "/p1/shop/front", False),
        ({"children_only": True}, "/p1/shop", False),
        ({"children_only": True}, "/p1/shop/front", True),
    ],
)
def test_a_check_is_passed_down_to_the_services_below_its_object(keys, path, concerned):
    assert CheckConfiguration("x", "/p1/shop", "nagios1", "check_x", **keys).concerns(path) is concerned


def test_the_root_passes_checks_down_to_all_services():
    assert CheckConfiguration("x", "", "nagios1", "check_x").concerns("/p1/shop/front")
