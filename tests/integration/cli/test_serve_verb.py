"""``zkdeployment serve`` as a process: ZooKeeper away, ending on request, configuration errors."""

import re
import signal
import subprocess
import sys

import httpx
import pytest

from support.waiting import wait_until
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, free_port


@pytest.fixture
def serve(tmp_path):
    """Return a function that starts a service with a configuration; it is killed at the end."""
    started = []

    def start(zookeeper, *server):
        config = tmp_path / "zkdeployment.cfg"
        config.write_text("\n".join(["[zkdeployment]", f"zookeeper = {zookeeper}", "[server]", *server]))
        log = tmp_path / f"log{len(started)}"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "zkdeployment", "serve", str(config)], stdout=output, stderr=output
            )
        started.append(process)
        return process, log

    yield start
    for process in started:
        process.kill()
        process.wait()


def health(url):
    try:
        return httpx.get(f"{url}/healthz").status_code
    except httpx.TransportError:
        return None


def test_the_service_starts_without_zookeeper_survives_its_absence_and_ends_on_request(
    own_zookeeper_server: ZooKeeperServer, serve
):
    own_zookeeper_server.stop()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process, log = serve(own_zookeeper_server.address, f"listen = 127.0.0.1:{port}")
    wait_until(lambda: health(url) == 503, "the service answers without ZooKeeper")
    own_zookeeper_server.start()
    wait_until(lambda: health(url) == 200, "the service finds ZooKeeper")
    own_zookeeper_server.kill()
    wait_until(lambda: health(url) == 503, "the service notices that ZooKeeper is away")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    text = log.read_text()
    events = re.findall(r'"event": "(service-started|zookeeper-[a-z]+|service-ended)"', text)
    assert events[:3] == ["service-started", "zookeeper-unreachable", "zookeeper-connected"]
    assert events[-1] == "service-ended"
    assert "Traceback" not in text


def test_an_address_in_use_is_a_configuration_error(serve, zookeeper):
    port = free_port()
    listen = f"listen = 127.0.0.1:{port}"
    serve(zookeeper, listen)
    wait_until(lambda: health(f"http://127.0.0.1:{port}") == 200, "the first service answers")
    second, log = serve(zookeeper, listen)
    assert second.wait(60) == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in log.read_text()
