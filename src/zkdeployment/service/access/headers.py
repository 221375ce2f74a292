"""The limits of requests (hosts, bodies, parameters), and the headers with which browsers restrict pages."""

import difflib
import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.json_values import TOO_DEEP, json_problem
from zkdeployment.service.access.cookies import SAFE_METHODS
from zkdeployment.service.site import Site

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer, browsers would send forms without the Origin that the service checks.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # Answers depend on the user. Routes of public files set their own.
    "cache-control": "no-store",
}

_ENCRYPTED = {"strict-transport-security": "max-age=31536000"}


class SecurityHeaders:
    """An ASGI application that adds the headers to each response of the wrapped application that lacks them."""

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self._application = application
        headers = _HEADERS | (_ENCRYPTED if site.encrypted else {})
        self._headers = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request and complete its response."""

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                names = {name.lower() for name, _ in given}
                message["headers"] = given + [item for item in self._headers if item[0] not in names]
            await send(message)

        await self._application(scope, receive, complete)


class HostCheck:
    """An ASGI application that answers 400 to requests for unknown host names, and passes on all others."""

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self._application = application
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] == "http":
            named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            local = None if scope.get("server") is None else scope["server"][0]
            if len(named) != 1 or not is_known_host(named[0], self._site, local):
                known = ", ".join(sorted(self._site.hosts))
                response = JSONResponse(
                    {"detail": f"unknown host name: expected {known} or the address of the service; see base-url"},
                    400,
                )
                await response(scope, receive, send)
                return
        await self._application(scope, receive, send)


def is_known_host(header: str, site: Site, local: str | None) -> bool:
    """Return whether a ``Host`` header names the service.

    ``local`` is the address at which the service received the request: a client that connected to it may name it.
    """
    try:
        host = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    if host is None or header.lower() not in {host, *_with_port(header, host)}:
        return False
    if host in site.hosts:
        return True
    try:
        address = ipaddress.ip_address(host)
        arrived = ipaddress.ip_address(local or "")
    except ValueError:
        return host == "localhost" and _is_loopback(local)
    return address == arrived


def _with_port(header: str, host: str) -> set[str]:
    """Return the forms of a header with a port or brackets; anything else, such as a user name, is not a host."""
    _, _, port = header.rpartition(":")
    return {f"{host}:{port}", f"[{host}]", f"[{host}]:{port}"} if port.isdecimal() or "[" in header else set()


def _is_loopback(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


#: Bytes; the longest bodies are documents.
BODY_LIMIT = 1 << 20


#: The most levels of brackets in a JSON body. Above it, the parser would come near the limit of recursion, where
#: the finalizers of other objects fail.
_MOST_LEVELS = 500
_MARKS = re.compile(rb'\\.?|["\[\]{}]', re.DOTALL)


class _Levels:
    """Counts the levels of brackets of a JSON text that arrives in parts."""

    def __init__(self) -> None:
        self._level = 0
        self._is_quoted = False
        self._is_escaped = False

    def deepest(self, part: bytes) -> int:
        """Return the deepest level in the next part; brackets within strings do not count."""
        deepest = 0
        marks = _MARKS.findall(part, int(self._is_escaped))
        for mark in marks:
            if mark == b'"':
                self._is_quoted = not self._is_quoted
            elif not self._is_quoted and mark in b"[]{}":
                self._level += 1 if mark in b"[{" else -1
                deepest = max(deepest, self._level)
        if part:
            self._is_escaped = marks[-1:] == [b"\\"]  # the character after it is in the next part
        return deepest


class BodyLimit:
    """An ASGI application that ends requests with bodies that are too long (413) or too deep (422).

    A body has at most ``BODY_LIMIT`` bytes.
    """

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request with a body that is counted while it is read."""
        received, levels = 0, _Levels()
        types = [value.lower() for name, value in scope.get("headers", ()) if name == b"content-type"]
        is_json = not types or any(b"json" in each for each in types)

        async def count() -> Message:
            nonlocal received
            message = await receive()
            body = message.get("body", b"")
            received += len(body)
            if received > BODY_LIMIT:
                raise HTTPException(413, f"the body is too long: expected at most {BODY_LIMIT} bytes")
            if is_json and b"\0" in body:  # UTF-16 or UTF-32, which the parser of JSON reads, too
                raise HTTPException(422, "body: expected JSON in UTF-8, found a zero byte")
            if is_json and levels.deepest(body) > _MOST_LEVELS:
                raise HTTPException(422, f"body: {TOO_DEEP}")
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
