"""Sentences about the tip of the branch that the syncer refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import ago
from zkdeployment.model.cluster import short
from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from zkdeployment.model.publishing.history import Refusal


def describe_refusal(refusal: Refusal, now: float) -> str:
    """Return one line: which tip is refused, since when, and its first problem; ``now`` is in epoch seconds."""
    head = f"the tip {short(refusal.revision)} is refused, {ago(refusal.time, now)}"
    return f"{head}: {listing(refusal.problems, 1)}"
