"""A publication of a real ZooKeeper, exported by a real service to a receiver of OTLP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler

import pytest

from support.builders import make_host
from support.waiting import wait_until
from support.web.servers import WebServer
from support.zookeeper import write_node
from zkdeployment.base.deployment import HostResult
from zkdeployment.publishing.records import PublicationRecord
from zkdeployment.publishing.store.history import folded
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.zookeeper.paths import history_path

OLD, NEW = "a" * 40, "b" * 40


class TraceReceiver(WebServer):
    """Keeps the spans of requests in the JSON form of OTLP; ``is_down`` lets it answer 503."""

    def __init__(self) -> None:
        self.spans: list[dict[str, object]] = []
        self.is_down = False
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                is_expected = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                if is_expected and not receiver.is_down:
                    for resource in body["resourceSpans"]:
                        for scope in resource["scopeSpans"]:
                            receiver.spans += scope["spans"]
                self.send_response(503 if receiver.is_down else 200 if is_expected else 400)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        super().__init__(Handler)

    def named(self, name: str) -> dict[str, object]:
        """Return the span with a name."""
        return next(span for span in self.spans if span["name"] == name)


def publish(client, sequence, revision, since=None):
    """Write a publication as the syncer leaves it; with ``since``, it changes only documents."""
    since = since or sequence
    record = PublicationRecord(revision, 1000.0 + sequence, sequence, since, hosts=2)
    path = history_path(sequence)
    client.create(path, folded(record), makepath=True)
    targets = {"version": revision, "sequence": sequence, "since": since, "ordered": revision}
    write_node(client, "/zkdeployment/targets", targets)
    write_node(client, "/hosts", {"version": revision})


def finish(client, sequence, number, error=None):
    """Let a host finish a publication."""
    done = HostResult(f"h{number}", f"app{number}", 1020.0 + number, 10.0, error)
    write_node(client, f"{history_path(sequence)}/h{number}", done.to_json())


def show(client, number, version=None, **fields):
    write_node(client, f"/hosts/h{number}", make_host(number, version, **fields).properties())


@pytest.fixture
def serve(tmp_path, zookeeper):
    """Starts a service that exports traces to a URL."""
    started = []

    def start(url):
        config, log = tmp_path / f"{len(started)}.cfg", tmp_path / f"{len(started)}.log"
        config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\n"
            f"[server]\nlisten = 127.0.0.1:{free_port()}\ntraces = {url}/v1/traces\n"
        )
        with log.open("w") as output:
            argv = [sys.executable, "-m", "zkdeployment", "serve", str(config)]
            started.append(subprocess.Popen(argv, stdout=output, stderr=output))
        return started[-1], log

    yield start
    for process in started:
        process.kill()
        process.wait()


def exported(client):
    """Return the sequence of the last exported publication."""
    path = "/zkdeployment/traces"
    return json.loads(client.get(path)[0] or b"{}").get("exported") if client.exists(path) else None


def test_a_finished_publication_arrives_with_its_hosts_steps_and_waits(client, serve):
    publish(client, 7, OLD)
    for number in (1, 2):
        show(client, number, OLD, sequence=7)
    with TraceReceiver() as receiver:
        process, log = serve(receiver.url)
        wait_until(lambda: exported(client) == 7, "the service begins after the present publication")
        publish(client, 8, NEW)
        waiting = "wait for the lock of /web, held by app1 (h1)"
        show(client, 2, None, deploying=NEW, step=waiting)
        wait_until(lambda: "service-started" in log.read_text(), "the service")
        show(client, 1, None, deploying=NEW, step="deploy /web 0")
        receiver.is_down = True
        for number in (1, 2):
            finish(client, 8, number)
            show(client, number, NEW, sequence=8)
        wait_until(lambda: "trace-not-exported" in log.read_text(), "the first attempt fails")
        assert exported(client) == 7
        receiver.is_down = False
        wait_until(lambda: exported(client) == 8, "the export")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    root, group, host = (receiver.named(name) for name in (f"publication {NEW[:12]}", "all hosts", "app2"))
    assert group["parentSpanId"] == root["spanId"]
    assert host["parentSpanId"] == group["spanId"]
    assert {span["traceId"] for span in receiver.spans} == {root["traceId"]}
    assert [span["name"] for span in receiver.spans].count(f"publication {OLD[:12]}") == 0
    assert "Traceback" not in log.read_text()


@pytest.mark.nightly
def test_a_replaced_publication_is_exported_by_the_next_service(client, serve):
    publish(client, 7, OLD)
    write_node(client, "/zkdeployment/traces", {"exported": 6})
    show(client, 1, OLD, sequence=7, error="boom")
    finish(client, 7, 1, "boom")
    publish(client, 8, NEW)
    with TraceReceiver() as receiver:
        serve(receiver.url)
        wait_until(lambda: exported(client) == 7, "the export of the replaced publication")
    assert receiver.named("app1")["status"] == {"code": 2, "message": "boom"}


def test_a_publication_is_not_over_while_it_runs_and_documents_change(client, serve):
    publish(client, 7, OLD)
    publish(client, 20, NEW)
    publish(client, 21, "c" * 40, since=20)
    show(client, 1, OLD, sequence=7)
    write_node(client, "/zkdeployment/traces", {"exported": 6})
    with TraceReceiver() as receiver:
        serve(receiver.url)
        wait_until(lambda: exported(client) == 19, "the export of all before the publication that runs")
        finish(client, 20, 1)
        show(client, 1, "c" * 40, sequence=21)
        wait_until(lambda: exported(client) == 21, "the export of the publication that ran")
    assert receiver.named("app1")["parentSpanId"] == receiver.named("all hosts")["spanId"]
    assert [span["name"] for span in receiver.spans].count(f"publication {NEW[:12]}") == 1
