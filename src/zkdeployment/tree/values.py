"""The tree: its nodes and properties, and changes of the tree in ZooKeeper.

Reading, comparing and checking trees belongs to the other modules of this package.
"""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import field
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Properties


#: Nodes by their path.
Nodes: TypeAlias = "Mapping[str, Properties]"

#: Encodes equal values in one way only. The encoder is made once, because making it takes longer than most of its
#: uses.
_encode_canonically = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

#: The suffixes of the names of links (the form of zc.zk, in text and in znodes alike).
SYMBOLIC_LINK = " ->"
PROPERTY_LINK = " =>"


def parent_path(path: str) -> str:
    """Return the path of the parent: ``/a/b`` → ``/a``; ``/a`` → the empty path, which is the root."""
    return path.rpartition("/")[0]


def node_name(path: str) -> str:
    """Return the last name of a path: ``/a/b`` → ``b``."""
    return path.rpartition("/")[2]


def top_path(path: str) -> str:
    """Return the path of the top-level node above a path, or that path itself: ``/a/b`` → ``/a``."""
    end = path.find("/", 1)
    return path if end < 0 else path[:end]


def is_below(path: str, above: str) -> bool:
    """Return whether a path is ``above``, or below it; the empty path is the root."""
    return not above or path == above or path.startswith(f"{above}/")


def properties_digest(properties: Properties) -> str:
    """Return the SHA-256, in hexadecimal digits, of the canonical JSON of a node's resolved properties.

    Properties that are stored alike in ZooKeeper have the same digest, in any order.
    """
    return hashlib.sha256(_encode_canonically(properties).encode("ascii")).hexdigest()


class Tree:
    """An immutable tree: ``nodes`` maps each path (``/a/b``) to its properties.

    ``nodes`` contains the parent of each node, except for the root. Two trees are equal if their nodes and
    properties are equal, in any order.

    ``parts`` are the nodes by the path of their top-level node. The trees of successive revisions share the parts
    that did not change, so a part that is the same object in both need not be examined again.
    """

    __slots__ = ("_children", "_nodes", "_parts", "_tops")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes: Nodes | None = nodes
        self._parts: Mapping[str, Nodes] | None = None
        self._children: dict[str, list[str]] | None = None
        self._tops: tuple[str, ...] | None = None

    @classmethod
    def of_parts(cls, parts: Mapping[str, Nodes]) -> Tree:
        """Return the tree that consists of these parts; none of them is empty."""
        tree = cls({})
        tree._nodes, tree._parts = None, parts
        return tree

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Tree):
            return self is other
        if self._parts is None or other._parts is None:
            return self.nodes == other.nodes
        return self._parts == other._parts

    def __hash__(self) -> int:
        return hash(frozenset(self.nodes))

    def __repr__(self) -> str:
        return f"Tree({dict(self.nodes)!r})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self._nodes) if self._nodes is not None else sum(map(len, self.parts.values()))

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.properties(path) is not None

    @property
    def nodes(self) -> Nodes:
        """All nodes; a tree of parts joins its parts at the first access."""
        if self._nodes is None:
            nodes: dict[str, Properties] = {}
            for part in self.parts.values():
                nodes.update(part)
            self._nodes = nodes
        return self._nodes

    @property
    def parts(self) -> Mapping[str, Nodes]:
        """The nodes by the path of their top-level node."""
        if self._parts is None:
            parts: dict[str, dict[str, Properties]] = {}
            for path, properties in self.nodes.items():
                parts.setdefault(top_path(path), {})[path] = properties
            self._parts = parts
        return self._parts

    @property
    def tops(self) -> tuple[str, ...]:
        """The paths of the top-level nodes."""
        if self._tops is None:
            self._tops = tuple(compress(self.parts, map(operator.contains, self.parts.values(), self.parts)))
        return self._tops

    def changed_parts(self, before: Tree) -> frozenset[str]:
        """Return the paths of the parts that are not the same objects in the tree ``before``, in either tree."""
        old, new = before.parts, self.parts
        renewed = compress(new, map(operator.is_not, new.values(), map(old.get, new)))
        return frozenset(renewed).union(old.keys() - new.keys())

    def properties(self, path: str) -> Properties | None:
        """Return the properties of a node with links unresolved, or ``None`` if there is no such node."""
        if self._nodes is not None:
            return self._nodes.get(path)
        return self.parts.get(top_path(path), {}).get(path)

    def children(self, path: str) -> Sequence[str]:
        """Return the names of a node's children (of the top-level nodes for the empty path), sorted."""
        if self._children is None:
            children: dict[str, list[str]] = {}
            for node in self.nodes:
                parent, _, name = node.rpartition("/")
                children.setdefault(parent, []).append(name)
            for names in children.values():
                names.sort()
            self._children = children
        return self._children.get(path, ())


@dataclass(frozen=True)
class TreeChange:
    """The difference between two trees: nodes to create or set with all their properties, and to delete.

    The order of application is: create parents before children, update, then delete children before parents.
    """

    create: Mapping[str, Properties] = field(default_factory=dict)
    update: Mapping[str, Properties] = field(default_factory=dict)
    delete: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    @property
    def paths(self) -> frozenset[str]:
        """The paths of all nodes that the change creates, updates or deletes."""
        return frozenset({*self.create, *self.update, *self.delete})


@dataclass(frozen=True)
class LiveTree:
    """A snapshot of the tree in ZooKeeper, without reserved top-level nodes and without ephemeral nodes.

    ``versions`` maps paths to data versions. ``pinned`` are the nodes with ephemeral nodes below them, which
    cannot be deleted.
    """

    tree: Tree
    versions: Mapping[str, int] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A snapshot of one node in ZooKeeper; ``children`` is the number of its children, ephemeral or not."""

    properties: Properties
    version: int
    children: int = 0
    ephemeral: bool = False
