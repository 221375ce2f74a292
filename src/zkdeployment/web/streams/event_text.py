"""The text of server-sent events, as functions of values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fastapi.sse import format_sse_event

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.fleet.events.event import EventKind, FleetEvent
    from zkdeployment.web.streams.audience import Audience

#: Milliseconds after which a browser that lost its connection connects again.
RETRY = 3000

#: These kinds concern the stream itself, and are sent whatever kinds a client asks for.
_ALWAYS = frozenset({"feed", "reset"})


def encode_event(event: FleetEvent, id_: int | None = None) -> bytes:
    """Return the text of an event; a client that received the event may resume from ``id_``."""
    data = json.dumps(event.to_json(), separators=(",", ":"))
    return format_sse_event(data_str=data, event=event.kind.value, id=None if id_ is None else str(id_))


def encode_batch(
    id_: int, events: Iterable[FleetEvent], kinds: Collection[EventKind] | None, audience: Audience
) -> bytes:
    """Return the text of the events of one batch that a client may see.

    ``kinds`` are those that the client wants, ``None`` all.

    Only the last event has the id: a client that received a part of a batch has to receive all of it again.
    """
    wanted = (event for event in events if kinds is None or event.kind in kinds or event.kind.value in _ALWAYS)
    shown = [event for event in wanted if audience.sees(event)]
    texts = [encode_event(event) for event in shown[:-1]]
    texts += [encode_event(event, id_) for event in shown[-1:]]
    return b"".join(texts)


def heartbeat(id_: int) -> bytes:
    """Return a comment that keeps the connection open; it advances the id and is no event."""
    return format_sse_event(comment="heartbeat", id=str(id_))


def introduction() -> bytes:
    """Return the first line of a stream."""
    return format_sse_event(retry=RETRY)
