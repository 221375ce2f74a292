"""Changes of trees: the difference between two trees as text and as a change, and changes made by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError, TreeError
from zkdeployment.base.names import RESERVED, NameKind, name_problem
from zkdeployment.base.text import printable
from zkdeployment.tree.links import resolve
from zkdeployment.tree.values import (
    PROPERTY_LINK,
    SYMBOLIC_LINK,
    LiveTree,
    Tree,
    TreeChange,
    node_name,
    parent_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.base.json_values import Properties, Value


def format_tree(tree: Tree) -> str:
    """Return a tree as text that parses as the same tree.

    The order in each node is: properties, property links, symbolic links, children, each sorted. A live tree may
    contain names and link targets that the language does not allow. Their unprintable characters are escaped, so
    that each name stays on its line.
    """
    return "".join(f"{line}\n" for line in _lines(tree))


def format_property(name: str, value: Value) -> str:
    """Return a property or a link as a line of a tree text."""
    if _is_link(name):
        return printable(f"{name} {value}")
    return f"{printable(name)} = {format_value(value)}"


def format_value(value: Value) -> str:
    """Return a value as a literal, with the keys of dicts sorted."""
    match value:
        case dict():
            items = (f"{key!r}: {format_value(value[key])}" for key in sorted(value))
            return f"{{{', '.join(items)}}}"
        case list():
            return f"[{', '.join(format_value(item) for item in value)}]"
        case _:
            return repr(value)


def _lines(tree: Tree) -> Iterator[str]:
    # Not recursive: a live tree may be deeper than the limit of texts.
    waiting = [f"/{name}" for name in reversed(tree.children(""))]
    while waiting:
        path = waiting.pop()
        properties = tree.nodes[path]
        indent = "  " * (path.count("/") - 1)
        yield indent + _heading(path, properties)
        for name in sorted(properties, key=_property_order):
            if name != "type" or not _is_short_type(properties[name]):
                yield f"{indent}  {format_property(name, properties[name])}"
        waiting.extend(f"{path}/{name}" for name in reversed(tree.children(path)))


def _heading(path: str, properties: Properties) -> str:
    name = printable(path.rpartition("/")[2])
    type_ = properties.get("type")
    return f"/{name} : {type_}" if _is_short_type(type_) else f"/{name}"


def _is_short_type(value: Value) -> bool:
    """Whether a type can be written in the line of its node."""
    return isinstance(value, str) and value != "" and value == value.strip() and value.isprintable()


def _is_link(name: str) -> bool:
    return name.endswith((SYMBOLIC_LINK, PROPERTY_LINK))


def _property_order(name: str) -> tuple[int, str]:
    return (2 if name.endswith(SYMBOLIC_LINK) else 1 if name.endswith(PROPERTY_LINK) else 0), name


_SHOWN = 200

#: Types whose equal values have the same JSON; floats are not among them, because -0.0 equals 0.0.
_PLAIN = frozenset({str, int, bool, type(None)})


def diff(old: Tree, new: Tree) -> TreeChange:
    """Return the change that turns ``old`` into ``new``; parts that both trees share are not compared."""
    create: dict[str, Properties] = {}
    update: dict[str, Properties] = {}
    delete: set[str] = set()
    old_parts, new_parts = old.parts, new.parts
    for top in new.changed_parts(old):
        before, after = old_parts.get(top, {}), new_parts.get(top, {})
        for path, properties in after.items():
            if path not in before:
                create[path] = properties
            elif (before[path] or properties) and not stored_alike(before[path], properties):
                update[path] = properties
        delete |= before.keys() - after.keys()
    return TreeChange(create, update, frozenset(delete))


def apply_change(tree: Tree, change: TreeChange) -> Tree:
    """Return the tree after a change."""
    kept = {path: properties for path, properties in tree.nodes.items() if path not in change.delete}
    return Tree({**kept, **change.create, **change.update})


def stored_alike(old: Value | Properties, new: Value | Properties) -> bool:
    """Whether two values have the same JSON: 1, 1.0 and true are equal in Python, but not in JSON."""
    if old is new or old != new:
        return old is new
    if isinstance(old, dict) and isinstance(new, dict) and _is_plain(old, new):
        return True
    return repr(old) == repr(new) or json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _is_plain(old: Properties, new: Properties) -> bool:
    """Whether the types alone prove that equal properties have the same JSON: a fast test that mostly succeeds."""
    for name, value in new.items():  # a loop is fastest; this code runs for each node of the tree
        if type(value) not in _PLAIN or type(value) is not type(old[name]):
            return False
    return True


def describe_change(change: TreeChange, old: Tree) -> Iterator[str]:
    """Yield one line for each effect of a change on ``old``: nodes in tree order, then their properties."""
    for path in sorted({*change.create, *change.update, *change.delete}, key=lambda path: path.split("/")):
        if path in change.delete:
            yield f"delete {path}"
            continue
        if path in change.create:
            yield f"add {path}"
        new = change.create[path] if path in change.create else change.update[path]
        for line in _describe_properties(old.properties(path) or {}, new):
            yield f"{path} {line}"


def _describe_properties(old: Properties, new: Properties) -> Iterator[str]:
    for name in sorted({*old, *new}):
        kind = "link" if name.endswith(SYMBOLIC_LINK) else "property"
        if name not in new:
            yield f"remove {kind} {_shortened(format_property(name, old[name]))}"
        elif name not in old:
            yield f"add {kind} {_shortened(format_property(name, new[name]))}"
        elif not stored_alike(old[name], new[name]):
            was, becomes = _shortened(format_value(old[name])), _shortened(format_value(new[name]))
            yield f"change {kind} {name} from {was} to {becomes}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


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
