"""The body of ``GET /api/v1/status``: encoded once for each reading of the fleet, for any number of clients."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from zkdeployment.output_schema import with_schema

if TYPE_CHECKING:
    from fastapi import Request

    from zkdeployment.fleet.cached_fleet import FleetReading


class EncodedStatus:
    """The encoded status of the last reading that a client asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: FleetReading | None = None
        self._body = b""

    def body(self, reading: FleetReading) -> bytes:
        """Return the body for a reading."""
        with self._lock:
            if self._reading is not reading:
                self._body = json.dumps(with_schema("status", reading.status.to_json())).encode()
                self._reading = reading
            return self._body


def encoded_status(request: Request) -> EncodedStatus:
    """Return the encoded status of the application that handles a request."""
    encoded: EncodedStatus = request.app.state.encoded_status
    return encoded
