"""The members of a sandbox: daemons, which start, stop and restart after a crash, and users of the service."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from zkdeployment.base.act import Act
from zkdeployment.base.errors import ProgramError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.sandbox.layout import log_tail
from zkdeployment.sandbox.processes import VARIABLE, BackgroundProcess, Deadline
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.sandbox.fleet import Sandbox


#: Seconds until a stopped daemon is killed. An agent finishes its step before it ends.
_STOP_TIMEOUT = 40.0


@dataclass(frozen=True, slots=True)
class SandboxDaemon:
    """A daemon of the sandbox ``owner``: ``zkdeployment ARGUMENTS…``.

    Its log and its process id are in files in ``directory``, which are named for ``name``.
    """

    owner: Path
    directory: Path
    name: str
    arguments: Sequence[str]

    @property
    def log(self) -> Path:
        """The file of the daemon's output."""
        return self.directory / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The process id while the member runs."""
        return self._process.pid

    @property
    def crashed(self) -> bool:
        """Whether the daemon ended without being stopped."""
        return self._process.pid_file.exists() and not self._process.alive

    def start(self) -> None:
        """Start the daemon unless it runs; raises ``ProgramError`` if it cannot be started."""
        if not self._process.alive:
            argv = [sys.executable, "-m", "zkdeployment", *self.arguments]
            environment = plain_environment(self.owner)
            self._process.start(argv, log=self.log, cwd=self.directory, env=environment)

    def stop(self) -> None:
        """End the member and return when it has ended."""
        self._process.stop(_STOP_TIMEOUT)

    def kill(self) -> None:
        """End the member like a crash."""
        self._process.kill()

    @property
    def _process(self) -> BackgroundProcess:
        return BackgroundProcess(self.directory / f"{self.name}.pid")


def plain_environment(owner: Path) -> dict[str, str]:
    """Return this process's environment without references to other fleets, and with a mark of ``owner``.

    The present installation of the program is the first on its ``PATH``.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZKDEPLOYMENT_", "ZC_ZK_"))}
    programs = str(Path(sys.executable).parent)
    return kept | {VARIABLE: str(owner), "PATH": f"{programs}:{kept.get('PATH', os.defpath)}"}


#: The time limit of daemons in seconds, and the addition for each daemon.
_LIMIT = 120.0
_LIMIT_EACH = 2.0

_INTERVAL = 0.05

#: The message that the bridge logs.
_SYNCHRONIZED = b"checks-synchronized"

#: The time limit in seconds for an answer of the service.
_ANSWER = 5.0


def wait_registered(zookeeper: str, agents: Mapping[str, SandboxDaemon]) -> None:
    """Return when the agents (by host id) are registered.

    Raises ``ProgramError`` if an agent exits before it is registered, and ``WaitTimeoutError`` at the time limit,
    with the end of its log.
    """
    deadline = Deadline(_LIMIT + _LIMIT_EACH * len(agents))
    with Session(zookeeper) as session:
        while missing := agents.keys() - set(session.children("/hosts") or ()):
            for host_id in sorted(missing):
                _check(agents[host_id], f"the agent of {host_id}", "was registered", deadline)
            time.sleep(_INTERVAL)


def wait_published(zookeeper: str, syncer: SandboxDaemon) -> None:
    """Return when the syncer has published a revision; raises errors like ``wait_registered``."""
    with Session(zookeeper) as session:
        reader = ZooKeeperFleetReader(session)
        _wait(syncer, "the syncer", "published the tree", lambda: reader.snapshot().published is not None)


def wait_answering(url: str, daemon: SandboxDaemon) -> None:
    """Return when the service at ``url`` answers and has ZooKeeper; raises errors like ``wait_registered``."""
    _wait(daemon, "the service", "answered", lambda: _is_healthy(url))


def wait_working(zookeeper: str, worker: SandboxDaemon) -> None:
    """Return when a worker of host pools is registered; raises errors like ``wait_registered``."""
    from zkdeployment.pools.paths import WORKERS  # noqa: PLC0415  sandboxes without pools need nothing of them

    with Session(zookeeper) as session:
        _wait(
            worker,
            "the worker of host pools",
            "was registered",
            lambda: bool(session.children(WORKERS)),
        )


def wait_synchronized(bridge: SandboxDaemon) -> None:
    """Return when the bridge has compared its files with the service; raises errors like ``wait_registered``."""
    log = bridge.log
    _wait(
        bridge,
        "the bridge of Nagios",
        "asked the service",
        lambda: log.exists() and _SYNCHRONIZED in log.read_bytes(),
    )


def _wait(daemon: SandboxDaemon, name: str, aim: str, reached: Callable[[], bool]) -> None:
    deadline = Deadline(_LIMIT)
    while not reached():
        _check(daemon, name, aim, deadline)
        time.sleep(_INTERVAL)


def _is_healthy(url: str) -> bool:
    try:
        return HttpClient().request("GET", f"{url}/healthz", timeout=_ANSWER, most=0).status == 200
    except HttpError:
        return False


def _check(daemon: SandboxDaemon, name: str, aim: str, deadline: Deadline) -> None:
    if daemon.pid is None:
        raise ProgramError(f"{name} ended before it {aim}: {log_tail(daemon.log)}")
    if deadline.passed:
        raise WaitTimeoutError(f"{name} took too long before it {aim}; the end of its log: {log_tail(daemon.log)}")


_SUPERVISION_INTERVAL = 0.5


class DaemonSupervisor:
    """Restarts crashed daemons of ``sandbox`` and reports their names to ``report``; a context manager."""

    def __init__(self, sandbox: Sandbox, report: Callable[[str], None]) -> None:
        self._sandbox = sandbox
        self._report = report
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_SUPERVISION_INTERVAL):
            try:
                revived = self._sandbox.revive()
            except ZkdeploymentError as error:
                self._report(f"a daemon crashed and could not be restarted: {error}")
                continue
            for name in revived:
                self._report(f"{name} crashed and was restarted, like systemd does")


def add_user(zookeeper: str, name: str, role: str) -> str:
    """Add a user of the service with a role, and return the user's key."""
    # The libraries of the service are optional.
    from zkdeployment.service.users.user import NewUser, Role  # noqa: PLC0415
    from zkdeployment.service.users.user_store import open_users  # noqa: PLC0415

    act = Act("the sandbox", f"user add {name}", "", time.time())
    with open_users(Servers(zookeeper), ()) as users:
        return users.add(NewUser(name=name, role=Role(role)), act).key
