"""Following symbolic links and property links: in a tree, part by part, or with live reads.

A symbolic link is a property ``NAME ->`` that takes the place of a child; a property link is a property ``NAME
=>`` that takes the place of a property. A relative target starts at the node that contains the link. ``.`` and
``..`` are resolved before links are followed. A real child or property hides a link of its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import LinkError
from zkdeployment.base.source_files import Severity
from zkdeployment.base.values import dataclass
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Tree, node_name, top_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.base.json_values import Lookup, Properties, Value


#: The limit of links that are followed to one node or property.
MAX_HOPS = 64

#: The limit of characters of a path, also after following links.
MAX_PATH = 4096


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
        path = joined(node, parts[0])
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
    return _normal(joined(holder, target) + rest)


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


def joined(holder: str, target: str) -> str:
    """Return the path of a link's target, with ``holder``, the node of the link, before a relative one."""
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


#: The suffixes of the names of links, which have the same length.
_SUFFIXES = frozenset({SYMBOLIC_LINK, PROPERTY_LINK})
_LENGTH = len(SYMBOLIC_LINK)


class LinkFault(NamedTuple):
    """A faulty link, by the path of its node and its name.

    ``missing`` is the path that does not exist in the tree, or whose node lacks the property; ``None`` if the link
    is wrong in another way.
    """

    path: str
    name: str
    message: str
    severity: Severity = Severity.ERROR
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class PartLinks:
    """The links of one part of a tree.

    ``links`` has the node and the name of each link, ``faults`` the faulty links. ``seen`` has the paths of the
    parts of the tree that the result depends on, also of missing ones.
    """

    links: tuple[tuple[str, str], ...]
    faults: tuple[LinkFault, ...]
    seen: frozenset[str]


def follow_links(tree: Tree, before: Tree, known: Mapping[str, PartLinks]) -> dict[str, PartLinks]:
    """Return the links of each part of a tree, by its path.

    Of the ``known`` links of the tree ``before``, those are reused whose parts did not change.
    """
    changed = tree.changed_parts(before)
    return {
        top: links
        if (links := known.get(top)) is not None and links.seen.isdisjoint(changed)
        else _follow(tree, top)
        for top in tree.parts
    }


def relinked_nodes(before: Mapping[str, PartLinks], after: Mapping[str, PartLinks]) -> set[str]:
    """Return the nodes whose property links may have other values ``after`` a change of the tree."""
    return {
        path
        for top, links in after.items()
        if before.get(top) is not links
        for path, name in links.links
        if name.endswith(PROPERTY_LINK)
    }


def _follow(tree: Tree, top: str) -> PartLinks:
    part = tree.parts[top]
    links = tuple(
        (path, name)
        for path, properties in part.items()
        if properties
        for name in properties
        if name[-_LENGTH:] in _SUFFIXES
    )
    observed = _ObservedTree(tree, top)
    faults = (_fault(observed, path, name, part[path]) for path, name in links)
    return PartLinks(links, tuple(fault for fault in faults if fault is not None), frozenset(observed.seen))


class _ObservedTree:
    """A tree that records the parts in which nodes were looked up."""

    def __init__(self, tree: Tree, top: str) -> None:
        self._tree = tree
        self.seen = {top}

    def properties(self, path: str) -> Properties | None:
        """Return the properties of a node, or ``None`` if there is no such node."""
        self.seen.add(top_path(path))
        return self._tree.properties(path)


def _fault(tree: _ObservedTree, path: str, name: str, properties: Properties) -> LinkFault | None:
    """Follow a link and return its fault, if it has one."""
    base, target = name[:-_LENGTH], properties[name]
    try:
        if name.endswith(PROPERTY_LINK):
            property_value(tree.properties, path, base)
        elif not isinstance(target, str) or tree.properties(target) is None:  # most targets are paths of nodes
            resolve(tree.properties, f"{path}/{base}")
    except MissingTargetError as error:
        return LinkFault(path, name, str(error), missing=error.path)
    except LinkError as error:
        return LinkFault(path, name, str(error))
    hider = f"property {base}" if base in properties else ""
    if name.endswith(SYMBOLIC_LINK):
        hider = f"node {node_name(path)}/{base}" if tree.properties(f"{path}/{base}") is not None else ""
    return LinkFault(path, name, f"the link {name} is hidden by the {hider}", Severity.WARNING) if hider else None
