"""``zkdeployment provide``: an instance of a service, registered while a command runs."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import click

from zkdeployment import log
from zkdeployment.cli.shared.options import node_path, zookeeper_options
from zkdeployment.model.names import NameKind, name_problem
from zkdeployment.tree.literal import LiteralError, evaluate
from zkdeployment.wiring.provider import build_instance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.servers import Servers
    from zkdeployment.model.tree import Value


_VERSION = "version"

#: The properties of an instance that are known from the environment of a deploy script.
_SCRIPT_VARIABLES = {
    "host": "ZKDEPLOYMENT_HOST_ID",
    "deployment": "ZKDEPLOYMENT_DEPLOYMENT",
    _VERSION: "ZKDEPLOYMENT_VERSION",
}


def _properties(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Value]:
    """Parse KEY=VALUE; a value that is not a literal is text, and so is a version that reads as a number."""
    properties: dict[str, Value] = {}
    for text in given:
        name, equals, value = text.partition("=")
        problem = name_problem(NameKind.PROPERTY, name)
        if not equals or problem is not None:
            raise click.BadParameter(
                f"{text!r} is not a property: expected KEY=VALUE" + (f"; {problem}" if equals else "")
            )
        try:
            properties[name] = evaluate(value)
        except LiteralError:
            properties[name] = value
        if name == _VERSION and isinstance(properties[name], int | float):
            properties[name] = value  # as numbers, 1.1 and 1.10 would be the same version
    return properties


@click.command(name="provide")
@click.argument("path", callback=node_path)
@click.argument("address")
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-p",
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_properties,
    help="A property of the node; VALUE is a literal (a number, true, a list…) or text. May be repeated.",
)
@zookeeper_options
def command(
    connection: Servers, path: str, address: str, argv: tuple[str, ...], properties: dict[str, Value]
) -> None:
    """Register an instance at ADDRESS as an ephemeral node under PATH while COMMAND, or this process, runs.

    Links in PATH are resolved; PATH must exist. The node has the property pid and the properties given with -p.
    Started by a deploy script, it also has the properties host, deployment and version, unless -p gives them.
    SIGTERM is passed on to COMMAND. The exit code is that of COMMAND.

    \b
    Example:
      zkdeployment provide /shop/web/providers app1:8080 -p zone=a -- /opt/web/bin/serve --port 8080
    """
    log.configure()
    with build_instance(connection, path, address, argv) as instance:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: instance.end(number))
        raise click.exceptions.Exit(instance.provide({**_script_properties(os.environ), **properties}))


def _script_properties(environment: Mapping[str, str]) -> dict[str, Value]:
    """Return the instance that the environment of a deploy script describes."""
    return {name: value for name, variable in _SCRIPT_VARIABLES.items() if (value := environment.get(variable))}
