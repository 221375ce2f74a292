"""The log and the counts of requests: one line for each, with its status and duration.

Each response has the header ``X-Request-Id``, whose value is also in the log.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ObservedResponse:
    """Passes on the messages of a response and adds ``headers``; ``status`` is 0 until the response begins."""

    def __init__(self, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._send = send
        self._headers = headers or {}
        self._begun = time.monotonic()
        self.status = 0

    @property
    def seconds(self) -> float:
        """The seconds since the request arrived."""
        return time.monotonic() - self._begun

    async def send(self, message: Message) -> None:
        """Pass a message of the response on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).update(self._headers)
        await self._send(message)


#: Requests of probes would fill the log.
_QUIET = frozenset({"/healthz", "/metrics"})


class AccessLog:
    """An ASGI application that logs each request to the wrapped application when the response is complete."""

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
                raise  # status 0: the error was logged and answered already
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


#: All other methods are counted as one, because clients may invent methods.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCounts:
    """The number and the whole duration of answered requests, by method, route template and status.

    Everything here runs in the event loop of the HTTP server; readers copy.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, ...]] = Counter()
        self.seconds: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request; paths without a route are counted as one, because clients may invent paths."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        key = method, getattr(scope.get("route"), "path", "none"), str(status)
        self.requests[key] += 1
        self.seconds[key] += seconds


class CountedRequests:
    """An ASGI application that counts the requests to the wrapped application."""

    def __init__(self, application: ASGIApp, counts: RequestCounts) -> None:
        self._application = application
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request and count it when its response is complete."""
        response = ObservedResponse(send)
        try:
            await self._application(scope, receive, response.send)
        finally:
            self._counts.add(scope, response.status or 500, response.seconds)


def request_counts(request: Request) -> RequestCounts:
    """Return the counts of the application that handles a request."""
    counts: RequestCounts = request.app.state.request_counts
    return counts
