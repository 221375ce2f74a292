"""Follows the links of a tree, part by part: those of a part are followed again only if what they see changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.errors import LinkError
from zkdeployment.model.problem import Severity
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK, node_name, top_path
from zkdeployment.tree.links import MissingTargetError, property_value, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.tree import Nodes, Properties, Tree

#: The suffixes of the names of links, which have the same length.
_SUFFIXES = frozenset({SYMBOLIC_LINK, PROPERTY_LINK})
_LENGTH = len(SYMBOLIC_LINK)


class LinkFault(NamedTuple):
    """A link, by the path of its node and its name, that leads nowhere or is hidden.

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

    ``links`` are their nodes and names, ``faults`` their problems. ``seen`` are the parts of the tree that the
    result depends on, by their path; ``None`` stands for a part that does not exist.
    """

    links: tuple[tuple[str, str], ...]
    faults: tuple[LinkFault, ...]
    seen: Mapping[str, Nodes | None]

    def holds_for(self, tree: Tree) -> bool:
        """Whether following the links in a tree would give the same again."""
        parts = tree.parts
        return all(parts.get(top) is part for top, part in self.seen.items())


def follow_links(tree: Tree, known: Mapping[str, PartLinks]) -> dict[str, PartLinks]:
    """Return the links of each part of a tree, by its path; those that are ``known`` and still hold are reused."""
    return {
        top: before if (before := known.get(top)) is not None and before.holds_for(tree) else _follow(tree, top)
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
    return PartLinks(links, tuple(fault for fault in faults if fault is not None), observed.seen)


class _ObservedTree:
    """A tree that records from which parts nodes were looked up."""

    def __init__(self, tree: Tree, top: str) -> None:
        self._parts = tree.parts
        self.seen: dict[str, Nodes | None] = {top: tree.parts[top]}

    def properties(self, path: str) -> Properties | None:
        """Return the properties of a node, or ``None`` if there is no such node."""
        top = top_path(path)
        part = self.seen[top] = self._parts.get(top)
        return None if part is None else part.get(path)


def _fault(tree: _ObservedTree, path: str, name: str, properties: Properties) -> LinkFault | None:
    """Follow a link and return what is wrong with it."""
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
