"""``zkdeployment tree show|get|export``: verbs that read the tree."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.files import looks_like_file, read_files
from zkdeployment.cli.shared.options import emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.cli.tree.files import parse_files
from zkdeployment.errors import TreeError
from zkdeployment.model.tree import Tree
from zkdeployment.tree.format import format_tree
from zkdeployment.tree.links import property_value, resolved_properties
from zkdeployment.wiring.host.script import verified_properties
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.servers import Servers
    from zkdeployment.model.tree import Properties
    from zkdeployment.tree.links import Lookup


@click.command()
@click.argument("arguments", metavar="[PATH]", nargs=-1)
@click.option(
    "--file",
    "files",
    metavar="FILE...",
    multiple=True,
    help="Show the tree of these files, *.zkx layered over *.zk, instead of the live tree.",
)
@output_option
@zookeeper_options
def show(connection: Servers, arguments: tuple[str, ...], files: tuple[str, ...], output: str) -> None:
    """Show the tree, or the subtree at PATH, as text or as one object: path to properties.

    The live tree is shown with its ephemeral nodes. Links are not resolved.

    \b
    Example:
      zkdeployment tree show /shop
      zkdeployment tree show --file web.zk overrides.zkx -o json
    """
    more = tuple(argument for argument in arguments if files and looks_like_file(argument))
    path = _single([argument for argument in arguments if argument not in more])
    if files:
        nodes = parse_files(read_files((*files, *more))).nodes
    else:
        with open_operator(connection) as operator:
            nodes = operator.tree.subtree(path) or {}
    _print(nodes, path, output)


@click.command()
@click.argument("path", default="")
@zookeeper_options
def export(connection: Servers, path: str) -> None:
    """Print the live tree, or the subtree at PATH, as text without ephemeral nodes.

    \b
    Example:
      zkdeployment tree export > live.zk
    """
    with open_operator(connection) as operator:
        nodes = operator.tree.live_tree().tree.nodes
    _print(nodes, path.rstrip("/"), "table")


@click.command()
@click.argument("path", callback=node_path)
@click.argument("name", required=False)
@zookeeper_options
def get(connection: Servers, path: str, name: str | None) -> None:
    """Print the properties of the node at PATH, or its property NAME, as JSON; links are resolved.

    In a script that a host with publishers runs, the properties of the script's own service are those that were
    signed and verified; ZooKeeper is not read. Properties of other nodes are read from ZooKeeper, with a warning.

    \b
    Example:
      zkdeployment tree get /shop/web
      zkdeployment tree get /shop/web version
    """
    with _lookup(connection, path) as lookup:
        if name is None:
            emit(resolved_properties(lookup, path), "json")
        else:
            emit(property_value(lookup, path, name), "json")


@contextlib.contextmanager
def _lookup(connection: Servers, path: str) -> Iterator[Lookup]:
    """Yield the function that reads nodes: the verified file of the calling script's service, or ZooKeeper."""
    if file := os.environ.get("ZKDEPLOYMENT_PROPERTIES"):
        service = path.rstrip("/")
        if (properties := verified_properties(file, service)) is not None:
            yield {service: properties}.get
            return
        echo(f"warning: {path} is not the service of this script: its properties are not verified", err=True)
    with open_operator(connection) as operator:
        yield operator.tree.lookup()


def _single(arguments: list[str]) -> str:
    """Return the only path without its final slash; empty, the root, if there are no arguments."""
    if len(arguments) > 1:
        raise click.UsageError(f"expected one PATH, found: {' '.join(arguments)}")
    return arguments[0].rstrip("/") if arguments else ""


def _print(nodes: Mapping[str, Properties], path: str, output: str) -> None:
    """Print the subtree at a path; the text form includes the nodes above, without their properties."""
    subtree = {name: nodes[name] for name in nodes if not path or name == path or name.startswith(f"{path}/")}
    if path and not subtree:
        raise TreeError(f"there is no node {path}")
    if output != "table":
        emit({name: subtree[name] for name in sorted(subtree)}, output)
        return
    names = path.split("/")
    above: dict[str, Properties] = {"/".join(names[:depth]): {} for depth in range(2, len(names))}
    if text := format_tree(Tree(above | subtree)):
        echo_lines(text.removesuffix("\n"))
