"""What is not published unless an operator says so: history that goes back, and the end of much at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.cluster import is_commit
from zkdeployment.model.tree import PROPERTY_LINK, parent_path
from zkdeployment.planning.services import has_property

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publication import TreeChange
    from zkdeployment.model.tree import Tree
    from zkdeployment.planning.publishing import Standing

#: The part of the service nodes that may go at once; one of them always may, however few there are.
MOST_REMOVED = 0.3

_SHOWN = 5


def predecessor(standing: Standing) -> Revision | None:
    """Return the revision that the next one has to descend from; ``None`` if none is known to be published.

    Where a publication was interrupted it is that one's, else the published one, else the cluster version, else
    the last one that was published: a fleet that was stopped, and its tree changed by hand, tells nothing else.
    """
    cluster, published = standing.cluster, standing.published
    importing, version = (None, None) if cluster is None else (cluster.importing, cluster.version or None)
    known = [importing, published.revision, version, published.ordered]
    return next((one for one in known if isinstance(one, int) or is_commit(str(one))), None)


def rewind_refusal(tip: Revision, before: Revision, *, descends: bool) -> str | None:
    """Say why a tip would take history back, or nothing."""
    if descends:
        return None
    return (
        f"{tip} is not published: it does not descend from {before}, which is published; history was rewritten, or"
        " another branch or repository is read. If that is meant, use --allow-rewind"
    )


def date_refusal(tip: Revision, origin: Origin, before: Origin) -> str | None:
    """Say why a signed commit is dated back, or nothing.

    Whether a key is valid is judged at the date that the commit gives itself.
    """
    if origin.signer is None or origin.time >= before.time:
        return None
    return (
        f"{tip} is not published: it was signed by {origin.signer}, but its date is"
        f" {before.time - origin.time:.0f} s before that of the published commit; commit again"
    )


def removal_refusal(tip: Revision, before: Tree, change: TreeChange) -> str | None:
    """Say why a change of the tree ``before`` would end too many services at once, or nothing.

    Top-level nodes go only where somebody asked for that (``--prune``), so they do not count.
    """
    gone = sorted(path for path in {*_removed(before, change)} if f"/{path.split('/')[1]}" not in change.delete)
    if not gone:
        return None
    services = sum(
        1 for path in before.nodes if path.endswith("/deploy") and _is_service(before, parent_path(path))
    )
    if len(gone) <= max(1, MOST_REMOVED * services):
        return None
    listed = ", ".join(gone[:_SHOWN]) + (", …" if gone[_SHOWN:] else "")
    return (
        f"{tip} is not published: it would remove {len(gone)} of {services} service nodes ({listed}), more than"
        f" {MOST_REMOVED:.0%}; if that is meant, use --allow-mass-removal"
    )


def _removed(before: Tree, change: TreeChange) -> Iterator[str]:
    """Name the service nodes that a change makes an end of: all of it, its ``deploy`` node, or its type."""
    for path in change.delete:
        if _is_service(before, path):
            yield path
        elif path.endswith("/deploy") and _is_service(before, parent_path(path)):
            yield parent_path(path)
    for path, properties in change.update.items():
        if not {"type", "type" + PROPERTY_LINK} & properties.keys() and _is_service(before, path):
            yield path


def _is_service(tree: Tree, path: str) -> bool:
    return f"{path}/deploy" in tree.nodes and has_property(tree, path, "type")
