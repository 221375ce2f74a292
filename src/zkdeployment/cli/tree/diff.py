"""``zkdeployment tree diff``: the differences between the live tree and git or files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.files import is_whole_tree, read_files
from zkdeployment.cli.shared.options import configured_revision, emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.cli.tree.files import check_files, refuse_errors
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.documents.strategies.changes import StrategyChange
from zkdeployment.errors import RefusedError
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.layers import desired_tree
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.ports.operator import OperatorAdapters

_DIFFERENT = 4


@click.command(name="diff")
@click.argument("files", metavar="[FILE...]", nargs=-1)
@click.option("--revision", metavar="REV", help="A branch or a commit of the configured repository.")
@output_option
@zookeeper_options
def command(connection: Servers, files: tuple[str, ...], revision: str | None, output: str) -> None:
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
    """Return the change of the published strategy; files that are a part of a tree may leave it out."""
    documents = read_documents(document_files(files))
    refuse_errors(documents.errors)
    published = operator.fleet.strategy()
    return StrategyChange(published, documents.strategy() if whole or documents.files else published)


def _published(operator: OperatorAdapters) -> Revision:
    """Return the revision that was published completely; raises ``RefusedError`` if it does not exist."""
    published = operator.fleet.snapshot().published
    if published is None:
        raise RefusedError("there is no completely published revision to compare with; give FILEs or --revision")
    return published
