"""Measures the syncer's memory while it publishes a large tree repeatedly, in a separate process.

Comparing the peak after the first and after the last publication shows whether memory use stays bounded.
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
from zkdeployment.base import log
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.zookeeper.session import Session


def measure(scale: Scale) -> Iterator[Result]:
    """Measure publications of a tree with the largest number of nodes."""
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
    """Publish on each message from the pipe; send the number of created nodes and the peak memory in MB."""
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
    """Return this process's peak resident memory, in MB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024
