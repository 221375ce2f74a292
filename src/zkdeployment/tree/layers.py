"""Merging tree files: ``.zk`` files side by side, ``.zkx`` files over them, and both over the live tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zkdeployment.model.names import RESERVED
from zkdeployment.model.problem import Problem
from zkdeployment.model.tree import PROPERTY_LINK, SYMBOLIC_LINK, Properties, Tree, node_name, parent_path
from zkdeployment.tree.parse import ParsedFile  # noqa: TC001  the field type of a named tuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from zkdeployment.model.tree import Value

#: File, line and column.
FilePlace: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The tree of all files.

    ``base`` contains the nodes of the ``.zk`` files, ``layer`` those of the ``.zkx`` files, ``tree`` the layer
    over the base. ``positions`` maps each node to the place of its first line, ``links`` each link to its last
    place. ``problems`` are only those of merging.
    """

    base: Tree
    layer: Tree
    tree: Tree
    positions: Mapping[str, FilePlace] = field(default_factory=dict)
    links: Mapping[tuple[str, str], FilePlace] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def merge(files: Sequence[ParsedFile]) -> MergedTree:
    """Merge files: first ``.zk`` files, then ``.zkx`` files, each kind in the given order."""
    parts: list[_Part] = []
    positions = _Positions(parts)
    links: dict[tuple[str, str], FilePlace] = {}
    problems: list[Problem] = []
    base: dict[str, Properties] = {}
    tops: list[str] = []
    layer = Tree({})
    for file in sorted(files, key=lambda file: file.is_layer):
        if file.is_layer:
            layer = overlay(layer, file.tree)
            kept = file.tree.nodes
        else:
            duplicates = _duplicates(file, base, positions)
            problems += duplicates
            kept = _without(file.tree.nodes, {problem.path or "" for problem in duplicates})
            base.update(kept)
            tops += [top for top in file.tree.tops if top in kept]
        parts.append(_Part(file, kept))
        for link, (line, column) in file.links.items():
            if link[0] in kept:
                links[link] = (file.name, line, column)
    under = Tree(base, tops)
    tree = overlay(under, layer)
    links = {(path, name): place for (path, name), place in links.items() if name in tree.nodes[path]}
    return MergedTree(under, layer, tree, positions, links, tuple(problems))


def overlay(tree: Tree, layer: Tree) -> Tree:
    """Return a tree with another tree laid over it, property by property.

    A node without properties in the layer keeps those of the tree. A property and a property link of one name
    replace each other.
    """
    if not layer.nodes:
        return tree
    nodes = dict(tree.nodes)
    for path, properties in layer.nodes.items():
        nodes[path] = _overlay_properties(nodes[path], properties) if path in nodes else properties
    return Tree(nodes)


def desired_tree(
    live: Tree, merged: MergedTree, *, pinned: Collection[str] = frozenset(), pruned: Collection[str] = frozenset()
) -> Tree:
    """Return the tree that the live tree has to become.

    Top-level nodes of ``.zk`` files become equal to the files. Those that only ``.zkx`` files name are layered
    over the live nodes. All other top-level nodes stay, except for the ``pruned`` ones. ``pinned`` nodes (with
    ephemeral nodes below them) cannot be deleted: they keep their properties unless a layer names them. Reserved
    top-level nodes are omitted.
    """
    managed = {path[1:] for path in (*merged.base.tops, *pruned)} | RESERVED
    others = {path[1:] for path in live.tops} - managed
    keep = {path for path in pinned if path in live.nodes and _top(path) not in RESERVED}
    for path in list(keep):
        above = parent_path(path)
        while above and above not in keep:
            keep.add(above)
            above = parent_path(above)
    base, layer = without_reserved(merged.base), without_reserved(merged.layer)
    if keep or others:  # usually there are none, and the files alone make the tree
        unnamed = keep - layer.nodes.keys()
        kept = {
            path: properties
            for path, properties in live.nodes.items()
            if path in unnamed or _top(path) not in managed
        }
        base = Tree({**kept, **base.nodes})
    return overlay(base, layer)


def without_reserved(tree: Tree) -> Tree:
    """Return a tree without the reserved top-level nodes."""
    kept = _without(tree.nodes, {f"/{name}" for name in RESERVED})
    return tree if kept is tree.nodes else Tree(kept)


def select_tops(tree: Tree, tops: Collection[str]) -> Tree:
    """Return the part of a tree in these top-level nodes."""
    return Tree({path: properties for path, properties in tree.nodes.items() if f"/{_top(path)}" in tops})


def lock_roles(tree: Tree) -> frozenset[str]:
    """Return the roles that need a node under ``/role-locks``: roles with a controller or with a bare node."""
    if "/roles" not in tree and "/role-locks" not in tree:
        return frozenset()
    return frozenset(
        node_name(path)
        for path in tree.nodes
        if path.startswith(("/roles/", "/role-locks/")) and path.count("/") == 2
    )


class _Part(NamedTuple):
    """A file and those of its nodes that are part of the merged tree."""

    file: ParsedFile
    nodes: Mapping[str, Properties]


class _Positions(Mapping[str, FilePlace]):
    """The places of the nodes of all files, computed on access, from the first file that has the node."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts

    def __getitem__(self, path: str) -> FilePlace:
        for file, nodes in self._parts:
            if path in nodes:
                return file.name, *file.positions[path]
        raise KeyError(path)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(path for part in self._parts for path in part.nodes))

    def __len__(self) -> int:
        return len(set().union(*(part.nodes for part in self._parts)))


def _duplicates(
    file: ParsedFile, base: Mapping[str, Properties], positions: Mapping[str, FilePlace]
) -> list[Problem]:
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


def _without(nodes: Mapping[str, Properties], tops: Collection[str]) -> Mapping[str, Properties]:
    if not any(top in nodes for top in tops):
        return nodes
    return {path: properties for path, properties in nodes.items() if f"/{_top(path)}" not in tops}


def _overlay_properties(under: Properties, over: Properties) -> Properties:
    replaced = {_base_name(name) for name in over}
    kept: dict[str, Value] = {name: value for name, value in under.items() if _base_name(name) not in replaced}
    return {**kept, **over}


def _base_name(name: str) -> str:
    return name if name.endswith(SYMBOLIC_LINK) else name.removesuffix(PROPERTY_LINK)


def _top(path: str) -> str:
    return path.split("/", 2)[1]
