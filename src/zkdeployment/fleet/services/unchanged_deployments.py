"""The deployments of a host that its last publications did not run again, for ``why``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.inventory import KnownHost

#: How many deployments the sentence names.
_NAMED = 12


def unchanged_deployments(known: KnownHost | None) -> Iterator[str]:
    """Yield a fact if the last publication of a host left deployments out, because they were unchanged."""
    if known is None or known.inventory is None or known.completed is None:
        return
    names = [
        f"{marker.deployment} (last run in publication {marker.sequence})"
        for marker in known.inventory.markers
        if marker.properties is not None and marker.sequence is not None and marker.sequence < known.completed
    ]
    if names:
        yield f"unchanged, not run again in publication {known.completed}: {listing(names, _NAMED)}"
