"""The log of requests: one line for each, without the query and without any header of the request.

Each response has the header ``X-Request-Id``, whose value is in the log, too.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from zkdeployment.log import get_logger
from zkdeployment.web.observed_response import ObservedResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Requests of probes would fill the log.
_QUIET = frozenset({"/healthz", "/metrics"})


class AccessLog:
    """An ASGI application that logs each request to another one when its response is complete."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request and log it."""
        request_id = str(uuid.uuid4())
        response = ObservedResponse(send, {"X-Request-Id": request_id})
        try:
            await self._application(scope, receive, response.send)
        except Exception:
            if response.status == 0:
                raise  # else the error was logged and answered
        finally:
            quiet = scope["path"] in _QUIET or scope["path"].startswith("/static/")
            log = get_logger().debug if quiet else get_logger().info
            user = scope.get("state", {}).get("user")
            log(
                "request-answered",
                id=request_id,
                method=scope["method"],
                path=scope["path"],
                status=response.status,
                seconds=round(response.seconds, 3),
                client=None if scope.get("client") is None else scope["client"][0],
                user=None if user is None else user.name,
            )
