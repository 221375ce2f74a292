"""``zkdeployment tree``: the tree as it is live, and as files have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.files import is_whole_tree, names_file, read_files
from zkdeployment.cli.shared.options import configured_revision, emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo, echo_lines
from zkdeployment.cli.shared.verb_group import VerbGroup
from zkdeployment.errors import RefusedError, TreeError
from zkdeployment.model.problem import Severity
from zkdeployment.model.tree import Tree
from zkdeployment.rollout.changes import StrategyChange
from zkdeployment.rollout.documents import document_files, read_strategies
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.edits import link_change, removal_change
from zkdeployment.tree.format import format_tree
from zkdeployment.tree.layers import desired_tree, lock_roles, merge
from zkdeployment.tree.links import property_value, resolved_properties
from zkdeployment.tree.lint import lint, tree_files
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import LiveTree, TreeChange
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.tree import Properties
    from zkdeployment.ports.operator import OperatorAdapters
    from zkdeployment.tree.layers import MergedTree

_DIFFERENT = 4

_dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Print what would change and change nothing.")


@click.group(name="tree", cls=VerbGroup)
def command() -> None:
    """Show, read, compare and change the tree.

    \b
    Example:
      zkdeployment tree show /shop
      zkdeployment tree get /shop/web version
      zkdeployment tree diff tree/
    """


@command.command()
@click.argument("arguments", metavar="[PATH]", nargs=-1)
@click.option(
    "--file",
    "files",
    metavar="FILE...",
    multiple=True,
    help="Show what these files say, *.zkx laid over *.zk, instead of the live tree.",
)
@output_option
@zookeeper_options
def show(connection: Servers, arguments: tuple[str, ...], files: tuple[str, ...], output: str) -> None:
    """Show the tree, or PATH and what is below it, as text or as one object: path to properties.

    The live tree is shown with its ephemeral nodes. Links are shown as they are.

    \b
    Example:
      zkdeployment tree show /shop
      zkdeployment tree show --file web.zk overrides.zkx -o json
    """
    more = tuple(argument for argument in arguments if files and names_file(argument))
    path = _single([argument for argument in arguments if argument not in more])
    if files:
        nodes = _parsed((*files, *more)).nodes
    else:
        with open_operator(connection) as operator:
            nodes = operator.tree.subtree(path) or {}
    _print(nodes, path, output)


@command.command()
@click.argument("path", default="")
@zookeeper_options
def export(connection: Servers, path: str) -> None:
    """Print the live tree, or PATH and what is below it, as text without ephemeral nodes.

    \b
    Example:
      zkdeployment tree export > live.zk
    """
    with open_operator(connection) as operator:
        nodes = operator.tree.live_tree().tree.nodes
    _print(nodes, path.rstrip("/"), "table")


@command.command()
@click.argument("path")
@click.argument("name", required=False)
@zookeeper_options
def get(connection: Servers, path: str, name: str | None) -> None:
    """Print the properties of the node at PATH, or its property NAME, as JSON; links are followed.

    \b
    Example:
      zkdeployment tree get /shop/web
      zkdeployment tree get /shop/web version
    """
    with open_operator(connection) as operator:
        lookup = operator.tree.lookup()
        if name is None:
            emit(resolved_properties(lookup, path), "json")
        else:
            emit(property_value(lookup, path, name), "json")


@command.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_dry_run_option
@zookeeper_options
def import_(connection: Servers, files: tuple[str, ...], dry_run: bool) -> None:
    """Change the live tree to what FILEs (or directories) say, without a new version.

    Top-level nodes of *.zk files become what the files say; *.zkx files only add and change. Hosts deploy nothing
    because of it; and what is live is then not what was published, so a plain resume is refused until the next
    publication. For daily work push to the tree's repository instead. A large import holds the fleet while it is
    under way; if it is killed, until the next publication.

    \b
    Example:
      zkdeployment tree import --dry-run web.zk
    """
    merged = _checked(read_files(files))
    with open_operator(connection) as operator:
        live, change = _compare(operator, merged)
        _make(operator, live, change, dry_run=dry_run, roles=lock_roles(merged.tree))


@command.command()
@click.argument("path")
@_dry_run_option
@zookeeper_options
def rm(connection: Servers, path: str, dry_run: bool) -> None:
    """Remove the live node at PATH and all below it, or the symbolic link at PATH, without a new version.

    Refused where instances are registered. As after an import, what is live is then not what was published: the
    next publication puts back what the tree's files have.

    \b
    Example:
      zkdeployment tree rm --dry-run /shop/old
    """
    with open_operator(connection) as operator:
        live = operator.tree.live_tree()
        _make(operator, live, removal_change(live, path), dry_run=dry_run)


@command.command()
@click.argument("target")
@click.argument("link")
@_dry_run_option
@zookeeper_options
def ln(connection: Servers, target: str, link: str, dry_run: bool) -> None:
    """Make LINK a symbolic link to TARGET in the live tree, without a new version.

    A LINK that ends with a slash gets TARGET's name. A link that is there already is changed. TARGET may be
    relative to the node that holds the link; it must be there. As after an import, what is live is then not what
    was published: the next publication puts back what the tree's files have.

    \b
    Example:
      zkdeployment tree ln /databases/main /shop/web/database
    """
    with open_operator(connection) as operator:
        live = operator.tree.live_tree()
        _make(operator, live, link_change(live.tree, target, link), dry_run=dry_run)


@command.command(name="diff")
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option("--revision", metavar="REV", help="A branch or a commit of the configured repository.")
@output_option
@zookeeper_options
def diff_(connection: Servers, files: tuple[str, ...], revision: str | None, output: str) -> None:
    """Say what would have to change in the live tree for it to be what git, or FILEs (or directories), say.

    Without FILEs and REV it is held against the published revision, as the configured repository has it: what
    differs then was changed by hand. Ephemeral nodes do not count, nor do top-level nodes that are in no file. The
    strategy of rollouts is compared, too. The exit code is 0 when nothing would have to change, 4 when something
    would.

    \b
    Example:
      zkdeployment tree diff --config /etc/zkdeployment/zkdeployment.cfg
      zkdeployment tree diff --revision my-branch
      zkdeployment tree diff tree/
    """
    if files and revision is not None:
        raise click.UsageError("expected FILEs or --revision, not both")
    config: Path | None = click.get_current_context().params["config"]
    with open_operator(connection) as operator:
        if files:
            found: Sequence[SourceFile] = read_files(files)
        else:
            _, found = configured_revision(config, _published(operator) if revision is None else revision)
        live, change = _compare(operator, _checked(found))
        strategy = _compare_strategy(operator, found, whole=not files or is_whole_tree(files))
    if output == "table":
        for line in (*describe_change(change, live.tree), *strategy.describe()):
            echo(line)
    else:
        emit(
            {
                "create": change.create,
                "update": change.update,
                "delete": sorted(change.delete),
                "strategy": strategy.to_json() if strategy else None,
            },
            output,
            schema="tree-diff",
        )
    if change or strategy:
        raise click.exceptions.Exit(_DIFFERENT)


def _compare(operator: OperatorAdapters, merged: MergedTree) -> tuple[LiveTree, TreeChange]:
    live = operator.tree.live_tree()
    return live, diff(live.tree, desired_tree(live.tree, merged, pinned=live.pinned))


def _make(
    operator: OperatorAdapters, live: LiveTree, change: TreeChange, *, dry_run: bool, roles: Collection[str] = ()
) -> None:
    """Say what a change by hand does to the live tree, and do it."""
    for line in describe_change(change, live.tree):
        echo(line)
    if not dry_run:
        operator.tree.import_tree(change, roles=roles, versions=live.versions)


def _compare_strategy(operator: OperatorAdapters, files: Iterable[SourceFile], *, whole: bool) -> StrategyChange:
    """Hold the published strategy against that of the files; without one in a part of a tree it may stay."""
    documents = read_strategies(document_files(files))
    _refuse(documents.errors)
    published = operator.fleet.strategy()
    return StrategyChange(published, documents.strategy() if whole or documents.files else published)


def _parsed(files: Iterable[str]) -> Tree:
    """Read files as they stand; links may lead to nodes that are only live."""
    parsed = [parse_bytes(file.name, file.content) for file in tree_files(read_files(files))]
    merged = merge(parsed)
    _refuse([problem for file in parsed for problem in file.problems] + list(merged.problems))
    return merged.tree


def _published(operator: OperatorAdapters) -> Revision:
    """Return the revision that is wholly published; raises ``RefusedError`` if none is."""
    published = operator.fleet.snapshot().published
    if published is None:
        raise RefusedError(
            "no revision is wholly published, so there is none to compare with; give FILEs or --revision"
        )
    return published


def _checked(files: Sequence[SourceFile]) -> MergedTree:
    """Read files that are to be written, and refuse what the syncer would refuse."""
    linted = lint(files)
    _refuse(linted.problems)
    return linted.merged


def _refuse(problems: Iterable[Problem]) -> None:
    """Say what is wrong; errors end the command with 1."""
    errors = 0
    for problem in problems:
        echo(str(problem), err=True)
        errors += problem.severity is Severity.ERROR
    if errors:
        raise click.exceptions.Exit(1)


def _single(arguments: list[str]) -> str:
    """Return the one path among arguments without a slash at its end; none is the root."""
    if len(arguments) > 1:
        raise click.UsageError(f"expected one PATH, got {' '.join(arguments)}")
    return arguments[0].rstrip("/") if arguments else ""


def _print(nodes: Mapping[str, Properties], path: str, output: str) -> None:
    """Print a node and what is below it; as text under the bare nodes above it."""
    below = {found: nodes[found] for found in nodes if not path or found == path or found.startswith(f"{path}/")}
    if path and not below:
        raise TreeError(f"there is no node {path}")
    if output != "table":
        emit({found: below[found] for found in sorted(below)}, output)
        return
    names = path.split("/")
    above: dict[str, Properties] = {"/".join(names[:depth]): {} for depth in range(2, len(names))}
    if text := format_tree(Tree(above | below)):
        echo_lines(text.removesuffix("\n"))
