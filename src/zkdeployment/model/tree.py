"""The tree: a value for the nodes and properties that git holds as text and ZooKeeper as znodes.

Reading, comparing and checking trees belongs to ``zkdeployment.tree``.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: The value of a property: any JSON value.
Value: TypeAlias = bool | int | float | str | list["Value"] | dict[str, "Value"] | None
Properties: TypeAlias = "Mapping[str, Value]"

#: The suffixes of the names of links (the form of zc.zk, in text and in znodes alike).
SYMBOLIC_LINK = " ->"
PROPERTY_LINK = " =>"


def parent_path(path: str) -> str:
    """Return the path of the parent: ``/a/b`` → ``/a``; ``/a`` → the empty path, which is the root."""
    return path.rpartition("/")[0]


def node_name(path: str) -> str:
    """Return the last name of a path: ``/a/b`` → ``b``."""
    return path.rpartition("/")[2]


def is_below(path: str, above: str) -> bool:
    """Return whether a path is ``above``, or below it; the empty path is the root."""
    return not above or path == above or path.startswith(f"{above}/")


def properties_digest(properties: Properties) -> str:
    """Return the SHA-256, in hexadecimal digits, of the canonical JSON of a node's resolved properties.

    Properties that are stored alike in ZooKeeper have the same digest, in any order.
    """
    canonical = json.dumps(properties, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


class Tree:
    """An immutable tree: ``nodes`` maps each path (``/a/b``) to its properties.

    ``nodes`` contains the parent of each node, except for the root. Two trees are equal if their nodes and
    properties are equal, in any order. ``tops`` are the paths of the top-level nodes, if the caller knows them.
    """

    __slots__ = ("_children", "_tops", "nodes")

    def __init__(self, nodes: Mapping[str, Properties], tops: Iterable[str] | None = None) -> None:
        self.nodes = nodes
        self._children: dict[str, list[str]] | None = None
        self._tops = None if tops is None else tuple(tops)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Tree) and self.nodes == other.nodes)

    def __hash__(self) -> int:
        return hash(frozenset(self.nodes))

    def __repr__(self) -> str:
        return f"Tree({dict(self.nodes)!r})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, path: object) -> bool:
        return path in self.nodes

    @property
    def tops(self) -> tuple[str, ...]:
        """The paths of the top-level nodes."""
        if self._tops is None:
            self._tops = tuple(path for path in self.nodes if path.rfind("/") == 0)
        return self._tops

    def properties(self, path: str) -> Properties | None:
        """Return the properties of a node with links unresolved, or ``None`` if there is no such node."""
        return self.nodes.get(path)

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
