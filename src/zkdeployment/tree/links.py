"""Following symbolic links and property links, in a tree or with live reads.

A symbolic link is a property ``NAME ->`` that takes the place of a child; a property link is a property ``NAME
=>`` that takes the place of a property. A relative target starts at the node that contains the link. ``.`` and
``..`` are resolved before links are followed. A real child or property hides a link of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.errors import LinkError
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.model.tree import Properties, Value

#: The limit of links that are followed to one node or property.
MAX_HOPS = 64

#: The limit of characters of a path, also after following links.
MAX_PATH = 4096

#: Returns the written form of a node's properties, or ``None`` if there is no such node.
Lookup: TypeAlias = "Callable[[str], Properties | None]"


class MissingTargetError(LinkError):
    """A broken link; ``path`` is the node that does not exist, or that lacks the property."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def resolve(lookup: Lookup, path: str) -> str:
    """Return the path of an existing node after following all symbolic links in ``path``.

    The root is the empty path. Raises ``LinkError``.
    """
    return _find(lookup, path)[0]


def property_value(lookup: Lookup, path: str, name: str) -> Value:
    """Return the value of a node's property, following symbolic links and property links. Raises ``LinkError``."""
    return property_source(lookup, path, name)[2]


def property_source(lookup: Lookup, path: str, name: str) -> tuple[str, str, Value]:
    """Return the node and the name of the property that all links lead to, and its value. Raises ``LinkError``."""
    followed: list[str] = []
    while True:
        node, properties = _find(lookup, path)
        followed.append(f"{node or '/'} {name}")
        _check_hops(followed)
        if name in properties:
            return node, name, properties[name]
        target = properties.get(name + PROPERTY_LINK)
        if target is None:
            raise MissingTargetError(f"{_chain(followed)}: {node or '/'} has no property {name}", node)
        parts = target.split() if isinstance(target, str) else []
        if not 1 <= len(parts) <= 2:
            raise LinkError(f"{_chain(followed)}: expected PATH [PROPERTY], found {target!a}")
        path = _join(node, parts[0])
        name = parts[-1] if len(parts) == 2 else name


def resolved_properties(lookup: Lookup, path: str) -> dict[str, Value]:
    """Return a node's properties with each property link replaced by the value of its target.

    Symbolic links stay unchanged. Raises ``LinkError``.
    """
    node, properties = _find(lookup, path)
    resolved: dict[str, Value] = {}
    for key, value in properties.items():
        name = key.removesuffix(PROPERTY_LINK)
        if name == key:
            resolved[key] = value
        elif name not in properties:
            resolved[name] = property_value(lookup, node, name)
    return resolved


def _find(lookup: Lookup, path: str) -> tuple[str, Properties]:
    """Return the path of a node without links, and its properties."""
    followed = [_normal(path)]
    while True:
        path = followed[-1]
        if not path:
            return path, {}
        properties = lookup(path)
        if properties is not None:
            return path, properties
        followed.append(_next(lookup, followed))
        _check_hops(followed)


def _next(lookup: Lookup, followed: Sequence[str]) -> str:
    """Return the last path with its first missing node replaced by the target of the link in its place."""
    holder, rest = followed[-1], ""
    while True:
        holder, _, name = holder.rpartition("/")
        properties = lookup(holder) if holder else {}
        if properties is not None:
            break
        rest = f"/{name}{rest}"
    target = properties.get(name + SYMBOLIC_LINK)
    if target is None:
        missing = f"{holder}/{name}"
        via = "" if followed == [missing] else f"{_chain(followed)}: "
        raise MissingTargetError(f"{via}there is no node {missing}", missing)
    if not isinstance(target, str) or not target:
        raise LinkError(f"{holder}: the link {name} -> {target!a} is not a path")
    return _normal(_join(holder, target) + rest)


def _normal(path: str) -> str:
    """Return a path without ``.``, ``..`` and empty names; the root is the empty path."""
    if not path.startswith("/"):
        raise LinkError(f"{path!a} is not the path of a node: expected a path that begins with /")
    if len(path) > MAX_PATH:
        raise LinkError(f"{path[:60]}... has {len(path)} characters; expected at most {MAX_PATH}")
    names: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not names:
                raise LinkError(f"{path} leads out of the tree")
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    return "".join(f"/{name}" for name in names)


def _join(holder: str, target: str) -> str:
    return target if target.startswith("/") else f"{holder}/{target}"


def _check_hops(followed: Sequence[str]) -> None:
    last = followed[-1]
    if last in followed[:-1]:
        raise LinkError(f"links in a circle: {_chain(followed[followed.index(last) :])}")
    if len(followed) > MAX_HOPS + 1:
        raise LinkError(f"more than {MAX_HOPS} links to follow: {_chain(followed)}")


def _chain(followed: Sequence[str]) -> str:
    shown = [step or "/" for step in followed]
    if len(shown) > 8:
        shown = [*shown[:4], "...", *shown[-2:]]
    return " -> ".join(step if len(step) <= 200 else step[:197] + "..." for step in shown)
