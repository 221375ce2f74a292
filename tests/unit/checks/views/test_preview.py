"""The preview of check configurations: the instances that they would make."""

import pytest

from zkdeployment.base.deployment import Assignment
from zkdeployment.base.errors import TreeError
from zkdeployment.base.host import Facts, Identity
from zkdeployment.base.source_files import SourceFile
from zkdeployment.checks.rules.spawning import CheckedHost
from zkdeployment.checks.user_acts import new_check_documents
from zkdeployment.checks.views.wanted import PreviewBasis, check_errors, preview_checks, preview_to_json
from zkdeployment.tree.values import Tree

CHECK = """\
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: front-http}
data:
  object: /p1
  monitoring: nagios1
  check: {command: check_http, arguments: [-H, "{host.address}", -p, "{property.port}"]}
"""
BASIS = PreviewBasis(
    Tree({"/p1": {}, "/p1/front": {"port =>": "/texts"}, "/p1/back": {}, "/texts": {"port": 80}}),
    {"host1": tuple(Assignment(path, 1, "x", "x") for path in ("/p1/back", "/p1/front"))},
    frozenset({"nagios1"}),
    {"host1": CheckedHost(Identity("host1", "host1.example.com"), "192.0.2.1", Facts())},
)


def preview(text, basis=BASIS):
    return preview_checks(new_check_documents(SourceFile("c.yaml", text.encode())), basis)


def test_each_instance_is_shown_with_its_details_or_with_its_errors():
    found = preview(CHECK)
    back, front = preview_to_json(found.instances)["instances"]
    assert (back["path"], back["details"]) == ("/p1/back", None)
    assert front == {
        "id": front["id"],
        "check": "front-http",
        "path": "/p1/front",
        "number": 0,
        "host": {"id": "host1", "name": "host1.example.com", "address": "192.0.2.1"},
        "attributes": {},
        "monitoring": "nagios1",
        "details": {
            "configuration": "front-http",
            "monitoring": "nagios1",
            "host": {"id": "host1", "name": "host1.example.com", "address": "192.0.2.1"},
            "path": "/p1/front",
            "number": 0,
            "command": "check_http",
            "arguments": ["-H", "192.0.2.1", "-p", "80"],
            "thresholds": [],
            "interval": 60,
            "properties": {"port": 80},
        },
        "errors": [],
    }
    assert [error.to_json() for error in check_errors(found.instances)] == [
        {
            "path": "/p1/back",
            "message": "{property.port} has no value: the service has no property port",
            "instances": 1,
        }
    ]


def test_references_are_compared_with_the_tree_and_its_monitoring_systems():
    with pytest.raises(TreeError) as caught:
        preview(CHECK.replace("/p1", "/p2").replace("nagios1", "nagios2"))
    assert str(caught.value).splitlines() == [
        "c.yaml:4:11: data.object: there is no node /p2; expected the path of a node of the tree",
        "c.yaml:5:15: data.monitoring: there is no monitoring system nagios2; expected one of: nagios1",
    ]


def test_a_monitoring_system_may_be_in_the_same_file():
    system = "schema: zkdeployment/MonitoringSystem/v1\nmetadata: {name: nagios2}\n---\n"
    found = preview(system + CHECK.replace("nagios1", "nagios2"))
    assert {wanted.system for wanted in found.instances} == {"nagios2"}


def test_unknown_placeholders_are_warnings():
    found = preview(CHECK.replace("{property.port}", "{property}"))
    assert "warning: unknown placeholder {property}; expected one of: " in found.warnings[0]
