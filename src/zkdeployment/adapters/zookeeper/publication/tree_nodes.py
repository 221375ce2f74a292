"""Reading the nodes of the live tree, in pipelined requests; snapshots of it for publications: ``live_tree``."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.nodes import Node
from zkdeployment.adapters.zookeeper.client.reads import Read
from zkdeployment.model.names import RESERVED
from zkdeployment.model.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.adapters.zookeeper.client.session import Session


def read_tree(session: Session) -> Tree:
    """Return the whole tree without reserved top-level nodes and ephemeral nodes."""
    nodes = walk(session, top_paths(session))
    return Tree({path: node.properties for path, node in nodes.items() if not node.owner})


def top_paths(session: Session) -> list[str]:
    """Return the paths of the top-level nodes that are not reserved."""
    return [f"/{name}" for name in session.children("/") or () if name not in RESERVED]


def walk(session: Session, paths: Sequence[str]) -> dict[str, Node]:
    """Return these nodes and all nodes below them, parents first; nodes removed in the meantime are left out."""
    nodes_by_path: dict[str, Node] = {}
    waiting = deque(Read(path) for path in sorted(paths))
    for read, answer in session.pipeline(waiting):
        if answer is None:
            continue
        if read.children:
            waiting.extend(Read(f"{read.path}/{name}") for name in sorted(answer))
            continue
        node = nodes_by_path[read.path] = Node.read(answer)
        if node.children:
            waiting.append(Read(read.path, children=True))
    return nodes_by_path
