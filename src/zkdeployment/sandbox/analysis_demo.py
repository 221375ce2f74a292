"""``scripts/demo --analysis``: metrics of a real Prometheus decide whether the canary is healthy.

The sample service is asked for work all the time. A good revision passes, a revision with 5 % errors fails on the
canary and is rolled back by a commit, and a revision whose metrics vanish waits for an operator.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zkdeployment
from zkdeployment.base.cluster import ClusterState
from zkdeployment.base.errors import ProgramError, UnreachableError
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.demo import HELLO, HOSTS, DemoError, DemoScenario, FleetObserver, main
from zkdeployment.sandbox.layout import log_tail
from zkdeployment.sandbox.processes import BackgroundProcess, Deadline
from zkdeployment.sandbox.zookeeper import free_port
from zkdeployment.strategies.analysis import Measurement
from zkdeployment.strategies.analysis_views import sparkline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from rich.console import Console

    from zkdeployment.sandbox.fleet import Sandbox

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


#: Seconds between two requests for work to each instance, and between two checks for new instances.
_PACE = 0.1

_TIMEOUT = 150

STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {name: deployment-strategy}
data:
  on_failure: rollback
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{node_names: [host1]}]
      success_criteria: {percent_successful_nodes: 100}
      bake_time: 12
      analysis:
        - name: errors
          query: >-
            sum(rate(http_requests_total{code="500", instance=~"$instances"}[6s]))
            / sum(rate(http_requests_total{instance=~"$instances"}[6s]))
          pass: <= 0.01
          interval: 2
          initial_delay: 6
          failure_limit: 1
        - name: others
          query: sum(rate(http_requests_total{instance=~"$instances"}[6s]))
          pass: '> 0.1 * others'
          interval: 2
          initial_delay: 6
          dry_run: true
    - name: rest
      critical: true
      depends_on: [canary]
      selectors: []
      success_criteria: {percent_successful_nodes: 100}
"""


class Traffic:
    """Asks each instance of the service for work, and lets Prometheus scrape exactly these instances."""

    def __init__(self, observer: FleetObserver, prometheus: PrometheusServer) -> None:
        self._observer = observer
        self._prometheus = prometheus
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self.is_scraped = True

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Send requests until the context ends."""
        self._thread.start()
        try:
            yield
        finally:
            self._closed.set()
            self._thread.join()

    def _run(self) -> None:
        scraped: list[str] | None = None
        http = HttpClient()
        while not self._closed.wait(_PACE):
            try:
                instances = self._observer.providers(HELLO)
            except UnreachableError:
                continue
            wanted = sorted(instances) if self.is_scraped else []
            if wanted != scraped:
                self._prometheus.scrape(wanted)
                scraped = wanted
            for instance in instances:
                with contextlib.suppress(HttpError):  # the instance is being replaced
                    http.request("GET", f"http://{instance}/work", timeout=1.0, most=1 << 20)


class AnalysisScenario(DemoScenario):
    """The four stages with metrics, played in ``sandbox`` and printed to ``console``."""

    STAGES = "four"

    def __init__(self, sandbox: Sandbox, console: Console, *, service: bool = False) -> None:
        super().__init__(sandbox, console, service=service)
        self.prometheus = PrometheusServer(sandbox.directory / "prometheus")

    def play_stages(self) -> None:
        """Play the stages after the start; raises ``DemoError`` if a check fails."""
        with FleetObserver(self.sandbox.status()["zookeeper"], self.console) as observer:
            self.observer = observer
            self.inspect_sandbox()
            self.add_prometheus()
            traffic = Traffic(observer, self.prometheus)
            with traffic.flowing():
                self.good_revision()
                self.revision_with_errors()
                traffic.is_scraped = False
                self.revision_without_metrics()

    def add_prometheus(self) -> None:
        """Stage 1, continued: start Prometheus, and name it to the coordinator."""
        self.prometheus.start()
        config = Path(self.sandbox.status()["config"])
        section = f"\n[metrics main]\nurl = {self.prometheus.url}\ngraph-url = {self.prometheus.url}\n"
        config.write_text(config.read_text(encoding="utf-8") + section, encoding="utf-8")
        self.sandbox.stop(["coordinator"])
        self.sandbox.start(["coordinator"])
        self.check(True, f"a Prometheus at {self.prometheus.url} scrapes the instances of {HELLO}")

    def good_revision(self) -> None:
        """Stage 2: a revision whose metrics pass."""
        self.stage(2, "push of revision 1: hello 1.0; its errors are measured on the canary host1")
        self.push_hello("hello 1.0", version="1.0")
        self.converge()
        self.check_metric("errors", "passed", self.show())
        rehearsed = self.run("zkdeployment", "rollout", "measure", "canary", "--metric", "errors")
        self.check(rehearsed.status == 0, f"rollout measure: {rehearsed.stdout.splitlines()[0]}", rehearsed)

    def revision_with_errors(self) -> None:
        """Stage 3: a revision that deploys without an error, and then serves errors."""
        self.stage(3, "push of revision 2: hello 1.1, of which 5 % of the answers are errors")
        bad = self.push_hello("hello 1.1 with errors", version="1.1", error_rate=0.05)
        self.wait(lambda: self.rollback_of(bad) is not None, "the coordinator rolls back")
        failed = self.past(bad)
        self.check_metric("errors", "failed", failed)
        reason = next(group["words"] for group in failed["groups"] if group["name"] == "canary")
        self.check("metric errors failed" in reason, f"the canary failed: {reason}")
        untouched = next(group for group in failed["groups"] if group["name"] == "rest")
        others = {state for host, state in untouched["hosts"].items() if host != "host1"}
        self.check(others == {"not started"}, "no other host has started")
        self.revisions.append(str(self.rollback_of(bad)))
        self.converge()
        pages = self.pages(HELLO)
        self.check({page["version"] for page in pages} == {"1.0"}, "a commit rolled back to hello 1.0")

    def revision_without_metrics(self) -> None:
        """Stage 4: a revision whose metrics vanish."""
        self.stage(4, "push of revision 3: hello 1.1 without errors, but Prometheus no longer scrapes it")
        revision = self.push_hello("hello 1.1", version="1.1")
        self.wait(lambda: "no measurement of metric errors passed" in self.canary(revision), "the canary waits")
        self.check("the result is empty" in self.canary(revision), f"the canary {self.canary(revision)}")
        promoted = self.run(
            *(
                "zkdeployment",
                "rollout",
                "promote",
                "canary",
                "--reason",
                "only the scraping is down",
            )
        )
        self.check(promoted.status == 0, "an operator promotes the canary", promoted)
        self.converge()
        self.check({page["version"] for page in self.pages(HELLO)} == {"1.1"}, "hello 1.1 runs everywhere")

    # Parts of stages

    def push_hello(self, message: str, *, version: str, error_rate: float | None = None) -> str:
        """Push the sample tree with the strategy, and return the revision."""
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            identities = [host.identity for host in HOSTS]
            text = samples.tree(identities, version=version, worker=False, error_rate=error_rate)
            (Path(scratch) / "demo.zk").write_text(text, encoding="utf-8")
            (Path(scratch) / "strategy.yaml").write_text(STRATEGY, encoding="utf-8")
            revision = self.sandbox.push(Path(scratch), message)
        self.revisions.append(revision)
        self.console.print(f"  git push: {revision[:12]} {message}", highlight=False)
        return revision

    def show(self) -> dict[str, Any]:
        """Return the present rollout as ``rollout show`` prints it; empty without one."""
        shown = self.run("zkdeployment", "rollout", "show", "-o", "json")
        found: dict[str, Any] = json.loads(shown.stdout) if shown.stdout.strip() else {}
        return found

    def past(self, revision: str) -> dict[str, Any]:
        """Return the last rollout of a revision, as the history keeps it."""
        shown = self.run("zkdeployment", "history", "show", revision, "-o", "json")
        found: dict[str, Any] = json.loads(shown.stdout)["rollouts"][-1]
        return found

    def canary(self, revision: str) -> str:
        """Return the words on the canary of the present rollout of a revision."""
        shown = self.show()
        if shown.get("revision") != revision:
            return ""
        return next(str(group["words"]) for group in shown["groups"] if group["name"] == "canary")

    def rollback_of(self, revision: str) -> str | None:
        """Return the published revision after the rollback of a revision; ``None`` before that."""
        snapshot = self.observer.snapshot()
        active = snapshot.cluster is not None and snapshot.cluster.state is ClusterState.RUNNING
        published = snapshot.published
        return None if not active or published in {revision, *self.revisions} else str(published)

    def check_metric(self, name: str, verdict: str, rollout: Mapping[str, Any]) -> None:
        """Check the verdict on a metric of the canary, and print its measurements."""
        analysis = next(group["analysis"] for group in rollout["groups"] if group["name"] == "canary")
        metric = next(metric for metric in analysis if metric["name"] == name)
        measurements = tuple(map(Measurement.from_json, metric["measurements"]))
        line = "".join(block for block, _ in sparkline(measurements))
        counts = f"{metric['passed']} passed, {metric['failed']} failed, {metric['no_data']} without data"
        self.check(metric["verdict"] == verdict, f"{name} {verdict}: {line} ({counts})")

    def wait(self, condition: Callable[[], object], awaited: str) -> None:
        """Wait until a condition holds; raises ``DemoError`` after the time limit."""
        deadline = time.monotonic() + _TIMEOUT
        with self.observer.live():
            while not condition():
                if time.monotonic() > deadline:
                    raise DemoError(f"expected: {awaited}, within {_TIMEOUT} s; the rollout: {self.show()}")
                time.sleep(1.0)  # most conditions run a command
        self.check(True, awaited)


if __name__ == "__main__":
    main(AnalysisScenario)
