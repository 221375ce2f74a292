"""``zkdeployment language-server`` and ``schemas``: what editors start, and what they check documents with."""

from __future__ import annotations

import json

import click

from zkdeployment.base import log
from zkdeployment.base.machine.program import editors_libraries
from zkdeployment.cli.files import governed_paths, governed_paths_option
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.config.settings import DEFAULT_CONNECTION
from zkdeployment.editors.rules.schemas import document_schemas
from zkdeployment.editors.trees import LintOptions
from zkdeployment.zookeeper.servers import Servers


@click.command("language-server")
@click.option("--strict", is_flag=True, help="Show the warnings of a strict check, too, as lint --strict.")
@governed_paths_option
@zookeeper_options
def language_server(connection: Servers, *, strict: bool, governed: tuple[str, ...]) -> None:
    """Serve an editor over standard input and output, in the Language Server Protocol.

    The editor starts this program. People then see the problems that lint reports while they type, descriptions of
    nodes and keys, completions, and the targets of links; and they can rename a node with its links. With a
    configured ZooKeeper, they also see hosts and published values.

    \b
    Example:
      zkdeployment language-server
      zkdeployment language-server --zookeeper zk1.example.com:2181
    """
    with editors_libraries():
        from zkdeployment.editors.server import build_server  # noqa: PLC0415  an extra; hosts do not have it
    log.configure()
    config = click.get_current_context().params["config"]
    server = build_server(LintOptions(strict, governed or governed_paths(config)))
    if connection != Servers(DEFAULT_CONNECTION):
        from zkdeployment.editors.server import PublishedFleet  # noqa: PLC0415  not every tree has a fleet

        server.published = PublishedFleet(connection, lambda message: echo(message, err=True))
        server.published.start()
    server.start_io()


@click.command("schemas")
@click.argument("name", required=False)
def schemas(name: str | None) -> None:
    """Print the JSON schema of a kind of documents, or list the kinds.

    NAME is a kind, or "documents" for files with documents of any kind. Editors check YAML files with it.

    \b
    Example:
      zkdeployment schemas
      zkdeployment schemas documents > documents.schema.json
    """
    known = document_schemas()
    if name is None:
        echo_lines("\n".join(known))
    elif name in known:
        echo_lines(json.dumps(known[name], indent=2))
    else:
        raise click.BadParameter(f"there is no kind {name}; expected one of: {', '.join(known)}")
