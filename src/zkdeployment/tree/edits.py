"""Changes of the live tree by hand: removing what is at a path, and linking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError, TreeError
from zkdeployment.model.names import RESERVED, NameKind, name_problem
from zkdeployment.model.publication import TreeChange
from zkdeployment.model.tree import SYMBOLIC_LINK, Tree, node_name, parent_path
from zkdeployment.tree.links import resolve

if TYPE_CHECKING:
    from zkdeployment.model.publication import LiveTree


def removal_change(live: LiveTree, path: str) -> TreeChange:
    """Return what removes the node at ``path`` with all below it, or the symbolic link that stands there.

    Raises ``TreeError`` if there is neither, ``RefusedError`` for what is not to be removed by hand.
    """
    path = _own(path)
    properties = live.tree.properties(parent_path(path)) or {}
    link = node_name(path) + SYMBOLIC_LINK
    if path in live.pinned:
        raise RefusedError(f"instances are registered below {path}; end them first")
    if path in live.tree:
        return TreeChange(delete=frozenset(one for one in live.tree if one == path or one.startswith(f"{path}/")))
    if link not in properties:
        raise TreeError(f"there is no node {path} and no link (what is registered goes with its process)")
    return TreeChange(update={parent_path(path): {name: properties[name] for name in properties if name != link}})


def link_change(tree: Tree, target: str, link: str) -> TreeChange:
    """Return what makes ``link`` a symbolic link to ``target``, instead of the one that stands there, if any.

    A ``link`` with a slash at its end gets the target's name. Raises ``TreeError`` if the target, or the node that
    is to hold the link, is not there, or a node hides the link; ``RefusedError`` for reserved nodes.
    """
    path = _own(link.rstrip("/") + f"/{node_name(target.rstrip('/'))}" if link.endswith("/") else link)
    holder, name = parent_path(path), node_name(path)
    wrong = name_problem(NameKind.PROPERTY, name)
    if wrong is not None:
        raise TreeError(f"{path}: {wrong}")
    properties = tree.properties(holder)
    if properties is None:
        raise TreeError(f"there is no node {holder or '/'} that could hold the link {name}")
    if path in tree:
        raise TreeError(f"there is a node {path}: it would hide the link")
    linked = Tree({**tree.nodes, holder: {**properties, name + SYMBOLIC_LINK: target}})
    resolve(linked.properties, path)
    return TreeChange(update={holder: linked.nodes[holder]})


def _own(path: str) -> str:
    """Return a path of the tree's own, without slashes at its end."""
    path = path.rstrip("/")
    if path and not path.startswith("/"):
        raise TreeError(f"{path!a} is not the path of a node: it must start with /")
    if not path or path.split("/")[1] in RESERVED:
        raise RefusedError(f"{path or '/'} is not to be changed by hand; expected the path of a node of the tree")
    return path
