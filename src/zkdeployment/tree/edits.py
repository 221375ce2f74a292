"""Manual changes of the live tree: the removal of a node or a link, and the creation of a link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError, TreeError
from zkdeployment.base.names import RESERVED, NameKind, name_problem
from zkdeployment.tree.links import resolve
from zkdeployment.tree.values import SYMBOLIC_LINK, Tree, TreeChange, node_name, parent_path

if TYPE_CHECKING:
    from zkdeployment.tree.values import LiveTree


def removal_change(live: LiveTree, path: str) -> TreeChange:
    """Return the change that removes the node at ``path`` with its descendants, or the symbolic link at ``path``.

    Raises ``TreeError`` if there is neither, ``RefusedError`` for reserved nodes and for nodes with instances.
    """
    path = _editable_path(path)
    properties = live.tree.properties(parent_path(path)) or {}
    link = node_name(path) + SYMBOLIC_LINK
    if path in live.pinned:
        raise RefusedError(f"instances are registered below {path}; stop them first")
    if path in live.tree:
        return TreeChange(
            delete=frozenset(node for node in live.tree if node == path or node.startswith(f"{path}/"))
        )
    if link not in properties:
        raise TreeError(f"there is no node {path} and no link (registered instances end with their process)")
    return TreeChange(update={parent_path(path): {name: properties[name] for name in properties if name != link}})


def link_change(tree: Tree, target: str, link: str) -> TreeChange:
    """Return the change that makes ``link`` a symbolic link to ``target``; an existing link is replaced.

    A ``link`` that ends with a slash gets the name of the target. Raises ``TreeError`` if the target or the parent
    node of the link does not exist, or if a node would hide the link; ``RefusedError`` for reserved nodes.
    """
    path = _editable_path(link.rstrip("/") + f"/{node_name(target.rstrip('/'))}" if link.endswith("/") else link)
    holder, name = parent_path(path), node_name(path)
    problem = name_problem(NameKind.PROPERTY, name)
    if problem is not None:
        raise TreeError(f"{path}: {problem}")
    properties = tree.properties(holder)
    if properties is None:
        raise TreeError(f"there is no node {holder or '/'} that could hold the link {name}")
    if path in tree:
        raise TreeError(f"there is a node {path}: it would hide the link")
    linked = Tree({**tree.nodes, holder: {**properties, name + SYMBOLIC_LINK: target}})
    resolve(linked.properties, path)
    return TreeChange(update={holder: linked.nodes[holder]})


def _editable_path(path: str) -> str:
    """Return a path of a node that may be edited, without trailing slashes."""
    path = path.rstrip("/")
    if path and not path.startswith("/"):
        raise TreeError(f"{path!a} is not the path of a node: expected a path that begins with /")
    if not path or path.split("/")[1] in RESERVED:
        raise RefusedError(f"{path or '/'} cannot be changed manually; expected the path of a node of the tree")
    return path
