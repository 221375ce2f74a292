"""The limits of the bodies of requests: their length, and the bounds of JSON in them."""

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkdeployment.json_bounds import TOO_DEEP, json_problem
from zkdeployment.web.access.cross_site import SAFE_METHODS

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


async def check_json(request: Request) -> None:
    """Answer 422 to a request whose body is JSON beyond the bounds; its route judges a body that is no JSON."""
    if request.method in SAFE_METHODS or "json" not in request.headers.get("Content-Type", "").lower():
        return
    try:
        problem = json_problem(await request.json())
    except RecursionError:
        problem = TOO_DEEP
    except ValueError:
        return
    if problem is not None:
        raise HTTPException(422, f"body: {problem}")
