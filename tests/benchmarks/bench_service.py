"""Measures what a service costs ZooKeeper with 1 client and with 100, each with an event stream, and its answers.

The clients ask for the status, 50 times a second together, while hosts write to their nodes. Requests to ZooKeeper
are counted in the service. The reference is the same service with 1 client.
"""

import asyncio
import base64
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import psutil
from kazoo.client import KazooClient

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, middle
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError
from zkdeployment.service.users.user import Role

_CLIENTS = 100
_RATE = 50  # requests a second, of all clients together


@dataclass
class _Load:
    """The measurements under one load."""

    requests: int = 0
    events: int = 0
    answers: list[float] = field(default_factory=list)


def measure(scale: Scale) -> Iterator[Result]:
    """Measure one service that follows a fleet of the first size."""
    hosts, seconds = scale.watchers[0], 10.0 if scale.rounds > 1 else 2.0
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        connected(server.address) as client,
        running_service(server.address) as service,
    ):
        client.ensure_path("/hosts")
        for number in range(hosts):
            client.create(f"/hosts/h{number}", b'{"version": "r1"}', ephemeral=True)
        wait_until(lambda: _hosts(service) == hosts, "all hosts")
        login = service.add_user(Role.VIEWER)
        with _changes(client, hosts):
            alone = _loaded(service, login, 1, seconds)
            many = _loaded(service, login, _CLIENTS, seconds)
        memory = psutil.Process().memory_info().rss / 2**20
    size = f"{hosts:,} hosts, {_CLIENTS} clients"
    assert many.events >= _CLIENTS
    yield Result(
        work="service: requests to ZooKeeper",
        size=size,
        value=many.requests / seconds,
        unit="requests/s",
        against="with 1 client",
        reference=max(1, alone.requests) / seconds,
        at_most=1.5,
    )
    yield Result(work="service: status answered", size=size, value=middle(many.answers))
    yield Result(work="service: memory, with its clients", size=size, value=memory, unit="MB")


def _hosts(service: RunningService) -> int:
    """Return the number of hosts that the service has read."""
    try:
        return len(service.adapters.feed.snapshot().fleet.hosts)
    except UnreachableError:
        return 0


@contextmanager
def _changes(client: KazooClient, hosts: int) -> Iterator[None]:
    """Let hosts write to their nodes, ten times a second."""
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.wait(0.1):
            number += 1
            data = json.dumps({"version": f"r{number}"}).encode()
            client.set(f"/hosts/h{number % hosts}", data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _loaded(service: RunningService, login: tuple[str, str], clients: int, seconds: float) -> _Load:
    """Return the measurements of the service with some clients in some seconds."""
    load, send = _Load(), KazooClient._call

    def count(client: KazooClient, request: object, result: object) -> object:
        load.requests += type(request).__name__ != "SetData"  # those are the hosts'
        return send(client, request, result)

    with patch.object(KazooClient, "_call", count):
        asyncio.run(_clients(service.url, login, clients, seconds, load))
    return load


async def _clients(url: str, login: tuple[str, str], clients: int, seconds: float, load: _Load) -> None:
    parts = urlsplit(url)
    token = base64.b64encode(":".join(login).encode()).decode()
    head = f"Host: {parts.netloc}\r\nAuthorization: Basic {token}\r\n"

    async def stream() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET /api/v1/events HTTP/1.1\r\n{head}\r\n".encode())
        try:
            async for line in reader:
                load.events += line.startswith(b"event: host")
        finally:
            writer.close()

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET /api/v1/status HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
        begun = time.perf_counter()
        await reader.read()
        load.answers.append(time.perf_counter() - begun)
        writer.close()

    streams = [asyncio.create_task(stream()) for _ in range(clients)]
    asked = []
    for _ in range(int(seconds * (_RATE if clients > 1 else 1))):
        asked.append(asyncio.create_task(ask()))
        await asyncio.sleep(seconds / int(seconds * (_RATE if clients > 1 else 1)))
    await asyncio.gather(*asked)
    for task in streams:
        task.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
