"""The observation of a fleet during the demo: a live table, the holders of a lock, and runs of scripts."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from rich.live import Live
from rich.table import Table

from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.operator.fleet_reader import ZooKeeperFleetReader
from zkdeployment.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.console import Console

    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.model.deployment import Deployment

_INTERVAL = 0.05


class FleetObserver:
    """Takes a snapshot of the fleet at ``connection`` 20 times a second; a context manager."""

    def __init__(self, connection: str, console: Console) -> None:
        self._session = Session(connection)
        self._reader = ZooKeeperFleetReader(self._session)
        self._console = console
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="observer", daemon=True)
        self._holders: list[str] = []
        self._watched: str | None = None
        self._snapshot: FleetSnapshot | None = None

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
        """Yield a list that grows by the holder of the service node's lock each time the holder changes."""
        self._holders = []
        self._watched = f"/agent-locks/{deployment.lock_name}"
        yield self._holders
        self._watched = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show a live table of the hosts on a terminal, until the context ends."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, get_renderable=self._table, refresh_per_second=8, transient=True):
            yield

    def _observe(self) -> None:
        while not self._closed.wait(_INTERVAL):
            try:
                self._snapshot = self._reader.snapshot()
                self._record_holder()
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
