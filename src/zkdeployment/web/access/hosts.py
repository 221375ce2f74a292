"""Checks the host names of requests: a page of a foreign name must not reach the service through a browser."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from zkdeployment.web.site import Site


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
