"""From the syncer's start to the moment when the last of many agents is done with a revision.

The agents are real ones with sessions of their own, in as many processes as it takes; their packages are fake,
their scripts do nothing, and their files are in memory where the machine has a place for that. So what grows with
the fleet is what ZooKeeper and one machine's processors take to play all hosts at once; the processor time of both
says which, whatever else the machine was doing.
"""

import itertools
import logging
import multiprocessing
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import psutil
from kazoo.client import KazooClient

from benchmarks.bench_publish import Fetched, running_server
from benchmarks.fleets import SERVICES, FleetRepository, host_name, make_syncer
from benchmarks.results import Result, Scale
from support.agents import HostPackages
from support.offers import Offer
from zkdeployment import log
from zkdeployment.adapters.filesystem import Filesystem
from zkdeployment.adapters.git import GitSource
from zkdeployment.adapters.zookeeper.fleet import ZooKeeperFleet
from zkdeployment.adapters.zookeeper.session import Session
from zkdeployment.config.settings import Settings
from zkdeployment.model.host import Identity
from zkdeployment.sandbox import zookeeper
from zkdeployment.wiring import build_agent

#: Seconds for anything, and agents of a process: its threads take turns, and the more, the longer that takes.
_PATIENCE = 900
_AGENTS = 25


def measure(scale: Scale) -> Iterator[Result]:
    """Measure fleets of each size in the smallest tree they fit in, and the first one in all trees."""
    first = scale.agents[0]
    for agents in scale.agents:
        trees = scale.hosts if agents == first else [min(size for size in scale.hosts if size >= agents)]
        for hosts in trees:
            fleet = f"{agents:,} agents, tree for {hosts:,} hosts"
            seconds, took, server = _converge(agents, hosts)
            yield Result(work="convergence on a revision", size=fleet, value=seconds)
            yield Result(work="ZooKeeper requests per agent", size=fleet, value=took.requests / agents, unit="")
            yield Result(work="an agent's processor time", size=fleet, value=took.processor / agents)
            yield Result(work="ZooKeeper's, per agent", size=fleet, value=server / agents)


class _Spent(NamedTuple):
    """What agents spent so far: requests, and seconds of processors."""

    requests: int
    processor: float


def _converge(agents: int, hosts: int) -> tuple[float, _Spent, float]:
    """Return how long a fleet takes for a revision, what its agents spend, and the server's processor time."""
    memory = Path("/dev/shm")
    # Sessions last as long as in production, not as short as tests want them: a thousand agents share a processor.
    lasting = zookeeper._CONFIGURATION.replace("maxSessionTimeout=6000", "maxSessionTimeout=30000")
    patience = mock.patch.object(zookeeper, "_CONFIGURATION", lasting)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        directory = Path(scratch)
        with patience, running_server(directory) as server, Session(server.address) as session:
            repository = FleetRepository(directory / "repository", hosts)
            repository.push()
            source = Fetched(GitSource(repository.url, directory / "mirror"))
            syncer = make_syncer(source, session)
            syncer.sync()
            with _fleet(server.address, directory, agents) as finish:
                _, before = finish()
                repository.push()
                source.update()
                start, idle = time.perf_counter(), _processor_time(server)
                syncer.sync()
                end, after = finish()
                busy = _processor_time(server)
            spent = _Spent(after.requests - before.requests, after.processor - before.processor)
            return end - start, spent, busy - idle


def _processor_time(server: zookeeper.ZooKeeperServer) -> float:
    assert server.pid is not None
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def _fleet(address: str, directory: Path, agents: int) -> Iterator[Callable[[], tuple[float, _Spent]]]:
    """Run agents; give what waits until all are done, and returns when that was and what they spent so far."""
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        pipes: list[Connection] = []
        for start in range(0, agents, _AGENTS):
            here, there = context.Pipe()
            numbers = range(start, min(start + _AGENTS, agents))
            process = context.Process(target=_run_agents, args=(address, directory, numbers, there), daemon=True)
            process.start()
            there.close()
            stack.callback(process.join, 5)
            stack.callback(process.terminate)
            pipes.append(here)

        def finish() -> tuple[float, _Spent]:
            deadline = time.monotonic() + _PATIENCE
            heard: dict[Connection, tuple[float, _Spent]] = {}
            while missing := [pipe for pipe in pipes if pipe not in heard]:
                ready = wait(missing, max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TimeoutError(f"not all {agents} agents are done after {_PATIENCE} s")
                heard |= {pipe: pipe.recv() for pipe in missing if pipe in ready}
            spent = [one for _, one in heard.values()]
            total = _Spent(sum(one.requests for one in spent), sum(one.processor for one in spent))
            return max(end for end, _ in heard.values()), total

        yield finish


class _NoScripts:
    """Scripts that do nothing."""

    def __init__(self, **_: Any) -> None:
        pass

    def run(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    def wait_for_predecessor(self) -> None:
        """There is none."""


def _run_agents(address: str, directory: Path, numbers: Sequence[int], pipe: Connection) -> None:
    """Run agents in threads; send the time and what they spent whenever all are done with a revision."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    requests = itertools.count()
    done: Counter[object] = Counter()
    guard = threading.Lock()

    call = KazooClient._call

    def counted(client: KazooClient, *arguments: Any) -> Any:
        next(requests)
        return call(client, *arguments)

    class Files(Filesystem):
        def write_version(self, revision: Any) -> None:
            super().write_version(revision)
            with guard:
                done[revision] += 1
                if done[revision] == len(numbers):
                    pipe.send((time.perf_counter(), _Spent(next(requests), time.process_time())))

    offers = _offers()
    with ExitStack() as stack:
        # Reading all other hosts' names is for the start, which is not measured.
        stack.enter_context(mock.patch.object(ZooKeeperFleet, "_give_way"))
        stack.enter_context(mock.patch.object(KazooClient, "_call", counted))
        stack.enter_context(mock.patch("zkdeployment.wiring.Filesystem", Files))
        stack.enter_context(mock.patch("zkdeployment.wiring.ScriptRunner", _NoScripts))
        threads = [
            threading.Thread(target=_run_agent, args=(address, directory / f"host{number}", number, offers))
            for number in numbers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _run_agent(address: str, directory: Path, number: int, offers: Sequence[Offer]) -> None:
    settings = Settings(
        source=directory / "agent.cfg",
        zookeeper=address,
        root=directory / "root",
        identity=Identity(f"id{number}", host_name(number)),
        run_directory=directory / "run",
    )
    settings.root.mkdir(parents=True)
    with build_agent(settings, packages=HostPackages(settings.root, offers)) as (agent, _):
        agent.run()


def _offers() -> list[Offer]:
    """Return the packages that the trees ask for."""
    ours = [Offer(name=f"application{number}", version=f"1.{number}") for number in range(SERVICES)]
    return ours + [Offer(name="application0", version=f"{number}.0") for number in range(1, 10)]
