"""The path of a node is refused without its slash, with the slash in the message, by every verb and operation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest

from support.commands import invoke
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.options import node_path
from zkdeployment.fleet.views.locks import find_lock
from zkdeployment.programs.verbs import program
from zkdeployment.service.application import api_description

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.all_features

#: Words in the name or the placeholder of a parameter that may be the path of a node.
WORDS = ("path", "service", "link", "node")

#: The verbs that read such a parameter themselves, with the arguments that name a path without its slash.
READERS = {
    ("zkdeployment language-server", "governed"): ("--governed-path", "a/b"),
    ("zkdeployment lint", "governed"): ("--governed-path", "a/b"),
    ("zkdeployment locks release", "name"): ("a/b", "--reason", "x"),
    ("zkdeployment logs", "service"): ("app1", "a/b"),
    ("zkdeployment tree show", "arguments"): ("a/b",),
    ("zkdeployment user add", "paths"): ("ann", "--role", "operator", "--path", "a/b"),
}

#: Parameters that are no paths of nodes: names of files, and the name of a leased machine.
OTHERS = {
    ("zkdeployment lint", "paths"),
    ("zkdeployment plan", "paths"),
    ("zkdeployment session history", "node"),
}


def parameters(
    verb: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Context, click.Parameter]]:
    """Yield the parameters with text of a verb and of all verbs below it that may be the path of a node."""
    for parameter in verb.params:
        words = f"{parameter.name} {parameter.metavar}".lower()
        if isinstance(parameter.type, click.types.StringParamType) and any(word in words for word in WORDS):
            yield context.command_path, context, parameter
    for name in verb.list_commands(context) if isinstance(verb, click.Group) else ():
        below = verb.get_command(context, name)
        assert below is not None
        yield from parameters(below, click.Context(below, context, name, **below.context_settings))


FOUND = [*parameters(program, click.Context(program, info_name="zkdeployment", **program.context_settings))]
CHECKED = [(context, parameter) for _, context, parameter in FOUND if parameter.callback is node_path]


def test_each_parameter_of_a_verb_that_may_be_a_path_of_a_node_is_checked():
    unchecked = {
        (verb, str(parameter.name)) for verb, _, parameter in FOUND if parameter.callback is not node_path
    }

    assert unchecked == READERS.keys() | OTHERS


@pytest.mark.parametrize(("context", "parameter"), CHECKED)
def test_a_parameter_for_paths_of_nodes_refuses_one_without_its_slash(context, parameter):
    given = ("a/b",) if parameter.nargs == -1 or parameter.multiple else "a/b"

    with pytest.raises(click.BadParameter, match="'a/b' is not the path of a node: expected /a/b"):
        parameter.process_value(context, given)


@pytest.mark.parametrize(("verb", "arguments"), [(verb, arguments) for (verb, _), arguments in READERS.items()])
def test_a_verb_that_reads_a_path_of_a_node_itself_refuses_one_without_its_slash(verb, arguments):
    done = invoke(*verb.split()[1:], *arguments)

    assert (done.returncode, "'a/b' is not the path of a node: expected /a/b" in done.stderr) == (2, True), done


def test_logs_take_a_name_with_a_slash_for_a_path():
    done = invoke("logs", "a/b")

    assert (done.returncode, "'a/b' is not the path of a node: expected /a/b" in done.stderr) == (2, True), done


def test_the_lock_of_a_path_without_its_slash_is_refused():
    with pytest.raises(ConfigurationError, match="'a/b' is not the path of a node: expected /a/b"):
        find_lock((), "a/b")


def test_each_query_of_the_api_that_is_a_path_of_a_node_is_known():
    queries = {
        (path, parameter["name"], json.dumps(parameter["schema"]))
        for path, operations in api_description()["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and any(word in parameter["name"] for word in WORDS)
    }

    with_pattern = {path for path, _, schema in queries if '"pattern": "^(/' in schema}
    assert {path for path, *_ in queries} - with_pattern == {"/api/v1/checks/instances"}
