"""Measures the time from a push until the last agent's watch fires, against a bare ``set`` of the watched node.

A second measurement includes git's transport; its reference is a bare git fetch plus the ``set``.

The watchers are raw protocol sessions in a separate process, because kazoo clients with three threads each would
dominate the measurement. ZooKeeper's memory is the memory of its server process.
"""

import asyncio
import math
import multiprocessing
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from benchmarks.bench_publish import Fetched, running_server
from benchmarks.fleets import FleetRepository, make_syncer
from benchmarks.raw_sessions import Watchers
from benchmarks.results import Result, Scale, middle
from support.zookeeper import connected
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.zookeeper.session import Session

#: Seconds to wait for the watchers of a process.
_PATIENCE = 300

#: The sessions of a process.
_SESSIONS_EACH = 10_000


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a fleet of each size; for the first size, measure a publication as well."""
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        repository = FleetRepository(Path(scratch) / "repository", scale.hosts[0])
        repository.push()
        source = Fetched(GitSource(repository.url, Path(scratch) / "mirror"))
        with Session(server.address) as session, connected(server.address) as client:
            syncer = make_syncer(source, session)
            syncer.sync()

            def touch() -> None:
                data = client.get("/hosts")[0]
                client.set("/hosts", data)

            mirror = Path(scratch) / "bare.git"
            subprocess.run(["git", "clone", "--quiet", "--mirror", repository.url, mirror], check=True)

            def fetch_and_touch() -> None:
                subprocess.run(["git", "--git-dir", mirror, "fetch", "--quiet", "origin"], check=True)
                touch()

            def fetch_and_publish() -> None:
                source.update()
                syncer.sync()

            assert server.pid is not None
            process = psutil.Process(server.pid)
            for watchers in scale.watchers:
                size = f"{watchers:,} watchers"
                with watching(server.address, watchers) as fan_out:
                    first = watchers == scale.watchers[0]
                    bare: list[float] = []
                    fetched_bare: list[float] = []
                    published: list[float] = []
                    fetched: list[float] = []
                    for _ in range(scale.rounds if first else 1):
                        bare.append(fan_out(touch))
                        repository.push()
                        source.update()
                        published.append(fan_out(syncer.sync))
                        repository.push()
                        fetched_bare.append(fan_out(fetch_and_touch))
                        fetched.append(fan_out(fetch_and_publish))
                    memory = process.memory_info().rss / 2**20
                for work, taken, against, floor in (
                    ("publication until all watches fired", published, "bare fan-out of one set", bare),
                    (
                        "fetch and publication until all fired",
                        fetched,
                        "bare git fetch and fan-out",
                        fetched_bare,
                    ),
                ):
                    yield Result(
                        work=work,
                        size=size,
                        value=middle(taken),
                        against=against,
                        reference=middle(floor),
                        at_most=2 if first else None,
                    )
                yield Result(work="ZooKeeper's memory", size=size, value=memory, unit="MB")


@contextmanager
def watching(servers: str, count: int) -> Iterator[Callable[[Callable[[], object]], float]]:
    """Open ``count`` sessions that watch ``/hosts``; yield a timer from an action to the last event.

    ``servers`` are addresses separated by commas. Each server gets an equal share of the sessions, in processes
    with at most ``_SESSIONS_EACH``, because the open files of a process are limited.
    """
    with ExitStack() as stack:
        addresses = servers.split(",")
        each = math.ceil(math.ceil(count / len(addresses)) / _SESSIONS_EACH)
        serving = [address for address in addresses for _ in range(each)]
        shares = [(count + number) // len(serving) for number in range(len(serving))]
        pipes = [
            stack.enter_context(_process(address, share)) for address, share in zip(serving, shares, strict=True)
        ]

        def hear() -> float:
            return max(map(_hear, pipes))

        def fan_out(action: Callable[[], object]) -> float:
            start = time.perf_counter()
            action()
            taken = hear() - start
            hear()  # armed again
            return taken

        hear()
        yield fan_out


@contextmanager
def _process(address: str, count: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(address, count, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.close()
        process.join(_PATIENCE)
        process.terminate()


def _hear(pipe: Connection) -> float:
    if not pipe.poll(_PATIENCE):
        raise TimeoutError("the watchers do not answer")
    heard: float = pipe.recv()
    return heard


def _serve(address: str, count: int, pipe: Connection) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_watch(address, count, pipe))


async def _watch(address: str, count: int, pipe: Connection) -> None:
    """Send the time when all watches are armed and when the last one fired, until the pipe is closed."""
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
    watchers = Watchers(address, "/hosts")
    await watchers.open(count)
    pipe.send(time.perf_counter())
    ended = asyncio.create_task(closed.wait())
    while not ended.done():
        fired = asyncio.create_task(watchers.fired())
        await asyncio.wait((fired, ended), return_when=asyncio.FIRST_COMPLETED)
        if fired.done():
            pipe.send(await fired)
            await watchers.rearm()
            pipe.send(time.perf_counter())
        else:
            fired.cancel()
    await watchers.close()
