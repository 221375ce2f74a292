"""Configurations whose object, monitoring system or placeholders do not exist."""

import pytest

from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.publishing.rules.review import review

TREE = "/p1\n  /shop\n    /front : front\n      version = '1.0'\n      /deploy\n        /host1\n"
SYSTEM = "schema: zkdeployment/MonitoringSystem/v1\nmetadata: {name: nagios1}\n---\n"
CHECK = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: front-http}
data:
  object: /p1/shop
  monitoring: nagios1
  check:
    command: check_http
    arguments: ["{host.address}", "{property.port}"]
"""


def problems(documents, tree=TREE):
    files = [SourceFile("checks.yaml", documents.encode())]
    if tree:
        files.append(SourceFile("a.zk", tree.encode()))
    return review(files).problems


def test_a_configuration_of_a_node_and_a_system_has_no_problems():
    assert problems(SYSTEM + CHECK) == ()


def test_an_object_that_is_not_a_node_forbids_the_publication():
    (problem,) = problems(SYSTEM + CHECK.replace("/p1/shop", "/p1/shops"))
    assert problem.severity is Severity.ERROR
    assert str(problem) == (
        "checks.yaml:7:11: data.object: there is no node /p1/shops; expected the path of a node of the tree"
    )


def test_documents_without_a_tree_are_not_compared_with_it():
    assert problems(SYSTEM + CHECK, tree="") == ()


def test_a_system_that_does_not_exist_forbids_the_publication():
    (problem,) = problems(SYSTEM + CHECK.replace("nagios1", "nagios2"))
    assert problem.severity is Severity.ERROR
    assert str(problem) == (
        "checks.yaml:8:15: data.monitoring: there is no monitoring system nagios2; expected one of: nagios1"
    )
    (problem,) = problems(CHECK)
    assert str(problem).endswith("expected a MonitoringSystem of that name")


def test_a_system_with_an_error_does_not_hide_behind_its_configurations():
    found = problems(SYSTEM.replace("metadata", "metdata") + CHECK)
    assert [problem.line for problem in found] == [1, 2]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("{host.adress}", "unknown placeholder {host.adress}; expected one of: {attribute.NAME}, {host.address},"),
        ("{threshold.warning}", "unknown placeholder {threshold.warning}; expected one of: "),
        ("{attribute.port}", "unknown placeholder {attribute.port}; add the constraint attribute: port"),
        ("{property.}", "unknown placeholder {property.}; expected one of: "),
        ("x{}y", "unknown placeholder {}; expected one of: "),
    ],
)
def test_an_unknown_placeholder_is_a_warning_because_it_keeps_only_its_configuration_out(argument, expected):
    (problem,) = problems(SYSTEM + CHECK.replace("{property.port}", argument))
    assert problem.severity is Severity.WARNING
    assert str(problem).startswith(f"checks.yaml:11:35: data.check.arguments[1]: warning: {expected}")
