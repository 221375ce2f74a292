"""``zkdeployment tree``: verbs on the live tree without a publication, and the canonical form of tree files."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.agent.files.verified_properties import verified_properties
from zkdeployment.base.errors import ConfigurationError, RefusedError, TreeError
from zkdeployment.base.machine.files import replace
from zkdeployment.base.source_files import Problem, Severity, SourceFile, is_tree_file
from zkdeployment.base.text import counted
from zkdeployment.cli.files import is_whole_tree, looks_like_file, read_files
from zkdeployment.cli.options import (
    configured_revision,
    emit,
    node_path,
    output_option,
    require_path,
    zookeeper_options,
)
from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.terminal import echo, echo_lines
from zkdeployment.cli.verb_group import LazyVerbGroup
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.publishing.section import section
from zkdeployment.publishing.targets.compilation import withheld_after
from zkdeployment.strategies.documents import StrategyChange, strategy_in_force
from zkdeployment.tree.canonical import canonical_text
from zkdeployment.tree.diff import describe_change, diff, format_tree, link_change, removal_change
from zkdeployment.tree.layers import MergedTree, desired_tree, lock_roles, merge
from zkdeployment.tree.links import property_value, resolved_properties
from zkdeployment.tree.lint import lint, tree_files
from zkdeployment.tree.parse import parse_bytes
from zkdeployment.tree.values import LiveTree, Tree, TreeChange

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.json_values import Lookup, Properties
    from zkdeployment.zookeeper.servers import Servers


_VERBS = {
    "diff": LazyVerb(".cli.verbs.tree", "Compare the live tree with git or with files.", "diff_tree"),
    "export": LazyVerb(".cli.verbs.tree", "Print the live tree as text without ephemeral nodes.", "export"),
    "fmt": LazyVerb(".cli.verbs.tree", "Write tree files in their canonical form.", "fmt"),
    "get": LazyVerb(".cli.verbs.tree", "Print properties of a node as JSON.", "get"),
    "import": LazyVerb(".cli.verbs.tree", "Change the live tree to the content of files.", "import_"),
    "ln": LazyVerb(".cli.verbs.tree", "Make a symbolic link in the live tree.", "ln"),
    "rm": LazyVerb(".cli.verbs.tree", "Remove a node or a symbolic link from the live tree.", "rm"),
    "show": LazyVerb(".cli.verbs.tree", "Show the live tree, or the tree of files.", "show"),
}


@click.group(name="tree", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Show, read, compare and change the tree, and format its files.

    \b
    Example:
      zkdeployment tree show /shop
      zkdeployment tree get /shop/web version
      zkdeployment tree diff tree/
    """


def parse_files(files: Sequence[SourceFile]) -> Tree:
    """Return the merged tree of files; links may lead to nodes that only the live tree has."""
    parsed = [parse_bytes(file.name, file.content) for file in tree_files(files)]
    merged = merge(parsed)
    refuse_errors([problem for file in parsed for problem in file.problems] + list(merged.problems))
    return merged.tree


def check_files(files: Sequence[SourceFile]) -> MergedTree:
    """Return the merged tree of files that the syncer would accept."""
    linted = lint(files)
    refuse_errors(linted.problems)
    return linted.merged


def refuse_errors(problems: Iterable[Problem]) -> None:
    """Print the problems on standard error; end the command with exit code 1 if one of them is an error."""
    errors = 0
    for problem in problems:
        echo(str(problem), err=True)
        errors += problem.severity is Severity.ERROR
    if errors:
        raise click.exceptions.Exit(1)


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
@click.argument("path", default="", callback=node_path)
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
@click.argument("names", metavar="[FILE]...", nargs=-1)
@click.option("--check", is_flag=True, help="Change no file; print the names of the files that would change.")
def fmt(names: tuple[str, ...], *, check: bool) -> None:
    """Write tree files in their canonical form, and print the names of those that change.

    FILE is a tree file, or a directory with *.zk and *.zkx files; the default is the current directory. With "-",
    the text on standard input is formatted to standard output.

    The form decides about indentation (two blanks for each level), blanks, blank lines, quotes and line ends.
    Comments, the order of lines and the meaning of the tree stay. A file with errors is reported and not changed,
    and the exit code is then 1. With --check, the exit code is 4 if files would change.

    \b
    Example:
      zkdeployment tree fmt
      zkdeployment tree fmt --check tree/
      git show HEAD:web.zk | zkdeployment tree fmt -
    """
    files = _files_to_format(names)
    parsed = [parse_bytes(file.name, file.content) for file in files]
    valid = [file for file, read in zip(files, parsed, strict=True) if not read.problems]
    texts = {file: canonical_text(file.content.decode("utf-8-sig")).encode() for file in valid}
    changed = [file for file in valid if texts[file] != file.content]
    if names == (_STDIN,) and not check:
        sys.stdout.buffer.write(b"".join(texts.values()))
    else:
        for file in changed:
            if not check:
                _rewrite(Path(file.name), texts[file])
            echo(file.name)
        done = "not in the canonical form" if check else "changed"
        echo(f"{counted(len(files), 'file')}, {len(changed)} {done}", err=True)
    refuse_errors([problem for read in parsed for problem in read.problems])
    if changed and check:
        raise click.exceptions.Exit(_DIFFERENT)


#: The name that stands for standard input.
_STDIN = "-"


def _files_to_format(names: tuple[str, ...]) -> list[SourceFile]:
    """Return the named tree files and those in named directories, each once, or the text on standard input."""
    if names == (_STDIN,):
        return [SourceFile("<stdin>", sys.stdin.buffer.read())]
    for name in names:
        if not is_tree_file(name) and not Path(name).is_dir():
            expected = f"expected *.zk, *.zkx, a directory with such files, or {_STDIN} alone"
            raise click.BadParameter(f"{name} is not a tree file: {expected}")
    files = tree_files(dict.fromkeys(read_files(names or (".",))))
    if not files:
        shown = " ".join(names or (".",))
        raise click.BadParameter(f"no tree file found in {shown}: expected at least one *.zk or *.zkx")
    return files


def _rewrite(path: Path, content: bytes) -> None:
    """Replace a file, or the target of a symbolic link, and keep its mode."""
    try:
        path = path.resolve()
        replace(path, content, mode=stat.S_IMODE(path.stat().st_mode))
    except OSError as error:
        raise ConfigurationError(f"cannot write {error.filename or path}: {error.strerror}") from error


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
    return require_path(arguments[0]).rstrip("/") if arguments else ""


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


_DIFFERENT = 4


@click.command(name="diff")
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option("--revision", metavar="REV", help="A branch or a commit of the configured repository.")
@output_option
@zookeeper_options
def diff_tree(connection: Servers, files: tuple[str, ...], revision: str | None, output: str) -> None:
    """Show the changes that would turn the live tree into the tree of git, or of FILEs (or directories).

    Without FILEs and REV, the live tree is compared with the published revision in the configured repository: each
    difference is then a change by hand. Ephemeral nodes and top-level nodes that are in no file are ignored. The
    rollout strategy is compared, too. The exit code is 0 if there are no differences, 4 if there are.

    \b
    Example:
      zkdeployment tree diff --config /etc/zkdeployment/zkdeployment.cfg
      zkdeployment tree diff --revision my-branch
      zkdeployment tree diff tree/
    """
    if files and revision is not None:
        raise click.UsageError("expected FILEs or --revision, found both")
    config: Path | None = click.get_current_context().params["config"]
    with open_operator(connection) as operator:
        if files:
            sources: Sequence[SourceFile] = read_files(files)
        else:
            _, sources = configured_revision(config, _published(operator) if revision is None else revision)
        live = operator.tree.live_tree()
        change = diff(live.tree, desired_tree(live.tree, check_files(sources), pinned=live.pinned))
        strategy = _compare_strategy(operator, sources, whole=not files or is_whole_tree(files))
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


def _compare_strategy(operator: OperatorAdapters, files: Iterable[SourceFile], *, whole: bool) -> StrategyChange:
    """Return the change of the published strategy; files that are a part of a tree may omit it."""
    documents = read_documents(document_files(files))
    refuse_errors(documents.errors)
    published = operator.fleet.strategy()
    return StrategyChange(published, strategy_in_force(documents) if whole or documents.files else published)


def _published(operator: OperatorAdapters) -> Revision:
    """Return the completely published revision; raises ``RefusedError`` if it does not exist."""
    published = operator.fleet.snapshot().published
    if published is None:
        raise RefusedError("there is no completely published revision to compare with; give FILEs or --revision")
    return published


_SIGNED = (
    "warning: the publications of this fleet are signed: hosts with publishers deploy nothing from a live tree"
    " that was changed by hand, until the next publication"
)

_dry_run_option = click.option("-n", "--dry-run", is_flag=True, help="Print the changes without making them.")


@click.command(name="import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_dry_run_option
@zookeeper_options
def import_(connection: Servers, files: tuple[str, ...], dry_run: bool) -> None:
    """Change the live tree to the content of FILEs (or directories), without a new version.

    Top-level nodes of *.zk files are replaced by the content of the files; *.zkx files only add and change
    properties and nodes. An import makes no host deploy. The live tree then differs from the published tree, so a
    plain resume is refused until the next publication. Services that the published intents withhold stay withheld,
    also for targets that the import adds. For daily work push to the tree's repository instead. A large import
    holds the fleet while it runs; if it is killed, until the next publication.

    \b
    Example:
      zkdeployment tree import --dry-run web.zk
    """
    merged = check_files(read_files(files))
    with open_operator(connection) as operator:
        live = operator.tree.live_tree()
        change = diff(live.tree, desired_tree(live.tree, merged, pinned=live.pinned))
        _apply(operator, live, change, dry_run=dry_run, roles=lock_roles(merged.tree))


@click.command()
@click.argument("path", callback=node_path)
@_dry_run_option
@zookeeper_options
def rm(connection: Servers, path: str, dry_run: bool) -> None:
    """Remove the live subtree at PATH, or the symbolic link at PATH, without a new version.

    A subtree with registered instances is not removed. The live tree then differs from the published tree: the
    next publication restores the content of the tree's files.

    \b
    Example:
      zkdeployment tree rm --dry-run /shop/old
    """
    with open_operator(connection) as operator:
        live = operator.tree.live_tree()
        _apply(operator, live, removal_change(live, path), dry_run=dry_run)


@click.command()
@click.argument("target")
@click.argument("link", callback=node_path)
@_dry_run_option
@zookeeper_options
def ln(connection: Servers, target: str, link: str, dry_run: bool) -> None:
    """Make LINK a symbolic link to TARGET in the live tree, without a new version.

    A LINK that ends with a slash is given TARGET's name. An existing link is changed. TARGET must exist and may be
    relative to the node of the link. The live tree then differs from the published tree: the next publication
    restores the content of the tree's files.

    \b
    Example:
      zkdeployment tree ln /databases/main /shop/web/database
    """
    with open_operator(connection) as operator:
        live = operator.tree.live_tree()
        _apply(operator, live, link_change(live.tree, target, link), dry_run=dry_run)


def _apply(
    operator: OperatorAdapters, live: LiveTree, change: TreeChange, *, dry_run: bool, roles: Collection[str] = ()
) -> None:
    """Print a change of the live tree, and make it unless this is a dry run."""
    if change and operator.tree.is_signed():
        echo(_SIGNED, err=True)
    for line in describe_change(change, live.tree):
        echo(line)
    if not dry_run:
        published = section().governance(operator.fleet.documents(), operator.fleet.left())
        withheld = withheld_after(live.tree, change, published)
        operator.tree.import_tree(change, roles=roles, versions=live.versions, withheld=withheld)
