"""``scripts/demo``: plays a scenario in a sandbox of its own, and removes the sandbox afterwards.

A fleet follows a git repository, in five stages with checks, and is observed. Each result is checked in its place:
in ZooKeeper, in the hosts' package databases and files, in the pages of the services, or in the output of
``zkdeployment`` and ``check_zkdeployment``.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from zkdeployment.base import log
from zkdeployment.base.deployment import Deployment
from zkdeployment.base.errors import UnreachableError, ZkdeploymentError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine import process
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.sandbox import processes, samples
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import default_directory
from zkdeployment.sandbox.processes import DaemonSupervisor
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from zkdeployment.base.machine.process import Completed
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

_INTERVAL = 0.05


class FleetObserver:
    """Observes what is asked for of the fleet at ``connection``, 20 times a second; a context manager."""

    def __init__(self, connection: str, console: Console) -> None:
        self._session = Session(connection)
        self._reader = ZooKeeperFleetReader(self._session)
        self._console = console
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="observer", daemon=True)
        self._holders: list[str] = []
        self.rebooting: list[tuple[str, ...]] = []
        self._watched: str | None = None
        self._snapshot: FleetSnapshot | None = None
        self._is_shown = False

    def __enter__(self) -> Self:
        self._session.open()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()
        self._session.close()

    def snapshot(self) -> FleetSnapshot:
        """Return the current state of the fleet."""
        return self._reader.snapshot()

    def providers(self, service: str) -> list[str]:
        """Return the addresses of the registered instances of a service."""
        return self._session.children(f"{service}/providers") or []

    @contextmanager
    def holders(self, deployment: Deployment) -> Iterator[list[str]]:
        """Yield a list that grows by the holder of the service node's lock each time the holder changes.

        ``rebooting`` grows by the names of the hosts that reboot each time they change.
        """
        self._holders, self.rebooting = [], []
        self._watched = f"/agent-locks/{deployment.lock_name}"
        yield self._holders
        self._watched = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show a live table of the hosts on a terminal, until the context ends."""
        if not self._console.is_terminal:
            yield
            return
        self._is_shown = True
        with Live(console=self._console, get_renderable=self._table, refresh_per_second=8, transient=True):
            yield
        self._is_shown = False

    def _observe(self) -> None:
        while not self._closed.wait(_INTERVAL):
            try:
                if self._is_shown:
                    self._snapshot = self._reader.snapshot()
                self._record_holder()
                self._record_reboots()
            except UnreachableError:
                continue

    def _record_holder(self) -> None:
        if (directory := self._watched) is None:
            return
        contenders = sorted(self._session.children(directory) or (), key=lambda name: name[-10:])
        first = self._session.get(f"{directory}/{contenders[0]}") if contenders else None
        if first is None:
            return
        holder = str(first.properties.get("string_value", "?"))
        if self._holders[-1:] != [holder]:
            self._holders.append(holder)

    def _record_reboots(self) -> None:
        names = tuple(record.host_name for record in read_reboots(self._session)) if self._watched else ()
        if names and self.rebooting[-1:] != [names]:
            self.rebooting.append(names)

    def _table(self) -> Table:
        table = Table("host", "role", "version", "does", "done")
        for host in self._snapshot.hosts if self._snapshot else ():
            done, total = host.steps or (0, 0)
            table.add_row(
                host.identity.name,
                host.identity.role or "",
                str(host.version or "")[:12],
                f"[red]{host.error}" if host.error else host.step or "",
                f"{'#' * done}{'.' * (total - done)}",
            )
        return table


class ScriptRun(NamedTuple):
    """One run of a deploy script, from the script's own log; ``begin`` and ``end`` are seconds since the epoch."""

    begin: float
    end: float
    host: str


def script_runs(roots: Mapping[str, Path], package: str, service: str, *, since: float) -> list[ScriptRun]:
    """Return the runs of a sample package's script for a service, on all hosts, in the order of time."""
    runs = []
    for host, root in roots.items():
        begun: dict[str, float] = {}
        for line in (root / "var" / "log" / f"{package}.log").read_text(encoding="utf-8").splitlines():
            time, event, path, number = line.split()
            if path == service and event == "begin":
                begun[number] = float(time)
            elif path == service and begun.get(number, 0.0) >= since:
                runs.append(ScriptRun(begun[number], float(time), host))
    return sorted(runs)


def overlaps(runs: list[ScriptRun]) -> list[tuple[ScriptRun, ScriptRun]]:
    """Return the pairs of runs on different hosts that overlap in time."""
    return [
        (run, other)
        for index, run in enumerate(runs)
        for other in runs[index + 1 :]
        if other.begin < run.end and run.host != other.host
    ]


HOSTS = (
    Host(Identity("host1", "host1.sandbox")),
    Host(Identity("host2", "host2.sandbox")),
    Host(Identity("host3", "host3.sandbox", role="backoffice")),
)

HELLO = "/demo/hello"
WORKER = "/demo/worker"

#: The instances of hello (host name and number): host1 runs two.
_INSTANCES = {("host1.sandbox", 0), ("host1.sandbox", 1), ("host2.sandbox", 0), ("host3.sandbox", 0)}

_TIMEOUT = 150


class DemoError(ZkdeploymentError):
    """A check of the demo failed."""


class DemoScenario:
    """The five stages, played in ``sandbox`` and printed to ``console``.

    With ``service``, the sandbox runs the service, too.
    """

    STAGES = "five"

    #: Commands for people who keep the sandbox, and the path of the page that they should see.
    EXAMPLES: Sequence[str] = ("zkdeployment status", "zkdeployment tree show")
    PAGE = ""

    def __init__(self, sandbox: Sandbox, console: Console, *, service: bool = False) -> None:
        self.sandbox = sandbox
        self.service = service
        self.console = console
        self.revisions: list[str] = []

    def play_stages(self) -> None:
        """Play the stages after the start; raises ``DemoError`` if a check fails."""
        observing = FleetObserver(self.sandbox.status()["zookeeper"], self.console)
        with observing as observer, self.supervisor():
            self.observer = observer
            self.inspect_sandbox()
            self.first_revision()
            self.rolling_update()
            self.failure()
            self.repair()

    # The stages

    def start(self) -> None:
        """Stage 1: start the sandbox, which is removed if the start fails."""
        self.stage(1, "a ZooKeeper, a git repository, a signed RPM repository, three hosts, a syncer")
        with self.console.status("") as shown:
            self.sandbox.up(HOSTS, service=self.service, report=lambda text: shown.update(f"{text} ..."))

    def inspect_sandbox(self) -> None:
        """Stage 1, continued: check the daemons, and build the packages."""
        status = self.sandbox.status()
        self.check(status["syncer"] is not None, f"a syncer follows {status['tree']}")
        for host_id, host in status["hosts"].items():
            self.check(host["pid"] is not None, f"the agent of {host_id} runs; its root is {host['root']}")
        self.build_samples()

    def build_samples(self) -> None:
        """Build the sample packages, and publish them in the sandbox's repository."""
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            self.sandbox.add_rpms(samples.build(Path(scratch)))
        files = [file.name for file in Path(self.sandbox.status()["repository"]).glob("*.rpm")]
        self.check(len(files) == len(samples.PACKAGES), f"built, signed and published: {', '.join(sorted(files))}")

    def first_revision(self) -> None:
        """Stage 2: push the first revision."""
        self.stage(2, "push of revision 1: hello 1.0, twice on host1 and once on two more hosts, and a worker")
        self.push("hello 1.0 and a worker", version="1.0")
        self.converge()
        self.check_pages("1.0")
        self.check(len(self.pages(WORKER)) == 1, "the worker of the role backoffice answers on host3")

    def rolling_update(self) -> None:
        """Stage 3: roll out a new version."""
        self.stage(3, "push of revision 2: hello 1.1; it rolls, one host at a time")
        since = time.time()
        with self.observer.holders(Deployment(HELLO, 0)) as holders:
            self.push("hello 1.1", version="1.1")
            self.converge()
        runs = script_runs(self.roots(), "hello", HELLO, since=since)
        text = f"the deploy script ran for each of the {len(_INSTANCES)} instances of {HELLO}: {len(runs)} times"
        self.check(len(runs) >= len(_INSTANCES), text)
        overlapping = overlaps(runs)
        self.check(not overlapping, f"never on two hosts at once: {len(overlapping)} of these runs overlap")
        hosts = {str(host.identity) for host in HOSTS}
        self.check(set(holders) == hosts, f"the lock went from {' to '.join(holders)}")
        self.check_pages("1.1")

    def failure(self) -> None:
        """Stage 4: push a revision that cannot be deployed."""
        self.stage(4, "push of revision 3: a version of hello that does not exist")
        before = self.packages()
        good = self.revisions[-1]
        revision = self.push("hello 9.9", version="9.9")
        waited = self.run("zkdeployment", "status", "--wait", revision, "--timeout", str(_TIMEOUT))
        self.check(waited.status == 3, "status --wait reports that the fleet is stopped (exit 3)", waited)
        snapshot = self.observer.snapshot()
        stopped = snapshot.cluster is not None and snapshot.cluster.version is None
        self.check(stopped, "the cluster version is null")
        errors = {host.identity.id: host.error for host in snapshot.hosts if host.error}
        self.check(bool(errors), f"{' and '.join(errors)} failed", waited)
        for host_id, error in errors.items():
            self.check("hello" in error and "9.9" in error, f"{host_id} reports the reason: {error}")
        shown = self.run("zkdeployment", "status")
        self.check(all(name in shown.stdout for name in errors), "status names the failed hosts", shown)
        self.check_nagios(errors)
        versions = {host.version for host in snapshot.hosts}
        self.check(versions == {good}, "every host is still at revision 2")
        self.check(self.packages() == before, "no package was changed on any host")
        self.check_pages("1.1")

    def repair(self) -> None:
        """Stage 5: push the fix, and remove a service."""
        self.stage(5, "push of the fix, resume; then a service is removed from the tree")
        self.push("back to hello 1.1", version="1.1")
        resumed = self.run(
            *("zkdeployment", "resume", "--latest", "--reason", "the version was mistyped", "--timeout", "60")
        )
        self.check(resumed.status == 0, "resume --latest: the syncer published the fix", resumed)
        self.converge()
        self.check_pages("1.1")
        ports = [page["port"] for page in self.pages(WORKER)]
        self.push("without the worker", version="1.1", worker=False)
        self.converge()
        self.check(not any(_answers(port) for port in ports), "the worker no longer answers")
        names = {line.split("-")[0] for lines in self.packages().values() for line in lines}
        self.check("worker" not in names and "hello" in names, "its package is removed from every host")
        for host_id, host in self.sandbox.status()["hosts"].items():
            left = [place for place in ("opt", "etc") if (Path(host["root"]) / place / "worker").exists()]
            self.check(not left, f"/opt and /etc of {host_id} are clean")

    # Parts of stages

    def supervisor(self) -> DaemonSupervisor:
        """Return a supervisor that restarts crashed daemons and prints their names."""
        return DaemonSupervisor(self.sandbox, lambda text: self.console.print(f"  [yellow]{text}"))

    def stage(self, number: int, text: str) -> None:
        """Print the heading of a stage."""
        self.console.print(f"\n[bold cyan]{number}[/] [bold]{text}[/]", highlight=False, soft_wrap=True)

    def check(self, holds: bool, text: str, completed: Completed | None = None) -> None:  # noqa: FBT001  a fact
        """Print a check that holds; raises ``DemoError``, with the output of a command, if it does not hold."""
        if not holds:
            printed = (
                f"; {' '.join(completed.argv)} printed: {completed.stdout}{completed.stderr}" if completed else ""
            )
            raise DemoError(f"expected: {text}{printed}")
        self.console.print(f"  [green]ok[/] {text}", highlight=False, soft_wrap=True)

    def push(self, message: str, *, version: str, worker: bool = True) -> str:
        """Push the sample tree and return the revision."""
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            text = samples.tree([host.identity for host in HOSTS], version=version, worker=worker)
            (Path(scratch) / "demo.zk").write_text(text, encoding="utf-8")
            revision = self.sandbox.push(Path(scratch), message)
        self.revisions.append(revision)
        self.console.print(f"  git push: {revision[:12]} {message}", highlight=False)
        return revision

    def converge(self) -> None:
        """Wait until every host is at the last pushed revision."""
        wanted = self.revisions[-1]
        begun = time.monotonic()
        with self.observer.live():
            waited = self.run("zkdeployment", "status", "--wait", wanted, "--timeout", str(_TIMEOUT))
        seconds = time.monotonic() - begun
        self.check(waited.status == 0, f"every host is at {wanted[:12]} after {seconds:.0f} s", waited)

    def pages(self, service: str) -> list[dict[str, Any]]:
        """Return the page of each registered instance."""
        return [json.loads(_fetch(address)) for address in self.observer.providers(service)]

    def check_pages(self, version: str) -> None:
        """Check that each instance of hello serves this version."""
        pages = self.pages(HELLO)
        instances = {(page["host"], page["instance"]) for page in pages}
        versions = {page["version"] for page in pages}
        greetings = {page["properties"]["greeting"] for page in pages}
        self.check(instances == _INSTANCES, f"a page from each of the {len(pages)} instances of hello")
        self.check(versions == {version}, f"each page shows version {version} and the greeting: {greetings.pop()}")

    def check_nagios(self, failed: Collection[str]) -> None:
        """Check that Nagios gets a warning from every host, with the reason from failed hosts."""
        for host_id, host in self.sandbox.status()["hosts"].items():
            completed = self.run("check_zkdeployment", host["config"])
            line = (completed.stdout.splitlines() or [""])[0]
            explained = "9.9" in line if host_id in failed else "None" in line
            self.check(
                completed.status == 1 and explained, f"check_zkdeployment of {host_id} warns: {line}", completed
            )

    def roots(self) -> dict[str, Path]:
        """Return the root directory of each host."""
        return {host_id: Path(host["root"]) for host_id, host in self.sandbox.status()["hosts"].items()}

    def packages(self) -> dict[str, list[str]]:
        """Return each host's packages."""
        return {
            host_id: sorted(
                process.run(["rpm", "--root", host["root"], "--dbpath", "/var/lib/rpm", "-qa"])
                .check()
                .stdout.split()
            )
            for host_id, host in self.sandbox.status()["hosts"].items()
        }

    def run(self, *argv: str) -> Completed:
        """Run a command of zkdeployment in the environment of this fleet."""
        return process.run(argv, env=self.sandbox.environment(), timeout=_TIMEOUT + 30)


def _fetch(address: str) -> bytes:
    return HttpClient().request("GET", f"http://{address}/", timeout=5, most=1 << 20, attempts=3).content


def _answers(port: int) -> bool:
    try:
        _fetch(f"127.0.0.1:{port}")
    except HttpError:
        return False
    return True


_FAREWELL = """
The fleet keeps running in {directory}.
{invitation}

To use it:

  . {activate}
  zkdeployment sandbox shell{option}       # a shell in which zkdeployment finds this fleet; for example:
{examples}

  git clone {tree}
  zkdeployment sandbox push{option} tree -m "my change"

To end it:

  zkdeployment sandbox down{option}
"""

#: The user with the right to read the demo's fleet only.
_VIEWER = "guest"


def main(scenario_class: type[DemoScenario] = DemoScenario) -> None:
    """Play the scenario; exit with 0 only if all its checks succeeded."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description=f"A fleet follows a git repository, in {scenario_class.STAGES} stages."
    )
    parser.add_argument("--keep", action="store_true", help="keep the fleet running and print how to use it")
    parser.add_argument(
        "-d",
        "--directory",
        type=Path,
        help="the sandbox's directory; default: a new one, with --keep the usual one",
    )
    options = parser.parse_args()
    log.configure(quiet=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    console = Console()
    try:
        play(options.directory, console, keep=options.keep, scenario_class=scenario_class)
    except ZkdeploymentError as error:
        Console(stderr=True).print(f"[bold red]the demo failed:[/] {error}", highlight=False)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; the sandbox was removed")
        sys.exit(128 + signal.SIGINT)


def play(
    directory: Path | None,
    console: Console,
    *,
    keep: bool,
    scenario_class: type[DemoScenario] = DemoScenario,
) -> None:
    """Play the scenario in a new sandbox; remove the sandbox after a failure or without ``keep``."""
    if directory is None:
        directory = default_directory() if keep else Path(tempfile.mkdtemp(prefix="zkdemo-"))
    sandbox = Sandbox(directory)
    scenario = scenario_class(sandbox, console, service=keep)
    begun = time.monotonic()
    scenario.start()
    try:
        scenario.play_stages()
    except BaseException:
        sandbox.down()
        raise
    if not keep:
        sandbox.down()
        scenario.check(not processes.sandbox_processes(sandbox.directory), "no process is left")
        scenario.check(not sandbox.directory.exists(), "no file is left")
    console.print(f"\n[bold green]All {scenario.STAGES} stages succeeded, in {time.monotonic() - begun:.0f} s.[/]")
    if keep:
        console.print(_farewell(sandbox, scenario_class), highlight=False, markup=False, soft_wrap=True)


def _invitation(sandbox: Sandbox, page: str) -> str:
    """Return the line that offers a page of the service, with a new login that may only read."""
    url, key = sandbox.add_viewer(_VIEWER)
    return f"See the fleet at {url}{page} as the user {_VIEWER} with the key {key}"


def _farewell(sandbox: Sandbox, scenario_class: type[DemoScenario]) -> str:
    usual = sandbox.directory == default_directory().resolve()
    return _FAREWELL.format(
        directory=sandbox.directory,
        invitation=_invitation(sandbox, scenario_class.PAGE),
        option="" if usual else f" -d {sandbox.directory}",
        tree=sandbox.status()["tree"],
        activate=Path(sys.prefix) / "bin" / "activate",
        examples="\n".join(f"  {example}" for example in scenario_class.EXAMPLES),
    )


if __name__ == "__main__":
    main()
