"""Programs that are asked to end while they check packages: a server's endless answer, real dnf and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

import httpx
import psutil
import pytest

from support.hosts.systemd import heard
from support.waiting import wait_until
from zkdeployment.base.act import Act
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.service.users.user_store import open_users
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.publishing import Publishing

TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"


DAEMON = ("--interval", "3600")


class EndlessMetadata(BaseHTTPRequestHandler):
    """Answers go on for hours, fast enough for dnf; ``clients`` are the threads that write one."""

    url: ClassVar[str]
    clients: ClassVar[set[int]] = set()
    ended: ClassVar[threading.Event]

    def do_GET(self) -> None:
        """Write spaces until the client or the server ends."""
        self.clients.add(threading.get_ident())
        try:
            self.send_response(200)
            self.send_header("Content-Length", "9999999999")
            self.end_headers()
            while not self.ended.wait(0.05):
                self.wfile.write(b" " * 4000)
        except OSError:
            pass
        finally:
            self.clients.discard(threading.get_ident())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def metadata() -> Iterator[type[EndlessMetadata]]:
    EndlessMetadata.ended = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), EndlessMetadata) as server:
        EndlessMetadata.url = f"http://127.0.0.1:{server.server_port}/"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield EndlessMetadata
        EndlessMetadata.ended.set()
        server.shutdown()
        serving.join()


@pytest.fixture
def config(publishing: Publishing, metadata, tmp_path: Path) -> Path:
    file = tmp_path / "x.cfg"
    file.write_text(
        f"[zkdeployment]\nzookeeper = {publishing.zookeeper}\n[sync]\nurl = {publishing.repository.url}\n"
        f"tree-directory = {tmp_path}/var/tree\nrepositories = {metadata.url}\n"
    )
    return file


def solvers(directory: Path) -> list[psutil.Process]:
    """Return the running dnf that have their cache below a directory."""
    return [
        found
        for found in psutil.process_iter(["cmdline"])
        if any(f"cachedir={directory}/" in word for word in found.info["cmdline"] or [])
    ]


@pytest.mark.parametrize(
    ("options", "with_dnf", "status"),
    [
        pytest.param(DAEMON, False, 0, id="the daemon", marks=pytest.mark.nightly),
        pytest.param(DAEMON, True, 0, id="the daemon and dnf"),
        pytest.param((), False, 128 + signal.SIGINT, id="one run"),
    ],
)
def test_a_check_of_packages_serves_the_watchdog_and_ends_at_sigterm_with_nothing_published(
    publishing: Publishing, metadata, config: Path, tmp_path: Path, options, with_dnf: bool, status: int
):
    """systemd sends its signal to all processes of a unit: a check that ends because of that proves nothing."""
    publishing.push(TREE)
    environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "600000"}
    argv = [sys.executable, "-m", "zkdeployment", "sync", str(config), *options]
    with (
        heard(tmp_path / "notify") as messages,
        subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as syncer,
    ):
        try:
            wait_until(lambda: metadata.clients, "dnf reads the metadata")
            if options:
                signs = messages.count("WATCHDOG=1")
                wait_until(lambda: messages.count("WATCHDOG=1") > signs + 3, "signs of life during the check")
            assert metadata.clients
            started = solvers(tmp_path) if with_dnf else []
            syncer.terminate()
            for solver in started:
                with contextlib.suppress(psutil.NoSuchProcess):  # the syncer may have ended it already
                    solver.terminate()
            assert syncer.wait() == status
        finally:
            syncer.kill()
        assert syncer.stderr is not None
        log = syncer.stderr.read()
    assert ("publication-abandoned" if options else "interrupted") in log
    assert "packages-not-checked" not in log
    assert solvers(tmp_path) == []
    wait_until(lambda: not metadata.clients, "the connection has ended")
    assert publishing.version == "none"
    assert publishing.client.get_children("/hosts-lock") == []
    assert (tmp_path / "var/.tree.unfinished").exists()


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(("lint", "--packages"), id="lint", marks=pytest.mark.nightly),
        pytest.param(("plan",), id="plan"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.nightly)])
def test_a_command_that_is_ended_while_it_checks_packages_ends_dnf(
    metadata, config: Path, tmp_path: Path, verb, number
):
    (tmp_path / "a.zk").write_text(TREE)
    argv = [sys.executable, "-m", "zkdeployment", *verb, "--config", str(config), str(tmp_path / "a.zk")]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as command:
        try:
            wait_until(lambda: metadata.clients, "dnf reads the metadata")
            assert solvers(tmp_path)
            command.send_signal(number)
            assert command.wait() == 128 + signal.SIGINT
        finally:
            command.kill()
        assert command.stderr is not None
        assert command.stderr.read().strip() == "interrupted"
    assert solvers(tmp_path) == []
    wait_until(lambda: not metadata.clients, "the connection has ended")


@pytest.mark.nightly
def test_a_service_that_is_asked_to_end_does_not_wait_for_a_check_of_packages(
    publishing: Publishing, metadata, config: Path, tmp_path: Path
):
    publishing.push(TREE)
    port = free_port()
    with config.open("a") as file:
        file.write(f"[server]\nlisten = 127.0.0.1:{port}\n")
    with open_users(Servers(str(publishing.zookeeper)), ()) as users:
        key = users.add(NewUser(name="ann", role=Role.VIEWER), Act("tests", "user", "", 0.0)).key
    argv = [sys.executable, "-m", "zkdeployment", "serve", str(config)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with (
        subprocess.Popen(argv, env=environment) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", auth=("ann", key), timeout=None) as client,
        ThreadPoolExecutor() as pool,
    ):
        try:
            wait_until(lambda: is_healthy(client), "the service answers")
            answer = pool.submit(client.get, "/api/v1/plan")
            wait_until(lambda: metadata.clients, "dnf reads the metadata")
            assert solvers(tmp_path)
            service.terminate()
            assert service.wait() == 0
            assert answer.result().status_code == 503
        finally:
            service.kill()
    assert solvers(tmp_path) == []
    assert list(tmp_path.glob("zkdeployment-packages-*")) == []


def is_healthy(client: httpx.Client) -> bool:
    """Return whether a service answers and has a connection to ZooKeeper."""
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_an_idle_syncer_serves_the_watchdog(publishing: Publishing, config: Path, tmp_path: Path):
    config.write_text(config.read_text().partition("repositories")[0])
    revision = publishing.push(TREE)
    environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    argv = [sys.executable, "-m", "zkdeployment", "sync", str(config), "--interval", "3600"]
    with heard(tmp_path / "notify") as messages, subprocess.Popen(argv, env=environment) as syncer:
        try:
            wait_until(lambda: publishing.version == revision, "the revision is published")
            signs = messages.count("WATCHDOG=1")
            wait_until(lambda: messages.count("WATCHDOG=1") > signs + 3, "signs of life while the syncer waits")
            syncer.terminate()
            assert syncer.wait() == 0
        finally:
            syncer.kill()
