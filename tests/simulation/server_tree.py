"""The nodes of a simulated ZooKeeper, and the changes that transactions make to them.

A transaction is checked against the leader's nodes and becomes a list of changes, which every server applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kazoo import exceptions
from kazoo.protocol.states import ZnodeStat

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class ZNode:
    """A node of one server."""

    data: bytes
    created: int
    created_at: int
    owner: int
    changed: int
    changed_at: int
    version: int
    children: dict[str, None]
    children_version: int
    children_changed: int
    sequence: int

    @property
    def stat(self) -> ZnodeStat:
        """The node's metadata in kazoo's form."""
        return ZnodeStat(
            self.created,
            self.changed,
            self.created_at,
            self.changed_at,
            self.version,
            self.children_version,
            0,
            self.owner,
            len(self.data),
            len(self.children),
            self.children_changed,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one node by the transaction ``zxid``: ``create``, ``set`` or ``delete``."""

    kind: str
    path: str
    data: bytes
    owner: int
    zxid: int
    time: int


@dataclass(frozen=True, slots=True)
class Write:
    """A write as a client requests it: ``create``, ``set``, ``delete`` or ``check``."""

    kind: str
    path: str
    data: bytes = b""
    version: int = -1
    ephemeral: bool = False
    sequential: bool = False


def parent(path: str) -> str:
    """Return the path of a node's parent."""
    return path.rpartition("/")[0] or "/"


class ServerTree:
    """The nodes of one server."""

    def __init__(self) -> None:
        self.nodes: dict[str, ZNode] = {"/": ZNode(b"", 0, 0, 0, 0, 0, 0, {}, 0, 0, 0)}
        self.zxid = 0

    def apply(self, change: Change) -> None:
        """Apply a change that the leader has accepted."""
        self.zxid = change.zxid
        nodes = self.nodes
        if change.kind == "set":
            node = nodes[change.path]
            node.data, node.changed, node.changed_at = change.data, change.zxid, change.time
            node.version += 1
            return
        above = nodes[parent(change.path)]
        name = change.path.rpartition("/")[2]
        if change.kind == "create":
            nodes[change.path] = ZNode(
                change.data,
                change.zxid,
                change.time,
                change.owner,
                change.zxid,
                change.time,
                0,
                {},
                0,
                change.zxid,
                0,
            )
            above.children[name] = None
            above.sequence += 1
        else:
            del nodes[change.path]
            del above.children[name]
        above.children_version += 1
        above.children_changed = change.zxid

    def changes(
        self, writes: Sequence[Write], session: int, zxid: int, time: int
    ) -> tuple[list[Change], list[str], list[exceptions.KazooException] | None]:
        """Return the changes of a transaction, the created paths, and ``None`` or the failure of each write.

        The changes are applied to this tree, unless one of the writes fails.
        """
        made: list[Change] = []
        paths: list[str] = []
        undo: list[tuple[str, Any, Any]] = []
        for place, write in enumerate(writes):
            try:
                change, path = self._check(write, session, zxid, time)
            except exceptions.KazooException as error:
                self._undo(undo)
                failures: list[exceptions.KazooException] = [
                    exceptions.RolledBackError() if other < place else exceptions.RuntimeInconsistency()
                    for other in range(len(writes))
                ]
                failures[place] = error
                return [], [], failures
            paths.append(path)
            if change is not None:
                undo.append(self._before(change))
                self.apply(change)
                made.append(change)
        return made, paths, None

    def _check(self, write: Write, session: int, zxid: int, time: int) -> tuple[Change | None, str]:
        path = write.path
        if write.kind == "create":
            above = self.nodes.get(parent(path))
            if above is None:
                raise exceptions.NoNodeError
            if above.owner:
                raise exceptions.NoChildrenForEphemeralsError
            if write.sequential:
                path = f"{path}{above.sequence:010d}"
            if path in self.nodes:
                raise exceptions.NodeExistsError
            return Change("create", path, write.data, session if write.ephemeral else 0, zxid, time), path
        node = self.nodes.get(path)
        if node is None:
            raise exceptions.NoNodeError
        if write.version not in {-1, node.version}:
            raise exceptions.BadVersionError
        if write.kind == "check":
            return None, path
        if write.kind == "delete" and node.children:
            raise exceptions.NotEmptyError
        return Change(write.kind, path, write.data, node.owner, zxid, time), path

    def _before(self, change: Change) -> tuple[str, Any, Any]:
        above = self.nodes.get(parent(change.path))
        kept = None if above is None else (above.sequence, above.children_version, above.children_changed)
        node = self.nodes.get(change.path)
        if node is not None and change.kind == "set":
            return change.path, (node.data, node.changed, node.changed_at, node.version), kept
        return change.path, node, kept

    def _undo(self, undo: list[tuple[str, Any, Any]]) -> None:
        for path, former, kept in reversed(undo):
            above, name = self.nodes.get(parent(path)), path.rpartition("/")[2]
            if isinstance(former, tuple):
                node = self.nodes[path]
                node.data, node.changed, node.changed_at, node.version = former
                continue
            assert above is not None
            if former is None:
                del self.nodes[path]
                del above.children[name]
            else:
                self.nodes[path] = former
                above.children[name] = None
            above.sequence, above.children_version, above.children_changed = kept
