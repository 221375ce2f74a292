"""The host names that requests may name, and the headers with which browsers restrict pages."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zkdeployment.service.access.cookies import Site


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
