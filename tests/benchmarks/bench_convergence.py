"""Measures the time from the start of the syncer until the last of many agents finishes a revision.

The agents are real, with their own sessions, spread over as many processes as needed. Their packages are fake,
their scripts do nothing, and their files are in memory if the machine has a memory file system. The measured
growth with the fleet is therefore the cost of ZooKeeper and of simulating all hosts on one machine. The processor
time of both shows their shares.

A processor that alternates between many processes works with cold caches, and the same instructions take longer.
Bare clients show how much of the growth comes from that: as many clients as agents, in as many processes and
threads, wait for a change and then send as many requests as an agent, one after the other.
"""

import itertools
import logging
import multiprocessing
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import psutil
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Exists, GetChildren, GetData

from benchmarks.bench_publish import Fetched, running_server
from benchmarks.fleets import MANY_SERVICES, FleetRepository, host_name, make_syncer
from benchmarks.results import CONVERGENCE, Result, Scale
from support.agents import HostPackages
from support.hosts.packages import AvailablePackage
from zkdeployment.agent.files.run_directory import VersionFiles
from zkdeployment.agent.scripts import ScriptRunner
from zkdeployment.base import log
from zkdeployment.config.settings import Settings
from zkdeployment.programs.agent import build_agent
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.sandbox import zookeeper
from zkdeployment.sandbox.zookeeper import ZooKeeperServer
from zkdeployment.zookeeper.reads import ReadRequest
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Set

#: The requests that are no writes.
_READS = (Exists, GetChildren, GetData, ReadRequest)

#: The timeout of any wait in seconds, and the agents per process (more threads wait longer for their turn).
_PATIENCE = 900
_AGENTS = 25

#: The times of a bare client's processor time that an agent may take: it also plans, and writes its files.
_AT_MOST = 2

#: The node that bare clients watch, and the data of their own nodes: as long as that of a host's node.
_CLIENTS = "/clients"
_DATA = bytes(200)

#: The number of processes that start at the same time.
_BEGINNING = 4


def measure(scale: Scale) -> Iterator[Result]:
    """Measure each fleet with the smallest tree that has enough hosts, and the first fleet with all trees."""
    first = scale.agents[0]
    for agents in scale.agents:
        trees = scale.hosts if agents == first else [min(size for size in scale.hosts if size >= agents)]
        for hosts in trees:
            fleet = f"{agents:,} agents, tree for {hosts:,} hosts"
            converged = converge(agents, partial(FleetRepository, hosts=hosts))
            yield Result(work=CONVERGENCE, size=fleet, value=converged.seconds)
            yield Result(
                work="ZooKeeper requests per agent", size=fleet, value=converged.requests / agents, unit=""
            )
            floor = bare_clients(agents, converged.requests // agents, converged.writes // agents)
            yield Result(
                work="an agent's processor time",
                size=fleet,
                value=converged.theirs / agents,
                against="a bare client with as many requests",
                reference=floor / agents,
                at_most=_AT_MOST,
            )
            yield Result(work="ZooKeeper's, per agent", size=fleet, value=converged.server / agents)


class _Convergence(NamedTuple):
    """The seconds, requests and script runs of a revision, and the processor seconds of agents and server.

    The ``writes`` are among the requests.
    """

    seconds: float
    requests: int
    writes: int
    scripts: int
    theirs: float
    server: float


def bare_clients(clients: int, requests: int, writes: int) -> float:
    """Return the processor seconds of clients that each send so many requests after a change of a node."""
    with _scratch() as directory, _patient_server(directory) as server, Session(server.address) as session:
        session.ensure(_CLIENTS)
        with _fleet(partial(_run_clients, server.address, requests, writes), clients) as fleet:
            before = _processor_time(fleet.pids)
            session.commit(Set(_CLIENTS, b"changed"))
            fleet.finish()
            return _processor_time(fleet.pids) - before


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a new directory, in memory if the machine has a memory file system."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        yield Path(scratch)


@contextmanager
def _patient_server(directory: Path) -> Iterator[ZooKeeperServer]:
    """Run a server whose sessions time out as in production, because a thousand clients share a processor."""
    lasting = zookeeper._CONFIGURATION.replace("maxSessionTimeout=6000", "maxSessionTimeout=30000")
    with mock.patch.object(zookeeper, "_CONFIGURATION", lasting), running_server(directory) as server:
        yield server


def converge(agents: int, make_repository: Callable[[Path], FleetRepository]) -> _Convergence:
    """Return what a fleet needs for the second revision of a repository, which is made in the given directory."""
    with _scratch() as directory, _patient_server(directory) as server, Session(server.address) as session:
        repository = make_repository(directory / "repository")
        repository.push()
        source = Fetched(GitSource(repository.url, directory / "mirror"))
        syncer = make_syncer(source, session)
        syncer.sync()
        with _fleet(partial(_run_agents, server.address, directory), agents) as fleet:
            repository.push()
            source.update()
            before = fleet.counts
            theirs, idle = _processor_time(fleet.pids), _processor_time([server.pid])
            start = time.perf_counter()
            syncer.sync()
            end = fleet.finish()
            after = fleet.counts
            return _Convergence(
                seconds=end - start,
                requests=after.requests - before.requests,
                writes=after.writes - before.writes,
                scripts=after.scripts - before.scripts,
                theirs=_processor_time(fleet.pids) - theirs,
                server=_processor_time([server.pid]) - idle,
            )


def _processor_time(pids: Sequence[int | None]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids if pid is not None]
    return float(sum(time.user + time.system for time in times))


class _Counts(NamedTuple):
    """The requests and script runs of the agents of a process since their start."""

    requests: int = 0
    writes: int = 0
    scripts: int = 0


class _Fleet:
    """Processes of agents or clients: their process ids, their result pipes and their last reported counts."""

    def __init__(self) -> None:
        self.pids: list[int | None] = []
        self.pipes: list[Connection] = []
        self._heard: dict[Connection, _Counts] = {}

    @property
    def counts(self) -> _Counts:
        """The counts of all agents when they last finished a revision."""
        return _Counts(*map(sum, zip(*self._heard.values(), strict=True)))

    def finish(self) -> float:
        """Wait until the new processes (all, if none is new) finish a revision; return the time of the last."""
        deadline = time.monotonic() + _PATIENCE
        missing = set(self.pipes) - self._heard.keys() or set(self.pipes)
        last = 0.0
        while missing:
            ready = wait(missing, max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the agents are not done after {_PATIENCE} s")
            for pipe in missing.intersection(ready):
                end, self._heard[pipe] = pipe.recv()
                last = max(last, end)
            missing.difference_update(ready)
        return last


@contextmanager
def _fleet(run: Callable[[Sequence[int], Connection], None], agents: int) -> Iterator[_Fleet]:
    """Run agents that have finished the first revision, or clients that wait; ``run`` runs those of a process."""
    context = multiprocessing.get_context("spawn")
    fleet = _Fleet()
    with ExitStack() as stack:
        for start in range(0, agents, _AGENTS):
            here, there = context.Pipe()
            numbers = range(start, min(start + _AGENTS, agents))
            process = context.Process(target=run, args=(numbers, there), daemon=True)
            process.start()
            there.close()
            stack.callback(process.join, 5)
            stack.callback(process.terminate)
            fleet.pids.append(process.pid)
            fleet.pipes.append(here)
            if len(fleet.pipes) % _BEGINNING == 0 or start + _AGENTS >= agents:
                fleet.finish()  # starting all processes at once would only slow each of them down
        yield fleet


class _NoScripts(ScriptRunner):
    """A script runner that runs no script, and counts what it would run in this process."""

    runs: ClassVar[Counter[str]] = Counter()
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def run(self, *_: Any, **__: Any) -> None:
        with self._guard:
            self.runs["all"] += 1


def _run_agents(address: str, directory: Path, numbers: Sequence[int], pipe: Connection) -> None:
    """Run agents in threads; send the time, requests and script runs whenever all finish a revision."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    sys.setswitchinterval(0.1)  # waiting threads check for the interpreter lock at this interval
    requests, writes = itertools.count(), itertools.count()
    done: Counter[object] = Counter()
    guard = threading.Lock()

    call = KazooClient._call

    def counted(client: KazooClient, request: Any, result: Any) -> Any:
        next(requests)
        if not isinstance(request, _READS):
            next(writes)
        return call(client, request, result)

    class Versions(VersionFiles):
        def write(self, revision: Any, sequence: int = 0) -> None:
            super().write(revision, sequence)
            with guard:
                done[revision] += 1
                if done[revision] == len(numbers):
                    counts = _Counts(next(requests), next(writes), _NoScripts.runs["all"])
                    pipe.send((time.perf_counter(), counts))

    available = _available_packages()
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(KazooClient, "_call", counted))
        stack.enter_context(mock.patch("zkdeployment.agent.files.run_directory.VersionFiles", Versions))
        stack.enter_context(mock.patch("zkdeployment.programs.agent.ScriptRunner", _NoScripts))
        threads = [
            threading.Thread(target=_run_agent, args=(address, directory / f"host{number}", number, available))
            for number in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _run_agent(address: str, directory: Path, number: int, available: Sequence[AvailablePackage]) -> None:
    settings = Settings(
        source=directory / "agent.cfg",
        zookeeper=address,
        root=directory / "root",
        host_id=f"id{number}",
        host_name=host_name(number),
        run_directory=directory / "run",
    )
    settings.root.mkdir(parents=True)
    with build_agent(settings, packages=HostPackages(settings.root, available)) as (agent, _):
        agent.run()


def _run_clients(address: str, requests: int, writes: int, numbers: Sequence[int], pipe: Connection) -> None:
    """Run bare clients in threads; send the time whenever all wait for the next change."""
    sys.setswitchinterval(0.1)  # as in the processes of agents
    waiting: Counter[int] = Counter()
    guard = threading.Lock()

    def wait_for(change: threading.Event, turn: int) -> None:
        with guard:
            waiting[turn] += 1
            if waiting[turn] == len(numbers):
                pipe.send((time.perf_counter(), _Counts()))
        change.wait()

    threads = [
        threading.Thread(target=_run_client, args=(address, number, requests, writes, wait_for))
        for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _run_client(
    address: str, number: int, requests: int, writes: int, wait_for: Callable[[threading.Event, int], None]
) -> None:
    """Send requests after each change of the node that all clients watch; the last one sets the next watch."""
    client = KazooClient(address, timeout=30)
    client.start(timeout=_PATIENCE)
    node = client.create(f"{_CLIENTS}/{number}", _DATA, ephemeral=True)
    for turn in itertools.count():
        change = threading.Event()
        client.get(_CLIENTS, watch=lambda _, change=change: change.set())
        wait_for(change, turn)
        for sent in range(1, requests):
            if sent * writes // requests > (sent - 1) * writes // requests:
                client.set(node, _DATA)
            else:
                client.get(node)


def _available_packages() -> list[AvailablePackage]:
    """Return the packages that the trees require."""
    ours = [
        AvailablePackage(name=f"application{number}", version=f"1.{number}") for number in range(MANY_SERVICES)
    ]
    return ours + [AvailablePackage(name="application0", version=f"{number}.0") for number in range(1, 10)]
