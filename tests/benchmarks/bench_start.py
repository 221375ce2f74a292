"""Measures the processor time of starts: the monitor against a minimal client, ``--help`` against Python alone."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, best
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError

#: The milliseconds of processor time that ``--help`` may take more than an empty Python program.
_MORE = 150

#: The lower bound for the monitor: the same reads with kazoo alone.
_BARE = """
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1])
client.start()
client.get("/hosts")
client.get("/hosts/host1")
client.stop()
client.close()
"""

#: The same with the libraries that the monitor needs.
_WITH_LIBRARIES = f"import configparser, nagiosplugin\n{_BARE}"

#: The lower bound for a verb: a client that tries to connect, with the libraries for options and tables.
_UNREACHABLE = """
import sys
import click, rich.console, rich.table
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
client = KazooClient(sys.argv[1])
try:
    client.start(timeout=0.1)
except KazooTimeoutError:
    pass
"""

_PYTHON = [sys.executable]
_PROGRAM = [sys.executable, "-m", "zkdeployment"]


def measure(scale: Scale) -> Iterator[Result]:
    """Measure both commands, each alternating with its reference."""
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        config = _host(Path(scratch), server.address)
        monitor, libraries, bare = _in_turns(
            2 * scale.rounds,
            [*_PROGRAM, "monitor", str(config), "-w", "200", "-c", "600"],
            [*_PYTHON, "-c", _WITH_LIBRARIES, server.address],
            [*_PYTHON, "-c", _BARE, server.address],
        )
    for work, value, at_most in (
        ("monitor", monitor, 1.25),
        ("a client with the monitor's libraries", libraries, None),
    ):
        yield Result(
            work=work,
            size="1 host",
            value=value,
            against="bare client, connecting and reading",
            reference=bare,
            at_most=at_most,
        )
    nowhere = "127.0.0.1:1"  # a port at which no server listens
    program, connecting, client, nothing = _in_turns(
        2 * scale.rounds,
        [*_PROGRAM, "--help"],
        [*_PROGRAM, "status", "--zookeeper", nowhere],
        [*_PYTHON, "-c", _UNREACHABLE, nowhere],
        [*_PYTHON, "-c", "pass"],
    )
    # ``--help`` loads neither kazoo nor rich: the client alone takes 1.5 times as long.
    for against, reference, aim in (("--help", program, None), ("client with the verb's libraries", client, 1.5)):
        yield Result(
            work="status: start until it connects",
            size="1 verb",
            value=connecting,
            against=against,
            reference=reference,
            at_most=aim,
        )
    yield Result(
        work="--help",
        size="all verbs",
        value=program,
        against=f"Python alone, and {_MORE} ms",
        reference=nothing + _MORE / 1000,
        at_most=1,
    )


def _host(directory: Path, address: str) -> Path:
    """Register a host at the cluster version; return the path of its configuration."""
    with connected(address) as client:
        client.create("/hosts", json.dumps({"version": "r1"}).encode())
        client.create("/hosts/host1", json.dumps({"name": "host1", "version": "r1"}).encode())
    (directory / "status").write_text(f"{time.time()} 1 r1 done\n")
    config = directory / "host.cfg"
    config.write_text(
        f"[zkdeployment]\nhost-id = host1\nhost-name = host1\nrun-directory = {directory}\nzookeeper = {address}\n"
    )
    return config


def _in_turns(rounds: int, *commands: list[str]) -> list[float]:
    """Return the least processor time of each command in seconds; the first run only warms up.

    All modules are byte-compiled, as they are in an installation.
    """
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    taken: list[list[float]] = [[] for _ in commands]
    for _ in range(rounds + 1):
        for command, times in zip(commands, taken, strict=True):
            before = _processor_time()
            done = subprocess.run(command, check=False, capture_output=True, env=installed)
            assert done.returncode in {0, UnreachableError.exit_code}, done.stderr
            times.append(_processor_time() - before)
    return [best(times[1:]) for times in taken]


def _processor_time() -> float:
    """Return the processor time of all ended child processes, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
