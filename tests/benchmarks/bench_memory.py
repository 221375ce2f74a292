"""The syncer's memory: in a process of its own, for publications one after the other of a large tree.

The most it ever took after the first and after the last says whether it stays bounded.
"""

import logging
import multiprocessing
import resource
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.bench_publish import running_server
from benchmarks.fleets import FleetRepository, make_syncer
from benchmarks.results import Result, Scale
from zkdeployment import log
from zkdeployment.adapters.git import GitSource
from zkdeployment.adapters.zookeeper.session import Session


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the largest tree."""
    hosts, publications = scale.large // 5, scale.rounds + 1
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        here, there = context.Pipe()
        arguments = server.address, Path(scratch), hosts, publications, there
        process = context.Process(target=_publish, args=arguments, daemon=True)
        process.start()
        there.close()
        nodes, start, *peaks = here.recv()
        process.join()
    size = f"{nodes:,} nodes"
    for work, value in (
        ("syncer's memory before it publishes", start),
        ("its peak after the first publication", peaks[0]),
        (f"its peak after {publications} publications", peaks[-1]),
    ):
        yield Result(work=work, size=size, value=value, unit="MB")


def _publish(address: str, directory: Path, hosts: int, publications: int, pipe: Connection) -> None:
    log.configure()
    logging.getLogger().setLevel(logging.ERROR)
    repository = FleetRepository(directory / "repository", hosts)
    with Session(address) as session:
        syncer = make_syncer(GitSource(repository.url, directory / "mirror"), session)
        start = _peak()
        peaks = []
        nodes = 0
        for _ in range(publications):
            repository.push()
            report = syncer.sync()
            if report.draft is not None and not nodes:
                nodes = len(report.draft.publication.change.create)
            del report
            peaks.append(_peak())
    pipe.send((nodes, start, *peaks))


def _peak() -> float:
    """Return the most memory this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
