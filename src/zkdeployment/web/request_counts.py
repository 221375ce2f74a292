"""Counts the requests of the service, for its metrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from zkdeployment.web.observed_response import ObservedResponse

if TYPE_CHECKING:
    from fastapi import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

#: Other methods are counted together: clients choose them.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCounts:
    """The number and the whole duration of answered requests, by method, route template and status.

    Everything here runs in the event loop of the HTTP server; readers copy.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, ...]] = Counter()
        self.seconds: defaultdict[tuple[str, ...], float] = defaultdict(float)

    def add(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request; paths without a route are counted together, as clients choose them."""
        method = scope["method"] if scope["method"] in _METHODS else "other"
        key = method, getattr(scope.get("route"), "path", "none"), str(status)
        self.requests[key] += 1
        self.seconds[key] += seconds


class CountedRequests:
    """An ASGI application that counts the requests to another one."""

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
