"""A receiver of webhooks for tests: a little HTTP server that keeps the requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from support.web import WebServer

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class ReceivedEvent:
    """One accepted request."""

    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The event in the body."""
        event: dict[str, Any] = json.loads(self.body)
        return event


class Receiver(WebServer):
    """Answers ``status()`` to each request at ``url``, and keeps those that it accepts in ``received``."""

    def __init__(self, status: Callable[[], int] = lambda: 204, port: int = 0) -> None:
        self.received: list[ReceivedEvent] = []
        self.attempts = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.attempts += 1
                answer = status()
                if 200 <= answer < 300:
                    receiver.received.append(ReceivedEvent(dict(self.headers), body))
                self.send_response(answer)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Handler, port)

    @property
    def url(self) -> str:
        """The address of the webhook, with a secret."""
        return f"{super().url}/hook?token=url-secret"

    def subjects(self) -> list[str]:
        """Return the subjects of the accepted events, in order."""
        return [received.event["subject"] for received in self.received]
