"""An operator's request for a publication, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age, ago

if TYPE_CHECKING:
    from zkdeployment.model.publication import PublicationRequest


def describe_request(request: PublicationRequest, now: float) -> str:
    """Return who asked for a publication, and whether it is still awaited; ``now`` is since the epoch."""
    why = f" ({request.reason})" if request.reason else ""
    asked = f"{request.by} asked {ago(request.written, now)} to publish the branch's tip{why}"
    if request.error is not None:
        return f"{asked}; the syncer did not: {request.error}"
    if request.is_expired(now):
        return f"{asked}; no syncer answered in time, and none will any more"
    left = request.written + request.age_limit - now
    return f"{asked}; no syncer has answered yet, and after {age(left)} none will"
