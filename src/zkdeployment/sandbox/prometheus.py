"""A real Prometheus for the demo of analyses and the tests; it scrapes the targets that a file lists."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import zkdeployment
from zkdeployment.base.errors import ProgramError
from zkdeployment.sandbox.layout import log_tail
from zkdeployment.sandbox.processes import BackgroundProcess, Deadline
from zkdeployment.sandbox.zookeeper import free_port

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: The directory into which ``scripts/test`` unpacks the program, if this program runs from a checkout.
_UNPACKED = Path(zkdeployment.__file__).resolve().parents[2] / "build/prometheus/usr/bin"

#: Seconds until Prometheus answers.
_START_LIMIT = 60.0

_CONFIGURATION = """\
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: services
    file_sd_configs:
      - files: [{targets}]
        refresh_interval: 1s
"""


def find_prometheus() -> str:
    """Return the path of the program; raises ``ProgramError`` with a hint at the installation."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(_UNPACKED)])
    program = shutil.which("prometheus", path=path)
    if program is None:
        raise ProgramError(
            "expected prometheus on the PATH, found none; install it (Debian, Ubuntu: apt-get install prometheus;"
            " Fedora: dnf install golang-github-prometheus)"
        )
    return program


class PrometheusServer:
    """A Prometheus with all its files in ``directory``, on a free port of this machine.

    ``options`` are further options of the program, such as a configuration of TLS.
    """

    def __init__(self, directory: Path, options: Sequence[str] = (), *, scheme: str = "http") -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"{scheme}://localhost:{self.port}"
        self._options = options
        self._targets = directory / "targets.json"
        self._log = directory / "prometheus.log"
        self._process = BackgroundProcess(directory / "prometheus.pid")

    @property
    def pid(self) -> int | None:
        """The process id while Prometheus runs."""
        return self._process.pid

    def scrape(self, targets: Collection[str]) -> None:
        """Let Prometheus scrape these addresses (HOST:PORT) and no others from now on."""
        self.directory.mkdir(parents=True, exist_ok=True)
        new = self._targets.with_suffix(".new")
        new.write_text(json.dumps([{"targets": sorted(targets)}]), encoding="utf-8")
        new.replace(self._targets)

    def start(self) -> None:
        """Start Prometheus and return when it is ready; raises ``ProgramError`` if it does not start."""
        if not self._targets.exists():
            self.scrape([])
        configuration = self.directory / "prometheus.yml"
        configuration.write_text(_CONFIGURATION.format(targets=self._targets), encoding="utf-8")
        argv = [
            find_prometheus(),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--query.lookback-delta=5s",
            *self._options,
        ]
        self._process.start(argv, log=self._log, cwd=self.directory)
        deadline = Deadline(_START_LIMIT)
        while not self._is_ready():
            if self._process.pid is None or deadline.passed:
                raise ProgramError(f"Prometheus did not start: {log_tail(self._log)}")
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        return "Server is ready to receive web requests" in self._log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End Prometheus and return when it has ended."""
        self._process.stop()

    def kill(self) -> None:
        """End Prometheus like a crash."""
        self._process.kill()
