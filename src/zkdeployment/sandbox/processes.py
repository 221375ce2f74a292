"""The daemons of a sandbox and their processes: started, found, restarted, and ended with all that they started.

Their time limits grow while the machine has more work than processors.

A process belongs to the sandbox in a directory if its environment names the directory (agents, scripts and their
children inherit it), or if its working directory or an argument is in that directory. A process with a terminal
does not belong to the sandbox: it may be a user's shell or editor.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

from zkdeployment.base.act import Act
from zkdeployment.base.errors import ProgramError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.base.machine import process
from zkdeployment.base.machine.http import HttpClient, HttpError
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.layout import log_tail
from zkdeployment.zookeeper.servers import Servers
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.sandbox.fleet import Sandbox
    from zkdeployment.sandbox.layout import HostLayout

#: The largest factor by which a busy machine stretches a time limit.
_LARGEST = 10.0


def slowdown() -> float:
    """Return the average number of programs per processor that wanted to run in the last minute, at least 1."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return max(1.0, load / len(os.sched_getaffinity(0)))


class Deadline:
    """A time limit of ``seconds`` for programs that share the processors with other work.

    A second counts only as much as a program gets of it: with a load of 22 on two processors, 11 seconds count as
    one. The limit is over after ten times ``seconds`` in any case.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._begun = self._counted = time.monotonic()
        self._used = 0.0

    @property
    def passed(self) -> bool:
        """Whether the time limit is over."""
        now = time.monotonic()
        self._used += (now - self._counted) / slowdown()
        self._counted = now
        return self._used > self.seconds or now - self._begun > _LARGEST * self.seconds

    def __str__(self) -> str:
        elapsed = self._counted - self._begun
        if elapsed < 2 * self._used:
            return f"{elapsed:.0f} s"
        return (
            f"{elapsed:.0f} s on a machine that is too busy to judge (it had time for {self._used:.0f} s of work)"
        )


#: The tolerance in seconds for the start time of a process, which is computed from the kernel's clock each time.
_SAME_START = 2.0

#: The limit in seconds for the end after SIGKILL, which takes time while a process is in the kernel.
_KILL_LIMIT = 10.0


class BackgroundProcess:
    """A process that is identified by ``pid_file``, which contains its id and its start time.

    The kernel may reuse a process id. The start time ensures that only the process that was started here receives
    signals.
    """

    def __init__(self, pid_file: Path) -> None:
        self.pid_file = pid_file

    def start(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a program in a session of its own and return its process id.

        Raises ``ProgramError`` if it cannot be started.
        """
        pid = process.start(argv, log=log, cwd=cwd, env=env)
        self.adopt(pid)
        return pid

    def adopt(self, pid: int) -> None:
        """Record a process that was started in another way."""
        started = psutil.Process(pid).create_time()
        self.pid_file.write_text(json.dumps({"pid": pid, "started": started}), encoding="ascii")

    @property
    def pid(self) -> int | None:
        """The process id; ``None`` when the process does not run."""
        process = self._process()
        return None if process is None else process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process() is not None

    def stop(self, timeout: float = 10.0) -> None:
        """End the process (SIGTERM, after ``timeout`` seconds SIGKILL), and return when it has ended."""
        if (process := self._process()) is not None:
            process.terminate()
            if not wait_ended([process], timeout):
                self.kill()
        self.pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End the process with SIGKILL, like a crash, and return when it has ended."""
        if (process := self._process()) is not None:
            process.kill()
            wait_ended([process], _KILL_LIMIT)
        self.pid_file.unlink(missing_ok=True)

    def _process(self) -> psutil.Process | None:
        try:
            record = json.loads(self.pid_file.read_text(encoding="ascii"))
            candidate = psutil.Process(record["pid"])
            same = abs(candidate.create_time() - record["started"]) < _SAME_START
            return candidate if same and not has_ended(candidate) else None
        except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
            return None


def has_ended(target: psutil.Process) -> bool:
    """Whether a process has ended, also if it is a zombie because its parent did not read its status."""
    try:
        return not target.is_running() or target.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_ended(processes: Sequence[psutil.Process], timeout: float) -> bool:
    """Wait up to ``timeout`` seconds for the end of all processes, and return whether they have ended."""
    deadline = Deadline(timeout)
    while not all(has_ended(target) for target in processes):
        if deadline.passed:
            return False
        time.sleep(0.02)
    return True


#: The variable with the sandbox's directory, in the environment of all processes that the sandbox starts.
VARIABLE = "ZKDEPLOYMENT_SANDBOX"

_PLACES = (VARIABLE, "ZKDEPLOYMENT_ROOT", "ZKDEPLOYMENT_CONFIG")

_ROUNDS = 20


def sandbox_processes(directory: Path) -> list[psutil.Process]:
    """Return the processes of the sandbox in ``directory``, except this process and its ancestors."""
    here = str(directory.resolve())
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [target for target in psutil.process_iter() if target.pid not in ours and _belongs(target, here)]


def end_processes(directory: Path, *, grace: float = 2.0) -> None:
    """End all processes of the sandbox: with SIGTERM, and after ``grace`` seconds with SIGKILL.

    The ZooKeeper servers are killed last, so that all other processes can close their sessions. Raises
    ``ProgramError`` with the ids of processes that did not end.
    """
    targets = [target for target in sandbox_processes(directory) if not _is_server(target)]
    for target in targets:
        _signal(target, kill=False)
    wait_ended(targets, grace)
    for _ in range(_ROUNDS):  # an ended process may have started others just before
        targets = sandbox_processes(directory)
        if not targets:
            return
        for target in targets:
            _signal(target, kill=True)
        wait_ended(targets, grace)
    pids = ", ".join(f"{target.pid}" for target in targets)
    raise ProgramError(f"processes of the sandbox in {directory} did not end after SIGKILL: {pids}")


def _signal(target: psutil.Process, *, kill: bool) -> None:
    try:
        if kill:
            target.kill()
        else:
            target.terminate()
    except psutil.Error:
        pass  # The process ended by itself, or belongs to another user; the next round decides.


def _is_server(target: psutil.Process) -> bool:
    try:
        return target.name() == "java"
    except psutil.Error:
        return False


def _belongs(target: psutil.Process, here: str) -> bool:
    try:
        if has_ended(target) or _has_terminal(target):
            return False
        return any(_inside(place, here) for place in _places(target, here))
    except (psutil.Error, OSError):
        return False  # The process has ended, or belongs to another user.


def _has_terminal(target: psutil.Process) -> bool:
    # psutil knows only terminals under /dev; the kernel's seventh field is set for all terminals.
    fields = Path(f"/proc/{target.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return fields.split()[4] != "0"


def _places(target: psutil.Process, here: str) -> Iterator[str]:
    environment = target.environ()
    yield from (environment[name] for name in _PLACES if name in environment)
    yield target.cwd()
    for word in target.cmdline():
        # ``sandbox status -d DIR`` only refers to the sandbox; ``--installroot=DIR/hosts/…`` works in it.
        value = word.partition("=")[2] if word.startswith("-") else word
        if value != here:
            yield value


def _inside(place: str, here: str) -> bool:
    return place == here or place.startswith(here + os.sep)


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


def reboot_command(owner: Path, host_id: str) -> list[str]:
    """Return the command that reboots a host of the sandbox ``owner``."""
    return [sys.executable, "-m", "zkdeployment", "sandbox", "reboot", host_id, "-d", str(owner)]


def begin_reboot(owner: Path, host_id: str) -> None:
    """Start the reboot of a host in the background; the agent that calls this is one of the processes to end."""
    log = owner / "reboots.log"
    process.start(reboot_command(owner, host_id), log=log, cwd=owner, env=plain_environment(owner))


def reboot_host(agent: SandboxDaemon, place: HostLayout, environment: Mapping[str, str]) -> None:
    """End all processes of a host, give it a new boot, and start its agent and its sample services.

    A host whose agent was stopped is like a machine that is switched off, and stays off.
    """
    is_on = agent.crashed or agent.pid is not None
    agent.stop()
    end_processes(place.directory)
    place.boot()
    if is_on:
        samples.start_services(place.root, environment)
        agent.start()


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
