"""Measures start-up time: the monitor against a minimal client, and ``--help`` against an empty Python program."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, best, seconds
from support.zookeeper import connected

#: The milliseconds that ``--help`` may take longer than an empty Python program.
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

_PYTHON = [sys.executable]
_PROGRAM = [sys.executable, "-m", "zkdeployment"]


def measure(scale: Scale) -> Iterator[Result]:
    """Measure both commands, each alternating with its reference."""
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch)) as server:
        config = _host(Path(scratch), server.address)
        monitor, bare = _in_turns(
            [*_PROGRAM, "monitor", str(config)], [*_PYTHON, "-c", _BARE, server.address], 2 * scale.rounds
        )
    yield Result(
        work="monitor",
        size="1 host",
        value=monitor,
        against="bare client, connecting and reading",
        reference=bare,
        at_most=1.4,
    )
    program, nothing = _in_turns([*_PROGRAM, "--help"], [*_PYTHON, "-c", "pass"], 2 * scale.rounds)
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


def _in_turns(first: list[str], other: list[str], rounds: int) -> tuple[float, float]:
    """Return the shortest run of each command in seconds; the first run only warms up.

    All modules are byte-compiled, as they are in an installation.
    """
    installed = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):
        for command, times in zip((first, other), taken, strict=True):
            times.append(seconds(lambda: subprocess.run(command, check=True, capture_output=True, env=installed)))  # noqa: B023
    return best(taken[0][1:]), best(taken[1][1:])
