"""The sentence that describes an operator's request for a publication."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import age, ago

if TYPE_CHECKING:
    from zkdeployment.model.publication import PublicationRequest


def describe_request(request: PublicationRequest, now: float) -> str:
    """Return who requested a publication and the request's state; ``now`` is in seconds since the epoch."""
    reason = f" ({request.reason})" if request.reason else ""
    request_text = f"{request.by} requested {ago(request.written, now)} to publish the branch's tip{reason}"
    if request.error is not None:
        return f"{request_text}; the syncer refused: {request.error}"
    if request.is_expired(now):
        return f"{request_text}; no syncer answered in time, and the request has expired"
    left = request.written + request.age_limit - now
    return f"{request_text}; no syncer has answered yet, and the request expires in {age(left)}"
