"""Requests that wait as programs read them: the JSON of verbs and of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value
    from zkdeployment.pools.requests.queue import RequestPlace
    from zkdeployment.pools.requests.waiting_request import WaitingRequest


def request_place_to_json(request: WaitingRequest, place: RequestPlace | None, tenant: str) -> dict[str, Value]:
    """Return a request with its places, which are missing after its end; times are in seconds since the epoch."""
    return {
        "id": request.id,
        "tenant": tenant,
        "waiting": request.is_waiting,
        "created_at": request.created_at,
        "expires_at": request.expires_at,
        "ended_at": request.ended_at,
        "outcome": request.outcome,
        "excess": None if place is None else place.excess,
        "pools": [
            {
                "pool": found.pool,
                "place": found.place,
                "waiting": found.waiting,
                "ready": found.ready,
                "wanted": found.wanted,
            }
            for found in (() if place is None else place.pools)
        ],
    }
