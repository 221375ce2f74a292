"""Full and read-only disks: the agent reports the error in ZooKeeper and continues after the repair."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.agents import AgentHost, Fleet
from support.proxy import Proxy
from support.waiting import wait_until
from support.zookeeper import through
from zkdeployment.base.errors import RestartError
from zkdeployment.zookeeper.connection import Connection

CALLS = ["h1 start /who/myfoo 0", "h1 end /who/myfoo 0"]


class Disk:
    """A file system of a few kilobytes, mounted at ``place``."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        self._call("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place))

    def fill(self) -> None:
        """Fill the disk completely."""
        with suppress(OSError), (self.place / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(b"x" * 4096)
        assert os.statvfs(self.place).f_bavail == 0

    def lock(self) -> None:
        """Make the disk read-only."""
        self._call("mount", "-o", "remount,ro", str(self.place))

    def mend(self) -> None:
        """Make the disk writable and delete the data that filled it."""
        self._call("mount", "-o", "remount,rw", str(self.place))
        (self.place / "filler").unlink(missing_ok=True)

    def end(self) -> None:
        """Unmount the disk, even while a process uses it."""
        self._call("umount", "--lazy", str(self.place))

    def _call(self, *argv: str) -> None:
        subprocess.run(argv, check=True)


@contextmanager
def disk_at(place: Path) -> Iterator[Disk]:
    disk = Disk(place)
    try:
        yield disk
    finally:
        disk.end()


@pytest.fixture
def host(fleet: Fleet) -> AgentHost:
    return fleet.ready_host()


@pytest.mark.parametrize(
    ("place", "break_disk", "error", "runs"),
    [
        ("run", Disk.fill, "/run/status: No space left on device", 0),
        ("root/etc/foo", Disk.fill, "/etc/foo/who:myfoo.0.deployed: No space left on device", 1),
        ("root/etc/foo", Disk.lock, "/etc/foo/who:myfoo.0.deployed: Read-only file system", 1),
        ("root/var/log/zkdeployment", Disk.lock, "/var/log/zkdeployment: Read-only file system", 0),
    ],
)
def test_an_unwritable_disk_stops_the_fleet_and_leaves_no_partial_files(
    fleet, host, place, break_disk, error, runs
):
    with ExitStack() as stack:
        disk = stack.enter_context(disk_at(host.root.parent / place))
        stack.enter_context(host.agent())
        host.wait_for_version("r1")
        kept = {file: file.read_bytes() for file in disk.place.iterdir() if file.suffix in {"", ".deployed"}}
        break_disk(disk)
        fleet.set_version("r2")
        wait_until(lambda: error in host.node.get("error", ""), "the error")
        assert fleet.version is None
        assert host.node["version" if place == "run" else "former"] == "r1"
        assert fleet.calls() == CALLS * (1 + runs)
        assert {file: file.read_bytes() for file in kept} == kept
        disk.mend()
        fleet.set_version("r2")
        host.wait_for_version("r2")
        assert json.loads((host.run / "host_version").read_text()) == "r2"
        assert host.markers == ["who:myfoo.0.deployed"]


def test_a_full_disk_loses_only_the_output_of_scripts(fleet, host):
    with ExitStack() as stack:
        disk = stack.enter_context(disk_at(host.root / "var/log/zkdeployment"))
        disk.fill()
        stack.enter_context(host.agent())
        host.wait_for_version("r1")
    assert fleet.calls() == CALLS


def test_a_version_that_cannot_be_recorded_is_not_reported_as_reached(fleet, host):
    (host.run / "host_version").mkdir(parents=True)
    (host.run / "host_version" / "in-the-way").touch()
    with host.agent():
        wait_until(lambda: "/run/host_version: " in host.node.get("error", ""), "the error")
        assert host.node.get("version") is None
        (host.run / "host_version" / "in-the-way").unlink()
        fleet.set_version("r1")
        host.wait_for_version("r1")
        assert "error" not in host.node
    assert json.loads((host.run / "host_version").read_text()) == "r1"


@pytest.mark.parametrize("is_disk_first", [True, False], ids=["the disk", "ZooKeeper"])
def test_a_failure_is_not_lost_whichever_of_the_disk_and_zookeeper_is_mended_first(
    fleet: Fleet, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, is_disk_first: bool
):
    fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    fleet.set_version("r1")
    host = fleet.host("h1", zookeeper=through(proxy, fleet.connection))
    host.fail("/who/myfoo 0")
    block, failure = host.block(), host.lasting / "failure"
    restarts, renew = [], Connection._renew

    def counted(connection: Connection, *why: Any) -> None:
        try:
            renew(connection, *why)
        except RestartError as error:
            restarts.append(error)
            raise

    monkeypatch.setattr(Connection, "_renew", counted)
    with host.agent(session_timeout=4) as agent:
        wait_until(fleet.calls, "the script")
        assert agent.agent is not None
        session = agent.agent._adapters.session
        session.call_timeout, session._silence.patience = 0.5, 0.5
        proxy.cut()
        (failure / "in-the-way").mkdir(parents=True)
        block.unlink()
        wait_until(lambda: len(restarts) >= 2 or agent.ended, "the connection cannot be restored")
        assert not agent.ended
        if is_disk_first:
            (failure / "in-the-way").rmdir()
            wait_until(lambda: agent.ended, "the agent restarts")
            assert isinstance(agent.error, RestartError)
            assert "exit status 3" in json.loads(failure.read_text())["stop"]["reason"]
        proxy.heal()
        session.call_timeout, session._silence.patience = 60, 60
        if not is_disk_first:
            wait_until(lambda: fleet.version is None, "the stop")
    if is_disk_first:
        with host.agent():
            wait_until(lambda: fleet.version is None, "the stop")
            wait_until(lambda: not failure.exists(), "it is reported")
    assert "exit status 3" in fleet.get("/zkdeployment/stops/h1")["reason"]
    assert fleet.calls() == ["h1 start /who/myfoo 0", "h1 fail /who/myfoo 0"]
