"""Events as CloudEvents 1.0 in JSON (structured mode), and their signatures."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.fleet.webhooks.outbox import WebhookEvent

_CONTENT_TYPE = "application/cloudevents+json"

#: The header of the signature: ``sha256=`` and the HMAC-SHA256 of the body in hexadecimal digits.
_SIGNATURE = "X-Zkdeployment-Signature"


def signed_request(item: WebhookEvent, *, source: str, key: str) -> tuple[bytes, Mapping[str, str]]:
    """Return the body and the headers of the request for an event.

    ``source`` is the address of the service for people. ``key`` signs the body.
    """
    body = encode_event(item, source)
    digest = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return body, {"Content-Type": _CONTENT_TYPE, _SIGNATURE: f"sha256={digest}"}


def encode_event(item: WebhookEvent, source: str) -> bytes:
    """Return an event as JSON.

    The id is the same each time that a service sends the event.
    """
    event = item.event
    kind = event.kind.value
    return json.dumps(
        {
            "specversion": "1.0",
            "id": f"{item.transaction}-{kind}-{event.subject}",
            "source": source,
            "type": f"zkdeployment.{kind}",
            "subject": event.subject,
            "time": datetime.fromtimestamp(item.time, tz=UTC).isoformat(timespec="milliseconds"),
            "datacontenttype": "application/json",
            "data": event.to_json(),
        }
    ).encode()
