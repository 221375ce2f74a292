"""The limits of requests: the length and the bounds of their bodies, and the parameters in their addresses."""

import difflib
from collections.abc import Iterator

# FastAPI reads this annotation when it analyses the dependency.
from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.json_values import TOO_DEEP, json_problem
from zkdeployment.service.access.cookies import SAFE_METHODS

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
    """Answer 422 to a request whose JSON body exceeds the bounds; the route judges a body that is not JSON."""
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


#: The most characters of a parameter, and the most unknown parameters, in a message.
_LONGEST = 100
_MOST = 5


async def check_parameters(request: Request) -> None:
    """Raise ``ConfigurationError`` for a parameter that the operation does not have, such as a misspelt filter."""
    if not request.query_params:
        return
    known = known_parameters(request.scope["route"])
    unknown = sorted(request.query_params.keys() - known)
    if unknown:
        raise ConfigurationError("; ".join(_message(name, known) for name in unknown[:_MOST]))


def known_parameters(route: APIRoute) -> frozenset[str]:
    """Return the names of the parameters that an operation has in its address."""
    return frozenset(_names(route.dependant))


def _names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for each in dependant.dependencies:
        yield from _names(each)


def _message(name: str, known: frozenset[str]) -> str:
    shown = ascii(name[:_LONGEST])
    if not known:
        return f"unknown parameter {shown}: expected no parameters"
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown parameter {shown}: {hint}expected one of: {', '.join(sorted(known))}"
