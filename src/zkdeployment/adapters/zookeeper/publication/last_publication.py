"""Decoding the nodes that describe the last publication.

The builder writes these nodes; agents, syncers, coordinators and operators' commands read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.publication.managed import begun_tops, managed_tops
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.publication import Published, is_sequence

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.model.cluster import Revision


def decode_published(targets: Node | None, managed: Node | None = None, tops: Collection[str] = ()) -> Published:
    """Return the last publication as the nodes ``/zkdeployment/targets`` and, if given, ``managed`` record it.

    ``tops`` are the names of the existing top-level nodes; managed names that are not among them are left out.
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
