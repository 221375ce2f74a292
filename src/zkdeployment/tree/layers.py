"""Merging tree files: ``.zk`` files side by side, ``.zkx`` files over them, and both over the live tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zkdeployment.base.names import RESERVED
from zkdeployment.base.source_files import Problem
from zkdeployment.base.values import dataclass
from zkdeployment.tree.parse import ParsedFile  # noqa: TC001  the field type of a named tuple
from zkdeployment.tree.values import PROPERTY_LINK, SYMBOLIC_LINK, Nodes, Tree, node_name, parent_path, top_path

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Properties, Value

#: The paths of the reserved top-level nodes.
_RESERVED = frozenset(f"/{name}" for name in RESERVED)

#: File, line and column.
FilePlace: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The tree of all files.

    ``base`` contains the nodes of the ``.zk`` files, ``layer`` those of the ``.zkx`` files, ``tree`` the layer
    over the base. ``positions`` maps each node to the place of its first line, ``links`` each link to its last
    place. ``problems`` has only the problems of merging.
    """

    base: Tree
    layer: Tree
    tree: Tree
    positions: Mapping[str, FilePlace] = field(default_factory=dict)
    links: Mapping[tuple[str, str], FilePlace] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def merge(files: Sequence[ParsedFile]) -> MergedTree:
    """Merge files: first ``.zk`` files, then ``.zkx`` files, each kind in the given order."""
    used: list[_Used] = []
    positions = _Positions(used)
    problems: list[Problem] = []
    base: dict[str, Nodes] = {}
    layer = Tree({})
    for file in sorted(files, key=lambda file: file.is_layer):
        tree = file.tree
        if file.is_layer:
            layer = overlay(layer, tree)
        else:
            duplicates = _duplicates(file, base, positions)
            problems += duplicates
            tree = _without(tree, {problem.path or "" for problem in duplicates})
            base.update(tree.parts)
        used.append(_Used(file, tree))
    under = Tree.of_parts(base)
    whole = overlay(under, layer)
    return MergedTree(under, layer, whole, positions, _Links(used, whole), tuple(problems))


def overlay(tree: Tree, layer: Tree) -> Tree:
    """Return a tree with another tree laid over it, property by property.

    A node without properties in the layer keeps those of the tree. A property and a property link of one name
    replace each other.
    """
    if not layer.parts:
        return tree
    parts = dict(tree.parts)
    for top, over in layer.parts.items():
        parts[top] = _overlay_part(parts[top], over) if top in parts else over
    return Tree.of_parts(parts)


def _overlay_part(under: Nodes, over: Nodes) -> Nodes:
    nodes = dict(under)
    for path, properties in over.items():
        nodes[path] = _overlay_properties(nodes[path], properties) if path in nodes else properties
    return nodes


def desired_tree(
    live: Tree, merged: MergedTree, *, pinned: Collection[str] = frozenset(), pruned: Collection[str] = frozenset()
) -> Tree:
    """Return the tree that the live tree has to become.

    Top-level nodes of ``.zk`` files become equal to the files. Nodes that only ``.zkx`` files name are layered
    over the live nodes. All other top-level nodes stay, except for the ``pruned`` ones. ``pinned`` nodes (with
    ephemeral nodes below them) cannot be deleted: they keep their properties unless a layer names them. Reserved
    top-level nodes are omitted.
    """
    base, layer = without_reserved(merged.base), without_reserved(merged.layer)
    managed = {*merged.base.tops, *pruned, *_RESERVED}
    keep = {path for path in pinned if path in live and top_path(path) not in _RESERVED}
    for path in list(keep):
        above = parent_path(path)
        while above and above not in keep:
            keep.add(above)
            above = parent_path(above)
    parts = {top: part for top, part in live.parts.items() if top not in managed} | dict(base.parts)
    kept: dict[str, dict[str, Properties]] = {}
    for path in keep:
        if path not in layer and (top := top_path(path)) in managed:
            kept.setdefault(top, {})[path] = live.nodes[path]
    for top, part in kept.items():
        parts[top] = {**part, **parts.get(top, {})}
    return overlay(Tree.of_parts(parts), layer)


def without_reserved(tree: Tree) -> Tree:
    """Return a tree without the reserved top-level nodes."""
    return _without(tree, _RESERVED)


def select_tops(tree: Tree, tops: Collection[str]) -> Tree:
    """Return the part of a tree that consists of these top-level nodes."""
    return Tree.of_parts({top: part for top, part in tree.parts.items() if top in tops})


def lock_roles(tree: Tree) -> frozenset[str]:
    """Return the roles that need a node under ``/role-locks``: roles with a controller or with a bare node."""
    paths = (path for top in ("/roles", "/role-locks") for path in tree.parts.get(top, ()))
    return frozenset(node_name(path) for path in paths if path.count("/") == 2)


class _Used(NamedTuple):
    """A file and the part of its tree that is in the merged tree."""

    file: ParsedFile
    tree: Tree


class _Positions(Mapping[str, FilePlace]):
    """The places of the nodes of all files, computed on access, from the first file that has the node."""

    def __init__(self, used: Sequence[_Used]) -> None:
        self._used = used

    def __getitem__(self, path: str) -> FilePlace:
        for file, tree in self._used:
            if path in tree:
                return file.name, *file.positions[path]
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(path for used in self._used for path in used.tree))

    def __len__(self) -> int:
        return len(set().union(*(used.tree for used in self._used)))


class _Links(Mapping[tuple[str, str], FilePlace]):
    """The places of the links of a tree, computed on access, from the last file that has the link."""

    def __init__(self, used: Sequence[_Used], tree: Tree) -> None:
        self._used = used
        self._tree = tree

    def __getitem__(self, link: tuple[str, str]) -> FilePlace:
        path, name = link
        if name in (self._tree.properties(path) or ()):
            for file, tree in reversed(self._used):
                if path in tree and link in file.links:
                    return file.name, *file.links[link]
        raise KeyError(link)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        links = dict.fromkeys(link for used in self._used for link in used.file.links)
        return (link for link in links if link in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _duplicates(file: ParsedFile, base: Mapping[str, Nodes], positions: Mapping[str, FilePlace]) -> list[Problem]:
    duplicates = []
    for path in file.tree.tops:
        if path in base:
            first_file, first_line, _ = positions[path]
            line, column = file.positions[path]
            message = (
                f"the top-level node {path} is also in {first_file}:{first_line}; only one .zk file may have it"
            )
            duplicates.append(Problem(message, file.name, line, column, path))
    return duplicates


def _without(tree: Tree, tops: Collection[str]) -> Tree:
    if tree.parts.keys().isdisjoint(tops):
        return tree
    return Tree.of_parts({top: part for top, part in tree.parts.items() if top not in tops})


def _overlay_properties(under: Properties, over: Properties) -> Properties:
    replaced = {_base_name(name) for name in over}
    kept: dict[str, Value] = {name: value for name, value in under.items() if _base_name(name) not in replaced}
    return {**kept, **over}


def _base_name(name: str) -> str:
    return name if name.endswith(SYMBOLIC_LINK) else name.removesuffix(PROPERTY_LINK)
