"""A large publication, killed at each write while agents restart: no host ever gets a partial tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from support.agents import Fleet, put_script
from support.publishing import Publishing
from support.zookeeper import connected, expire_owner
from zkdeployment.agent.daemon.agent import CycleState
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.programs.agent import build_agent
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.store import builder as transactions
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


#: With this limit, each publication below needs four transactions between the first and the last: all under way.
LIMIT = 7
TRANSACTIONS = 6

#: Each write, before and after it.
PLACES = [f"{when}:commit@{number}" for number in range(1, TRANSACTIONS + 1) for when in ("before", "after")]

SERVICES = [f"h1 start /who/a{number} 0" for number in range(6)]

#: The syncer as a process, but for the limit.
SYNC = f"""
import sys
from zkdeployment.publishing.store import builder as publishing
from zkdeployment.programs.main import main
publishing.OPERATIONS_LIMIT = {LIMIT}
main(["sync", *sys.argv[1:]])
"""


def tree(version: str, services: int) -> str:
    """Return a tree with services ``a0``, ``a1``, ... for h1, each for another host, too."""
    return "/who\n" + "".join(
        f"  /a{number} : foo\n    version = {version!r}\n    /deploy\n      /h1\n      /x{number}\n"
        for number in range(services)
    )


OLD, NEW = tree("1.0", 2), tree("2.0", 6)


class Case:
    """One fleet: its ZooKeeper, its syncers, of which one is killed at ``place``, and one host."""

    def __init__(self, place: str, publishing: Publishing) -> None:
        self.place = place
        self.publishing = publishing
        directory, zookeeper = publishing.directory, publishing.zookeeper
        self.config = directory / "sync.cfg"
        self.config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\nroot = {directory}\n"
            f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {directory}/mirror\n"
        )
        self.fleet = Fleet(directory / "fleet", zookeeper, publishing.client)
        self.host = self.fleet.host("h1")
        put_script(self.host.root, "foo")

    @contextmanager
    def syncer(self) -> Iterator[subprocess.Popen[str]]:
        """Run the syncer as a process that is killed."""
        argv = [sys.executable, "-c", SYNC, str(self.config)]
        environment = os.environ | {VARIABLE: f"{self.place}=kill"}
        with subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def restart_agent(self) -> tuple[CycleState, list[str]]:
        """Run the agent once; return its outcome and the scripts that it called."""
        before = len(self.fleet.calls())
        with build_agent(load(self.host.config), packages=self.host.packages, session_timeout=6) as (agent, _):
            outcome = agent.run_once()
        return outcome, [call for call in self.fleet.calls()[before:] if " start " in call]

    def queue(self) -> None:
        """Queue for the lock behind the dead syncer, so that no other syncer gets it when that session ends."""
        if self.publishing.client.exists("/hosts-lock"):
            self.publishing.client.create("/hosts-lock/test__lock__", b"the test", ephemeral=True, sequence=True)

    def check_killed(self, old: str, new: str, pid: int) -> None:
        """Check the state that the dead syncer left, and restart the agent on it."""
        state = self.publishing.get("/hosts"), self.publishing.published
        if self.place == PLACES[0]:
            assert state == ({"version": old}, old)
            assert self.restart_agent() == (CycleState.DONE, [])
        elif self.place == PLACES[-1]:
            assert state == ({"version": new}, new)
            assert self.restart_agent() == (CycleState.DONE, SERVICES)
        else:
            assert state == ({"version": old, "importing": new}, None)
            assert self.restart_agent() == (CycleState.HELD, [])
            # On a slow machine the session of the dead syncer may have ended; then the test is next in the queue.
            with pytest.raises(RefusedError, match=rf"/hosts-lock is held by (.*process {pid}|the test)"):
                self.publishing.sync()

    def finish(self, new: str) -> None:
        """Sync again after the end of the dead syncer's session, and with it of its lock."""
        client = self.publishing.client
        for name in client.get_children("/hosts-lock"):
            if name.startswith("test"):
                client.delete(f"/hosts-lock/{name}")
            else:
                expire_owner(client, self.publishing.zookeeper, f"/hosts-lock/{name}")
        self.publishing.sync()
        assert (self.publishing.get("/hosts"), self.publishing.published) == ({"version": new}, new)


def test_no_host_gets_a_partial_tree_after_a_kill_at_any_write_and_the_next_syncer_completes_it(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch, zookeeper: str, tmp_path: Path
):
    old = publishing.push(OLD)
    with ExitStack() as stack:
        cases = []
        for number, place in enumerate([*PLACES, "never"]):
            publishing.client.create(f"/{number}")
            client = stack.enter_context(connected(f"{zookeeper}/{number}"))
            own = Publishing(tmp_path / str(number), f"{zookeeper}/{number}", client)
            own.repository = publishing.repository
            cases.append(Case(place, own))
        *cases, clean = cases
        for case in cases:
            case.publishing.sync()
            assert case.restart_agent() == (CycleState.DONE, SERVICES[:2])
        monkeypatch.setattr(transactions, "OPERATIONS_LIMIT", LIMIT)
        new = publishing.push(NEW)
        clean.publishing.sync()
        dying = [stack.enter_context(case.syncer()) for case in cases]
        for case, process in zip(cases, dying, strict=True):
            assert process.wait() == -signal.SIGKILL
            case.queue()
            case.check_killed(old, new, process.pid)
        for case in cases:
            case.finish(new)
            assert case.publishing.nodes() == clean.publishing.nodes()
            assert case.publishing.targets == clean.publishing.targets
            assert case.restart_agent() == (CycleState.DONE, [] if case.place == PLACES[-1] else SERVICES)


class Killed(BaseException):
    """The syncer was killed at a write."""


@pytest.mark.parametrize("other", ["c_zk", "c_zkx"])
def test_services_of_an_abandoned_publication_are_never_deployed(
    publishing: Publishing, monkeypatch: pytest.MonkeyPatch, other: str
):
    publishing.push(OLD)
    publishing.sync()
    monkeypatch.setattr(transactions, "OPERATIONS_LIMIT", LIMIT)
    publishing.push(NEW, **{other: tree("2.0", 6).replace("/who", "/other")})
    reached: list[str] = []

    def die(place: str) -> None:
        reached.append(place)
        if reached.count("after:commit") == 3:
            raise Killed

    with Session(publishing.zookeeper) as session:
        dying = Syncer(publishing.source(), ZooKeeperPublications(session, reach=die), SystemClock())
        with pytest.raises(Killed):
            dying.sync()
    assert "/other/a0/deploy/h1" in publishing.nodes()
    publishing.push(NEW, **{other: None})
    publishing.sync()
    assert not [path for path in publishing.nodes() if path.startswith("/other")]
    assert publishing.targets["h1"] == [f"/who/a{number}" for number in range(6)]
    assert publishing.get("/zkdeployment/managed") == {"names": ["who"]}
