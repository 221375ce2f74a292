"""Measures the slowest decision of a promoter with 100 fleets, its largest node, and the cost of event streams.

The promoter, its rules and the encoding are the program's own, the fleets are simulated. The seconds are those of
the processor, for one whole cycle: documents, facts about all fleets, the decision, and all records. The streams
are encrypted, and those of a process of their own; the server that sends nothing after its heads is in this one.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from benchmarks.results import Result, Scale
from simulation.promotions import DECISION_LIMIT, PromotionOptions, PromotionWorld
from support.certificates import Authority
from zkdeployment.base import log

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Follows one stream, and then as many as it is told to.
_FOLLOWER = """
import sys, time
from pathlib import Path
from zkdeployment.promotion.services import FleetService, ServiceClient
from zkdeployment.promotion.streams import EventStreams

tokens, ca, url = sys.argv[1:]
streams = EventStreams(ServiceClient(Path(tokens), Path(ca)))
for line in sys.stdin:
    streams.follow([FleetService(f"fleet{number}", url) for number in range(int(line))])
    while streams.open < int(line):
        time.sleep(0.01)
    print("open", flush=True)
"""


def measure(scale: Scale) -> Iterator[Result]:
    """Measure a simulated promotion, with a hundredth of the scale's largest number of watchers as fleets."""
    log.configure(quiet=True)
    hosts = max(scale.watchers)
    fleets = max(2, hosts // 100)
    outcome = PromotionWorld(PromotionOptions(1, fleets=fleets, hosts=hosts, faults=5000.0)).run()
    assert not outcome.violations, outcome.sentence
    size = f"{fleets:,} fleets with {hosts:,} hosts"
    yield Result(
        work="slowest decision of a promotion",
        size=size,
        value=outcome.decision,
        against="a second",
        reference=DECISION_LIMIT,
        at_most=1,
    )
    yield Result(work="largest node of a promotion", size=size, value=outcome.size / 1000, unit="kB")
    yield from _streams(fleets)


def _streams(fleets: int) -> Iterator[Result]:
    """Measure what the streams of further fleets add to a process that has one."""
    with tempfile.TemporaryDirectory() as name, _silent_service(Path(name)) as url:
        place = Path(name)
        for number in range(fleets):
            (place / f"fleet{number}").write_text("promoter:key 127.0.0.1")
            (place / f"fleet{number}").chmod(0o600)
        argv = [sys.executable, "-c", _FOLLOWER, str(place), str(place / "ca.pem"), url]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            before = _following(process, 1)
            after = _following(process, fleets)
            process.communicate()
    size, memory = f"{fleets:,} fleets", (after[0] - before[0]) / (fleets - 1)
    yield Result(work="memory of an event stream of the promoter", size=size, value=memory / 1000, unit="kB")
    yield Result(work="threads of a process with these streams", size=size, value=after[1], unit="")


def _following(process: subprocess.Popen[str], streams: int) -> tuple[int, int]:
    """Return the bytes and the threads of a process that follows this number of streams."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{streams}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "open\n"
    seen = psutil.Process(process.pid)
    return seen.memory_full_info().uss, seen.num_threads()


@contextmanager
def _silent_service(directory: Path) -> Iterator[str]:
    """Yield the address of a service whose streams have no events."""
    encryption = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    encryption.load_cert_chain(*Authority(directory).issue("127.0.0.1"))
    loop, begun = asyncio.new_event_loop(), threading.Event()
    ended, port = asyncio.Event(), 0

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 3000\n\n")
        await ended.wait()
        writer.transport.abort()

    async def serve() -> None:
        nonlocal port
        server = await asyncio.start_server(stream, "127.0.0.1", 0, ssl=encryption)
        port = server.sockets[0].getsockname()[1]
        begun.set()
        await ended.wait()
        server.close()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
