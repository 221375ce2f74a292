"""The log of requests: one line for each, without the query and without any header."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Requests of probes would fill the log.
_QUIET = frozenset({"/healthz", "/metrics"})


class AccessLog:
    """An ASGI application that logs each request to another one when its response is complete."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request and log it."""
        status, begun = 0, time.monotonic()

        async def observe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._application(scope, receive, observe)
        except Exception:
            if status == 0:
                raise  # else the error was logged and answered
        finally:
            quiet = scope["path"] in _QUIET or scope["path"].startswith("/static/")
            log = get_logger().debug if quiet else get_logger().info
            user = scope.get("state", {}).get("user")
            log(
                "request-answered",
                method=scope["method"],
                path=scope["path"],
                status=status,
                seconds=round(time.monotonic() - begun, 3),
                client=None if scope.get("client") is None else scope["client"][0],
                user=None if user is None else user.name,
            )
