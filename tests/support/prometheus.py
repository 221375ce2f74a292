"""A real Prometheus for tests, and a program with metrics."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from support.waiting import wait_until
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HERE = Path(__file__).resolve().parents[2]

#: Prometheus of a package, or unpacked by ``scripts/lib.sh``.
_PROGRAM = shutil.which("prometheus") or str(_HERE / "build" / "prometheus" / "usr" / "bin" / "prometheus")


class Prometheus:
    """A Prometheus that answers at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer of its API."""
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]

    def targets(self, job: str) -> dict[str, dict[str, str]]:
        """Return the labels of the targets of a job that were scraped successfully, by their address."""
        return {
            target["discoveredLabels"]["__address__"]: target["labels"]
            for target in self.get("targets")["activeTargets"]
            if target["scrapePool"] == job and target["health"] == "up"
        }


@contextmanager
def running_prometheus(place: Path, configuration: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Run a Prometheus with a configuration, and its data below ``place``."""
    file = place / "prometheus.yml"
    file.write_text(yaml.safe_dump({**configuration}), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    argv = [
        _PROGRAM,
        f"--config.file={file}",
        f"--storage.tsdb.path={place / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (place / "prometheus.log").open("w") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
    try:
        prometheus = Prometheus(f"http://{address}")
        wait_until(lambda: _is_ready(prometheus), "Prometheus is ready")
        yield prometheus
    finally:
        process.kill()
        process.wait()


def _is_ready(prometheus: Prometheus) -> bool:
    try:
        return bool(prometheus.get("status/runtimeinfo"))
    except OSError:
        return False


class _Metrics(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(b"answers 1\n")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def metrics_server() -> Iterator[int]:
    """Serve metrics at a free port of this machine, and yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Metrics) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
