"""The headers with which browsers restrict pages of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from zkdeployment.web.site import Site

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
    """An ASGI application that adds the headers to every response of another one, unless the response has them."""

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
