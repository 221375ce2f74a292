"""The status and the duration of a response, for the log and the counts of requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Send


class ObservedResponse:
    """Passes the messages of a response on, with more ``headers``; ``status`` is 0 until the response begins."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._headers = headers or {}
        self._begun = time.monotonic()
        self.status = 0

    @property
    def seconds(self) -> float:
        """The seconds since the request arrived."""
        return time.monotonic() - self._begun

    async def send(self, message: Message) -> None:
        """Pass a message of the response on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).update(self._headers)
        await self._send(message)
