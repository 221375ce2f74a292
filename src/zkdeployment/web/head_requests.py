"""HEAD for every page and answer that GET has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: GET below this path hands work over to a monitoring system, so that HEAD would lose it: the answer is 405.
_NOT_SAFE = "/deployments/"


class HeadRequests:
    """An ASGI application that answers HEAD as another one answers GET; the HTTP server leaves the body out."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request, HEAD as GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(_NOT_SAFE):
            await self._application(scope, receive, send)
            return
        # The server reads the method in its own scope to know that it leaves the body out.
        head, inner = _Head(send), {**scope, "method": "GET"}
        try:
            await self._application(inner, head.receive, head.send)
        finally:
            scope["route"] = inner.get("route")


class _Head:
    """A request without a body, whose client leaves as soon as it has the first part of the response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._answered = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        """Return an empty body, and after the beginning of the response that the client has left."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._answered.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass on a part of the response."""
        await self._send(message)
        if message["type"] == "http.response.body":
            self._answered.set()
