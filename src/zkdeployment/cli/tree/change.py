"""``zkdeployment tree import|rm|ln``: verbs that change the live tree without a publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.files import read_files
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.cli.tree.files import check_files
from zkdeployment.planning.targets.compilation import withheld_after
from zkdeployment.planning.targets.governance import published_governance
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.edits import link_change, removal_change
from zkdeployment.tree.layers import desired_tree, lock_roles
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.model.publishing.tree_change import LiveTree, TreeChange
    from zkdeployment.model.servers import Servers
    from zkdeployment.ports.operator import OperatorAdapters

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
@click.argument("path")
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
@click.argument("link")
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
        published = published_governance(operator.fleet.documents(), operator.intents.left())
        withheld = withheld_after(live.tree, change, published)
        operator.tree.import_tree(change, roles=roles, versions=live.versions, withheld=withheld)
