"""A webhook: a receiver of events, and the kinds of events that it gets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import urlsplit

from zkdeployment.fleet.events.event import STREAM_KINDS, EventKind

#: The kinds of events that a webhook can choose: all that do not concern the stream of one client.
WEBHOOK_KINDS = tuple(kind.value for kind in EventKind if kind not in STREAM_KINDS)


@dataclass(frozen=True, slots=True)
class Webhook:
    """The URL that events of these kinds are sent to. The URL may contain a secret: do not log it."""

    url: str
    kinds: frozenset[str]

    @property
    def origin(self) -> str:
        """The part of the URL that may be logged: scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def digest(self) -> str:
        """A name of the URL that does not disclose it."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:32]
