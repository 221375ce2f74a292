"""``GET /api/v1/events``: the changes of the fleet as server-sent events."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.exceptions import HTTPException

from zkdeployment.fleet.events.event import EventKind
from zkdeployment.service.access.cookies import site_of
from zkdeployment.service.access.identity import PoolReader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.error_responses import ERRORS, RETRY_AFTER
from zkdeployment.service.event_streams import EventStream, hub_of, subscriber_for

router = APIRouter(prefix="/api/v1", tags=["events"])

_STREAM: dict[int | str, dict[str, object]] = {
    200: {"description": "The events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
    **ERRORS,
}


@router.get("/events", response_class=Response, responses=_STREAM)
async def read_events(
    request: Request,
    user: PoolReader,
    adapters: Adapters,
    last_event_id: Annotated[str | None, Header(description="The id of the last event received.")] = None,
    after: Annotated[str | None, Query(description="The same, for a client that cannot send the header.")] = None,
    kinds: Annotated[list[EventKind] | None, Query(description="The wanted kinds; all without it.")] = None,
) -> Response:
    """Send an event for each change of the fleet and of the pools, until the client or the service ends.

    Tenants get the changes of pools and nodes, and of their own sessions.

    The data of an event are a JSON object with the ``id`` of what changed and a few facts. The first event,
    `feed`, has the age of the service's data. After `reset`, load everything again.
    """
    hub = hub_of(request)
    adapters.feed.snapshot()  # answers 503 before the first reading
    subscriber = subscriber_for(request, user, adapters)
    if not hub.has_room(subscriber, site_of(request).limits):
        raise HTTPException(
            503,
            f"there are too many event streams of the user {user}, of its address, or in all; close some, and try"
            " again later",
            {"Retry-After": str(RETRY_AFTER)},
        )
    resume = after if last_event_id is None else last_event_id
    return EventStream(hub, subscriber, resume=resume, kinds=kinds)
