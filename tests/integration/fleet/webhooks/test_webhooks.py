"""Webhooks of real services on a real ZooKeeper, to receivers that are up, down, dead or unwilling."""

from __future__ import annotations

import hashlib
import hmac
import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import wait_until
from support.web.servers import WebServer
from support.zookeeper import write_node
from zkdeployment.fleet.webhooks.sender import HttpWebhookSender, WebhookOutcome
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def __init__(self, directory, zookeeper, client, urls) -> None:
        self._directory, self._client = directory, client
        self.processes = []
        key = directory / "webhook.secret"
        key.touch(mode=0o600)
        key.write_text(KEY)
        self._lines = [
            "[zkdeployment]",
            f"zookeeper = {zookeeper}",
            "[server]",
            "base-url = http://deploy.example",
        ]
        self._lines += [f"webhook-key = {key}", "webhooks =", *(f"    {url} *" for url in urls)]

    def start(self):
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

    def contenders(self):
        path = "/zkdeployment/webhooks"
        return self._client.get_children(path) if self._client.exists(path) else []

    def log(self, number):
        return (self._directory / f"{number}.log").read_text()


@contextmanager
def services(tmp_path, zookeeper, client, *urls):
    write_node(client, "/hosts", {"version": "r1"})
    write_node(client, "/zkdeployment/targets", {"version": "r1", "sequence": 7, "ordered": "r1"})
    started = Services(tmp_path, zookeeper, client, urls)
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.wait()


def stops(receiver):
    """The subjects of the events about stops that a receiver has accepted."""
    return [received.event["subject"] for received in receiver.received if "stop" in received.event["type"]]


def steps(receiver):
    """The steps of sessions in the events that a receiver has accepted."""
    events = [received.event for received in receiver.received]
    return [event["data"]["step"] for event in events if event["type"] == "zkdeployment.session"]


def put_session(client, created, expires):
    times = {"created_at": created, "expires_at": expires}
    session = {"id": 7, "tenant": 4, "specs": [], "nodes": [], "leased": []}
    write_node(client, "/zkdeployment/pools/sessions/7", session | times)


def test_an_event_arrives_signed_although_receivers_are_dead_and_no_secret_is_logged(
    tmp_path, zookeeper: str, client: KazooClient
):
    port = free_port()
    with Receiver() as receiver, Receiver(lambda: 503) as unwilling:
        down = f"http://127.0.0.1:{port}/hook?token=url-secret"
        with services(tmp_path, zookeeper, client, down, unwilling.url, receiver.url) as running:
            process = running.start()
            write_node(client, "/hosts", {"version": None})
            wait_until(lambda: stops(receiver) == ["stopped"], "the stop arrives")
            wait_until(lambda: unwilling.attempts >= 2, "the unwilling receiver is asked again")
            with Receiver(port=port) as late:
                wait_until(lambda: stops(late) == ["stopped"], "the receiver that was down gets the stop")
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            log = running.log(0)
    received = next(item for item in receiver.received if item.event["subject"] == "stopped")
    digest = hmac.new(KEY.encode(), received.body, hashlib.sha256).hexdigest()
    assert received.headers["X-Zkdeployment-Signature"] == f"sha256={digest}"
    assert received.headers["Content-Type"] == "application/cloudevents+json"
    assert (received.event["source"], received.event["specversion"]) == ("http://deploy.example", "1.0")
    assert received.event["data"]["id"] == "stopped"
    assert {item.event["id"] for item in late.received} == {item.event["id"] for item in receiver.received}
    assert "webhook-failed" in log
    assert "webhook-recovered" in log
    assert KEY not in log
    assert "url-secret" not in log
    assert "Traceback" not in log


def test_one_of_two_services_sends_and_the_other_continues_after_a_kill(
    tmp_path, zookeeper: str, client: KazooClient
):
    with Receiver() as receiver, services(tmp_path, zookeeper, client, receiver.url) as running:
        first, second = running.start(), running.start()
        write_node(client, "/hosts", {"version": None})
        wait_until(lambda: stops(receiver) == ["stopped"], "the stop arrives")
        write_node(client, "/hosts", {"version": "r1"})
        wait_until(lambda: stops(receiver) == ["stopped", "none"], "the end of the stop arrives")
        now = time.time()
        put_session(client, now - 7200, now + 7200)
        wait_until(lambda: steps(receiver) == ["begun"], "the beginning of the session arrives")
        put_session(client, now - 7200, now + 600)
        wait_until(lambda: steps(receiver)[-1] == "expiring", "the warning arrives")
        assert steps(receiver).count("expiring") == 1
        first.kill()
        write_node(client, "/hosts", {"version": False})
        wait_until(lambda: stops(receiver)[-1] == "held", "the other service sends the event")
        second.send_signal(signal.SIGTERM)
        assert second.wait() == 0
        assert [len(running.contenders()), "webhooks-lead-acquired" in running.log(1)] == [0, True]
        recorded = json.loads(client.get("/zkdeployment/webhooks")[0])["acknowledged"]
    assert stops(receiver)[:2] == ["stopped", "none"]
    assert len(recorded) == 1
    assert "url-secret" not in json.dumps(recorded)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, WebhookOutcome.ACCEPTED),
        (202, WebhookOutcome.ACCEPTED),
        (302, WebhookOutcome.FAILED),
        (404, WebhookOutcome.FAILED),
        (422, WebhookOutcome.REFUSED),
        (500, WebhookOutcome.FAILED),
    ],
)
def test_the_answer_decides_whether_an_event_is_sent_again(status, outcome):
    with Receiver(lambda: status) as receiver:
        assert HttpWebhookSender().send(receiver.url, b"{}", {}).outcome is outcome
    assert receiver.attempts == 1
