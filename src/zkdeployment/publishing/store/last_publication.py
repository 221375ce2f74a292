"""The nodes that describe the last publication, and the managed top-level nodes.

The builder writes these nodes; agents, syncers, coordinators and operators' commands read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.publication import Published, is_sequence
from zkdeployment.zookeeper.nodes import encode

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.base.cluster import Revision
    from zkdeployment.tree.values import TreeChange
    from zkdeployment.zookeeper.nodes import Node


_NAMES = "names"
_BEGUN = "begun"


def managed_tops(node: Node | None) -> frozenset[str]:
    """Return the paths of the top-level nodes that a ``.zk`` file of any publication contained."""
    return _tops(node, _NAMES)


def begun_tops(node: Node | None) -> frozenset[str]:
    """Return the paths of the top-level nodes that unfinished publications and imports created."""
    return _tops(node, _BEGUN)


def encode_managed(managed: Collection[str], begun: Collection[str]) -> bytes:
    """Encode the node's data for these paths."""
    lists = {_NAMES: managed, _BEGUN: begun} if begun else {_NAMES: managed}
    return encode({name: [path[1:] for path in sorted(tops)] for name, tops in lists.items()})


def made_tops(change: TreeChange) -> frozenset[str]:
    """Return the paths of the top-level nodes that a change creates."""
    return frozenset(path for path in change.create if path.count("/") == 1)


def _tops(node: Node | None, name: str) -> frozenset[str]:
    names = None if node is None else node.properties.get(name)
    listed = names if isinstance(names, list) else []
    return frozenset(f"/{name}" for name in listed if isinstance(name, str))


def decode_published(targets: Node | None, managed: Node | None = None, tops: Collection[str] = ()) -> Published:
    """Return the last publication as the nodes ``/zkdeployment/targets`` and, if given, ``managed`` record it.

    ``tops`` are the names of the existing top-level nodes; managed names that are not among them are omitted.
    """
    if targets is None:
        return Published()
    properties = targets.properties
    version, exact, sequence = properties.get("version"), properties.get("exact"), properties.get("sequence")
    since, intents = properties.get("since"), properties.get("intents")
    strategy, ordered, left = properties.get("strategy"), properties.get("ordered"), properties.get("left")
    existing = {f"/{name}" for name in tops}
    return Published(
        revision=version if is_revision(version) else None,
        exact=exact if isinstance(exact, str) else None,
        managed=managed_tops(managed) & existing,
        begun=begun_tops(managed) & existing,
        stamp=targets.version,
        sequence=sequence if is_sequence(sequence) else 0,
        since=since if is_sequence(since) else 0,
        strategy=strategy if isinstance(strategy, str) else None,
        ordered=ordered if is_revision(ordered) else None,
        intents=intents if isinstance(intents, int) and intents >= 0 else None,
        left=left if isinstance(left, str) else None,
    )


def published_revision(targets: Node | None) -> Revision | None:
    """Return the revision whose tree and targets are completely published; ``None`` during a publication."""
    version = None if targets is None else targets.properties.get("version")
    return version if is_revision(version) else None
