"""A promoter process, a git server over SSH with the hook, and a real fleet: its ensemble, syncer and service."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.branches import Branch
from support.git_server import GitServer
from support.service import running_service
from support.waiting import wait_until
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.promotion.records import FleetState
from zkdeployment.promotion.store import read_promotion
from zkdeployment.publishing.acts.containment import Containment
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

HOOK = Path(__file__).parents[3] / "etc" / "git" / "update"
EU = "fleets/eu-1"

DOCUMENTS = """\
schema: zkdeployment/Fleets/v1
data:
  fleets: [{{name: eu-1, branch: fleets/eu-1, service: '{url}'}}]
---
schema: zkdeployment/Promotion/v1
data:
  groups: [{{name: all, critical: true, depends_on: [], selectors: []}}]
"""


def tree(version):
    return f"/app : hello\n  version = '{version}'\n  /deploy\n    /h1\n"


class PromotedFleet:
    """A fleet that follows fleets/eu-1, with one host; the promoter has its state in another ensemble."""

    def __init__(self, directory, zookeeper, server, publishing) -> None:
        self.directory = directory
        self.server = server
        self.publishing = publishing
        self.home = f"{zookeeper}-home"
        self.repository = Branch(directory)
        file = directory / "fleet.cfg"
        sync = f"[sync]\nurl = {self.repository.bare}\ntree-directory = {directory}/mirror\nbranch = {EU}\n"
        file.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n{sync}contained-in = main\n")
        self.settings = load(file, host=False)

    def write_promoter(self, login):
        """Write the configuration of the promoter, with its key of the service."""
        tokens = self.directory / "tokens"
        tokens.mkdir()
        (tokens / "eu-1").write_text(f"{':'.join(login)} 127.0.0.1")
        (tokens / "eu-1").chmod(0o600)
        file = self.directory / "promoter.cfg"
        file.write_text(
            f"[zkdeployment]\nzookeeper = {self.home}\n[promote]\nurl = {self.server.url(self.repository.bare)}\n"
            f"directory = {self.directory}/promoter/tree\nidentity = {self.server.keys['promoter']}\n"
            f"token-directory = {tokens}\ninterval = 0.3\n"
        )
        return file

    def push(self, version, url):
        return self.repository.push({"a.zk": tree(version), "fleets.yaml": DOCUMENTS.format(url=url)})

    def push_as_promoter(self, commit):
        """Push a commit to the branch of the fleet with the stolen key of the promoter."""
        repository, key = self.repository, self.server.keys["promoter"]
        return self.server.push(key, repository.clone.directory, repository.bare, f"{commit}:refs/heads/{EU}")

    def tip(self):
        return self.repository.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{EU}")

    def sync(self):
        """Run the syncer of the fleet once, and let its host deploy the revision."""
        mirror = self.directory / "syncer" / "tree"
        source = GitSource(str(self.repository.bare), mirror, branch=EU, gap=0, every_branch=True)
        with Session(self.publishing.zookeeper, session_timeout=6) as session:
            store = ZooKeeperPublications(session)
            Syncer(source, store, SystemClock(), containment=Containment(source, "main")).sync()
        version = self.publishing.version
        if self.publishing.client.exists("/hosts/h1") is None:
            self.publishing.register("h1", version)
        else:
            self.publishing.put("/hosts/h1", {"name": "h1", "version": version})
        return version

    def records(self):
        """Return what the promoter has recorded."""
        with Session(self.home, session_timeout=6, create_chroot=True) as session:
            return read_promotion(session)

    def standing(self):
        """Return the state, the revision and the tip of the fleet that the promoter has recorded."""
        found = self.records().standings.get("eu-1")
        return None if found is None else (found.state, found.revision, found.tip)

    def refusal(self):
        """Return the error of the fleet in the newest promotion; empty without one."""
        state = self.records().state
        return "" if state is None else state.errors.get("eu-1", "")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = GitServer(tmp_path_factory.mktemp("git-server") / "ssh")
    server.keys = {"promoter": server.admit("promoter", "promoter")}
    with server.running():
        yield server


@pytest.fixture
def fleet(tmp_path, zookeeper, server, publishing):
    return PromotedFleet(tmp_path, zookeeper, server, publishing)


@pytest.fixture
def promoter(server):
    """Run promoters; all of them end with the test."""
    running = []

    def start(file):
        environment = os.environ | {"PATH": f"{server.bin}:{os.environ['PATH']}"}
        argv = [sys.executable, "-m", "zkdeployment", "promote", "run", str(file)]
        running.append(subprocess.Popen(argv, env=environment))

    yield start
    for process in running:
        process.terminate()
        process.wait()


def test_a_revision_reaches_a_real_fleet_and_a_foreign_commit_does_not(fleet, zookeeper, promoter, monkeypatch):
    with running_service(zookeeper, repository=fleet.settings) as service:
        first = fleet.push("1.0", service.url)
        fleet.repository.ask("update-ref", f"refs/heads/{EU}", first)
        shutil.copy(HOOK, fleet.repository.bare / "hooks" / "update")
        assert fleet.sync() == first
        promoter(fleet.write_promoter(service.add_user(Role.VIEWER)))

        with monkeypatch.context() as people:
            people.setenv("ZKDEPLOYMENT_PUSHER", "operator")  # who push from this machine
            second = fleet.push("1.1", service.url)
            wait_until(lambda: fleet.tip() == second, "the promoter has moved the branch of the fleet")
            assert fleet.sync() == second
            converged = (FleetState.CONVERGED, second, second)
            wait_until(lambda: fleet.standing() == converged, "the promoter has recorded that the fleet converged")

            fleet.push("open('f')", service.url)
            wait_until(lambda: "its syncer would refuse" in fleet.refusal(), "the dry run has refused the commit")
            assert fleet.tip() == second

        forged = fleet.repository.clone.commit({"a.zk": tree("6.6.6")}, message="evil")
        done = fleet.push_as_promoter(forged)
        assert f"may only choose among the commits of main, and {forged} is not one" in done.stderr
        (fleet.repository.bare / "hooks" / "update").unlink()
        done = fleet.push_as_promoter(forged)
        assert done.returncode == 0, done.stderr
        with pytest.raises(RefusedError, match="expected a commit of main"):
            fleet.sync()
        diverged = (FleetState.DIVERGED, second, forged)
        wait_until(lambda: fleet.standing() == diverged, "the promoter has recorded that the fleet diverged")
        assert fleet.publishing.version == second
