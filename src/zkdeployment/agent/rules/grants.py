"""Decides whether a host needs a grant of the rollout for what its mandate permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Cluster, Mandate
    from zkdeployment.base.publication import Published


def needs_grant(
    mandate: Mandate, cluster: Cluster | None, published: Published, *, follows_lease: bool, lacking_since: int
) -> bool:
    """Whether a host needs a grant of the rollout of the last publication.

    A host needs none for a drain, to follow its lease, or for a retry: no strategy governs a stopped fleet. A host
    that completed its part of the rollout except steps of stopped groups needs none for these steps: its rollout
    may have ended. ``lacking_since`` is the sequence of the publication that the host completed so; 0: it lacks
    nothing. The next publication has another rollout, and needs a grant, also of the same revision.
    """
    has_been_granted = lacking_since >= published.effective_since > 0
    return published.governs(cluster) and not (mandate.is_drain or follows_lease or has_been_granted)
