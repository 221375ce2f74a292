"""Proxies in front of the service: whose requests they pass on, and whom they have authenticated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from zkdeployment.web.access.cookies import site_of

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from zkdeployment.model.logins.external import ExternalUser
    from zkdeployment.web.site import Site

#: Where the address of the connection is kept, which is that of a proxy or of the client.
_PEER = "zkdeployment.peer"


class ProxyClients:
    """An ASGI application that gives requests the address of the client for whom a proxy passed them on."""

    def __init__(self, application: ASGIApp, site: Site) -> None:
        self._application = application
        self._proxies = site.proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request."""
        if scope["type"] == "http" and scope.get("client") is not None:
            peer, port = scope["client"]
            forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
            client = self._proxies.client_address(peer, forwarded)
            scope = {**scope, _PEER: peer, "client": (client, port)}
        await self._application(scope, receive, send)


def proxied_user(request: Request) -> ExternalUser | None:
    """Return the person whom a proxy has authenticated; answer 403 if the person is no user of the service."""
    proxies = site_of(request).proxies
    users = request.headers.getlist(proxies.user_header or "")
    groups = request.headers.getlist(proxies.groups_header or "")
    found = proxies.external_user(request.scope.get(_PEER, ""), users, groups)
    if isinstance(found, str):
        raise HTTPException(403, found)
    return found
