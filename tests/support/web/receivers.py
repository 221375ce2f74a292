"""Receivers of webhooks, which are real HTTP servers, and services that send events to them."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from support.waiting import wait_until
from support.web.servers import WebServer
from support.zookeeper import write_node
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from kazoo.client import KazooClient


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


KEY = "the-key-of-webhooks"


class Services:
    """Processes ``zkdeployment serve`` with the same webhooks."""

    def __init__(
        self, directory: Path, zookeeper: str, client: KazooClient, urls: Iterable[str], kinds: str
    ) -> None:
        self._directory, self._client = directory, client
        self.processes: list[subprocess.Popen[bytes]] = []
        key = directory / "webhook.secret"
        key.touch(mode=0o600)
        key.write_text(KEY)
        self._lines = [
            "[zkdeployment]",
            f"zookeeper = {zookeeper}",
            "[server]",
            "base-url = http://deploy.example",
        ]
        self._lines += [f"webhook-key = {key}", "webhooks =", *(f"    {url} {kinds}" for url in urls)]

    def start(self) -> subprocess.Popen[bytes]:
        """Start a service, and wait until it contends for sending."""
        number = len(self.processes)
        config = self._directory / f"{number}.cfg"
        config.write_text("\n".join([*self._lines, f"listen = 127.0.0.1:{free_port()}"]))
        with (self._directory / f"{number}.log").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "zkdeployment", "serve", str(config)], stdout=output, stderr=output
            )
        self.processes.append(process)
        wait_until(lambda: len(self.contenders()) == number + 1, "the service contends")
        if number == 0:
            wait_until(lambda: "webhooks-lead-acquired" in self.log(0), "the service is elected")
        return process

    def contenders(self) -> list[str]:
        """Return the services that contend for sending."""
        path = "/zkdeployment/webhooks"
        return self._client.get_children(path) if self._client.exists(path) else []

    def log(self, number: int) -> str:
        """Return the log of a service."""
        return (self._directory / f"{number}.log").read_text()


@contextmanager
def services(
    directory: Path, zookeeper: str, client: KazooClient, *urls: str, kinds: str = "*"
) -> Iterator[Services]:
    """Yield services that send events of these kinds to receivers; the fleet has a publication without hosts."""
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7, "ordered": "r1"})
    started = Services(directory, zookeeper, client, urls, kinds)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()
