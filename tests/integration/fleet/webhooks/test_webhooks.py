"""Webhooks of real services on a real ZooKeeper, to receivers that are up, down, dead or unwilling."""

from __future__ import annotations

import hashlib
import hmac
import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from support.waiting import wait_until
from support.web.receivers import KEY, Receiver, services
from support.zookeeper import write_node
from zkdeployment.fleet.webhooks.sender import HttpWebhookSender, WebhookOutcome
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from kazoo.client import KazooClient


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
