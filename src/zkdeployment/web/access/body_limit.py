"""The limit of the bodies of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Bytes; the longest bodies are documents.
BODY_LIMIT = 1 << 20


class BodyLimit:
    """An ASGI application that ends requests with a body of more than ``BODY_LIMIT`` bytes with status 413."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request with a body that is counted while it is read."""
        received = 0

        async def count() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > BODY_LIMIT:
                raise HTTPException(413, f"the body is too long: expected at most {BODY_LIMIT} bytes")
            return message

        await self._application(scope, count, send)
