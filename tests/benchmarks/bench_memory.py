"""The syncer's memory: in a process of its own, for publications one after the other of a large tree.

The most it ever took after the first and after the last says whether it stays bounded.
"""

import contextlib
import logging
import multiprocessing
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.bench_publish import running_server
from benchmarks.fleets import FleetRepository, make_syncer
from benchmarks.results import Result, Scale
from zkdeployment import log
from zkdeployment.adapters.git.source import GitSource
from zkdeployment.adapters.zookeeper.client.session import Session


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the largest tree."""
    hosts, publications = scale.large // 5, scale.rounds + 1
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        repository = FleetRepository(Path(scratch) / "repository", hosts)
        here, there = context.Pipe()
        arguments = server.address, repository.url, Path(scratch) / "mirror", there
        process = context.Process(target=_publish, args=arguments, daemon=True)
        process.start()
        there.close()
        _, start = here.recv()
        sizes, peaks = [], []
        for _ in range(publications):
            here.send(repository.push())
            nodes, peak = here.recv()
            sizes.append(nodes)
            peaks.append(peak)
        here.close()
        process.join()
    size = f"{sizes[0]:,} nodes"
    for work, value in (
        ("syncer's memory before it publishes", start),
        ("its peak after the first publication", peaks[0]),
        (f"its peak after {publications} publications", peaks[-1]),
    ):
        yield Result(work=work, size=size, value=value, unit="MB")


def _publish(address: str, url: str, mirror: Path, pipe: Connection) -> None:
    """Publish whenever told to, and tell how many nodes were made and the peak, until the other end is closed."""
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    with Session(address) as session, contextlib.suppress(EOFError):
        syncer = make_syncer(GitSource(url, mirror), session)
        pipe.send((0, _peak()))
        while pipe.recv():
            report = syncer.sync()
            nodes = 0 if report.draft is None else len(report.draft.change.create)
            del report
            pipe.send((nodes, _peak()))


def _peak() -> float:
    """Return the most memory this process ever had, in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024
