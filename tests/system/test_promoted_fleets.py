"""Everything together: three fleets with services over TLS, a git server over SSH with its hook, and promoters."""

import configparser
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from support.certificates import Authority
from support.commands import run
from support.git_server import GitServer
from support.limits import outliving_the_test
from support.repository import Repository
from support.sandboxes import PROGRAMS, ended_with_the_tests
from support.waiting import wait_until
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.base.host import Host, Identity
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.promotion.records import FleetState
from zkdeployment.promotion.store import read_promotion
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.processes import add_user
from zkdeployment.zookeeper.session import Session

HOOK = Path(__file__).parents[2] / "etc" / "git" / "update"
HOSTS = (Host(Identity("host1", "host1.sandbox")),)

#: The fleets in the order of their groups.
FLEETS = ("eu-1", "eu-2", "us-1")
CANARY, *OTHERS = FLEETS
KEYS = {name: f"fleet:fleets/{name}" for name in FLEETS} | {
    each: each for each in ("promoter", "developer", "operator")
}


def promotion():
    """Return the document of the groups, one for each fleet, in which each fleet has to succeed."""
    groups = [
        {
            "name": name,
            "critical": True,
            "depends_on": [*FLEETS[:number]][-1:],
            "selectors": [{"node_names": [name]}],
            "success_criteria": {"percent_successful_nodes": 100},
        }
        for number, name in enumerate(FLEETS)
    ]
    return {"schema": "zkdeployment/Promotion/v1", "data": {"groups": groups}}


class Company:
    """Three fleets, of which the first one is the home of the promoters, and people with keys."""

    def __init__(self, directory, server, authority) -> None:
        self.directory, self.server, self.authority = directory, server, authority
        self.keys = {name: server.admit(name, pusher) for name, pusher in KEYS.items()}
        self.boxes = {}
        for name in FLEETS:
            self.boxes[name] = Sandbox(directory / name, adapt=lambda _description, name=name: self._adapt(name))
        self.home = self.boxes[CANARY]
        self.tree = self.home.layout.tree
        self.clone = Repository(directory / "clone")
        self.processes = []

    def _adapt(self, name):
        """Let the syncer of a fleet read the git server with the key of the fleet."""
        self._configure(name, sync={"url": self.server.url(self.tree, name)})

    def _configure(self, name, **sections):
        file, parser = self.boxes[name].layout.config, configparser.ConfigParser(interpolation=None)
        parser.read(file)
        parser.read_dict(sections)
        with file.open("w") as text:
            parser.write(text)

    def up(self):
        """Start the fleets, with services over TLS, and install the hook at the git server."""
        self.home.up(HOSTS, service=True, follows=f"fleets/{CANARY}")
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._up, OTHERS))
            pool.submit(self._add_packages)
        certificate, key = self.authority.issue("127.0.0.1")
        self.tokens = self.directory / "tokens"
        self.tokens.mkdir()
        for name, box in self.boxes.items():
            self._configure(name, server={"certificate": str(certificate), "key": str(key)})
            box.stop(["server"])
            box.start(["server"])
            file = self.tokens / name
            file.write_text(f"promoter:{add_user(box.status()['zookeeper'], 'promoter', 'viewer')} 127.0.0.1\n")
            file.chmod(0o600)
        shutil.copy(HOOK, self.tree / "hooks" / "update")
        (self.tree / "hooks" / "post-receive").write_text(f"#!/bin/sh\nexec cat >> {self.directory}/pushes\n")
        (self.tree / "hooks" / "post-receive").chmod(0o755)

    def _up(self, name):
        self.boxes[name].up(HOSTS, service=True, follows=f"fleets/{name}", home=self.home.directory)

    def _add_packages(self):
        (self.directory / "build").mkdir()
        self.home.add_rpms(samples.build(self.directory / "build", [("hello", "1.0")]))

    def push(self, key, commit, branch):
        """Push a commit with a key; return the answer of git."""
        return self.server.push(self.keys[key], self.clone.directory, self.tree, f"{commit}:refs/heads/{branch}")

    def develop(self, version, text=""):
        """Push a version of the tree to the main branch with the key of a developer; return the commit."""
        if self.tip("main"):
            self.clone.git("fetch", "--quiet", str(self.tree), "main")
            self.clone.git("reset", "--quiet", "--hard", "FETCH_HEAD")
        fleets = [
            {
                "name": name,
                "branch": f"fleets/{name}",
                "service": box.status()["server"]["url"].replace("http:", "https:"),
            }
            for name, box in self.boxes.items()
        ]
        documents = [{"schema": "zkdeployment/Fleets/v1", "data": {"fleets": fleets}}, promotion()]
        tree = samples.tree([host.identity for host in HOSTS], version=version, worker=False) + text
        files = {"demo.zk": tree, "fleets.yaml": yaml.safe_dump_all(documents)}
        commit = self.clone.commit(files, message=f"hello {version}")
        done = self.push("developer", commit, "main")
        assert done.returncode == 0, done.stderr
        return commit

    def foreign(self, parent):
        """Return a commit that the main branch does not have."""
        self.clone.git("fetch", "--quiet", str(self.tree), "main")
        self.clone.git("reset", "--quiet", "--hard", parent)
        return self.clone.commit({"demo.zk": "/evil\n"}, message="evil")

    def fleet(self, name):
        """Return a snapshot of a fleet."""
        with Session(self.boxes[name].status()["zookeeper"], session_timeout=6) as session:
            return ZooKeeperFleetReader(session).snapshot()

    def promote(self, name, **environment):
        """Start a promoter."""
        file = self._write_promotion(name, self.server.url(self.tree), identity=self.keys["promoter"])
        argv = [sys.executable, "-m", "zkdeployment", "promote", "run", str(file)]
        log = (self.directory / f"{name}.log").open("w")
        with log:
            self.processes.append(
                subprocess.Popen(argv, env=os.environ | outliving_the_test() | environment, stdout=log, stderr=log)
            )
        return self.processes[-1]

    def _write_promotion(self, name, url, **keys):
        own = {"url": url, "directory": self.directory / name, "token-directory": self.tokens, "interval": 1}
        own |= {"ca": self.authority.ca, **keys}
        file = self.directory / f"{name}.cfg"
        lines = [f"[zkdeployment]\nzookeeper = {self.zookeeper}\nroot = {self.directory}\n[promote]"]
        file.write_text("\n".join([*lines, *(f"{key} = {value}" for key, value in own.items())]) + "\n")
        return file

    @property
    def zookeeper(self):
        return self.home.status()["zookeeper"]

    def operate(self, *arguments):
        """Run a command of promotions with the key of the operator."""
        file = self._write_promotion("operator", self.server.url(self.tree, "operator"))
        environment = self.home.environment() | {"ZKDEPLOYMENT_CONFIG": str(file)}
        done = run(PROGRAMS / "zkdeployment", *arguments, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_in(self, name, *arguments):
        """Run a command in a fleet."""
        done = run(PROGRAMS / "zkdeployment", *arguments, env=self.boxes[name].environment())
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, *arguments):
        """Run git at the git server."""
        return run("git", "--git-dir", self.tree, *arguments).stdout.strip()

    def tip(self, branch):
        return self.ask("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")

    def tips(self):
        return {name: self.tip(f"fleets/{name}") for name in FLEETS}

    def moves(self):
        """Return the pushes to branches of fleets in order: the fleet and the commit."""
        lines = [line.split() for line in (self.directory / "pushes").read_text().splitlines()]
        return [(ref.rpartition("/")[2], new) for _, new, ref in lines if ref.startswith("refs/heads/fleets/")]

    @property
    def records(self):
        with Session(self.zookeeper, session_timeout=6) as session:
            return read_promotion(session)

    def result(self, commit):
        """Wait until a promotion of a commit has ended, and return its result."""

        def ended():
            history = self.records.history
            return history and history[0].revision == commit and history[0].ended is not None

        wait_until(ended, f"the promotion of {commit[:12]} has ended")
        return self.records.history[0].result


@pytest.fixture
def company(place, monkeypatch):
    server = GitServer(place / "ssh")
    monkeypatch.setenv("PATH", f"{server.bin}:{os.environ['PATH']}")
    (place / "keys").mkdir()
    company = Company(place, server, Authority(place / "keys"))
    with server.running(), ended_with_the_tests(company.home.directory):
        try:
            company.up()
            yield company
        finally:
            for process in company.processes:
                process.terminate()
                process.wait()
            for box in company.boxes.values():
                box.down()


@pytest.mark.nightly
def test_revisions_go_through_three_fleets_and_back_with_promoters_that_die(company):
    # A good revision goes through the groups in order, although the first promoter is killed between two of them.
    good = company.develop("1.0")
    killed = company.promote("first", **{VARIABLE: "before:push@2=kill"})
    wait_until(lambda: killed.poll() is not None, "the promoter is killed before its second push")
    assert killed.returncode == -signal.SIGKILL
    assert company.moves() == [(CANARY, good)]
    promoter = company.promote("second")
    assert company.result(good) == "success"
    assert company.moves() == [(name, good) for name in FLEETS]
    reached = company.records.history[0].reached
    assert sorted(FLEETS, key=reached.__getitem__) == [*FLEETS]

    # A revision that a syncer would refuse moves no branch; one that hosts cannot deploy stays in the canary.
    refused = company.develop("1.0", "open('f')\n")
    assert company.result(refused) == "failed"
    assert "its syncer would refuse" in company.records.state.errors[CANARY]
    assert set(company.tips().values()) == {good}
    bad = company.develop("9.9")
    assert company.result(bad) == "failed"
    assert "9.9" in company.records.state.errors[CANARY]
    assert company.tips() == {CANARY: bad} | dict.fromkeys(OTHERS, good)

    # The promoter's key moves neither the main branch nor a branch to another commit than those of main.
    evil = company.foreign(bad)
    assert "may only move branches below fleets/" in company.push("promoter", evil, "main").stderr
    assert "may only choose among the commits of main" in company.push("promoter", evil, "fleets/us-1").stderr
    assert "may only move the fleet's own branch" in company.push("eu-1", evil, "fleets/us-1").stderr

    # The canary rolls back by itself, with its own key: it has diverged.
    company.run_in(CANARY, "rollback", "--now", "--reason", "hello 9.9 does not exist")
    own = company.tip(f"fleets/{CANARY}")
    assert own not in {bad, good}
    assert company.ask("merge-base", own, "main") == bad

    def diverged():
        standing = company.records.standings[CANARY]
        return standing.state is FleetState.DIVERGED and standing.tip == own

    wait_until(diverged, "the promoter has recorded that the canary diverged")

    # The same rollback on the main branch, and a reset of the branch of the canary, lead back.
    company.operate("promote", "rollback", "--reason", "hello 9.9 does not exist")
    back = company.tip("main")
    company.operate("promote", "reset", CANARY, "--to", back, "--reason", "the rollback is in main")
    assert company.tip(f"fleets/{CANARY}") == back
    if company.result(back) != "success":
        company.operate("promote", "resume", "--reason", "the branch was reset")
        wait_until(lambda: company.records.history[0].result == "success", "the second attempt succeeds")
    assert company.tips() == dict.fromkeys(FLEETS, back)

    # Without the hook, a thief of that key can push a foreign commit, but the syncer of the fleet publishes none.
    (company.tree / "hooks" / "update").unlink()
    assert company.push("promoter", company.foreign(back), "fleets/us-1").returncode == 0
    wait_until(lambda: company.fleet("us-1").refusal, "the syncer has refused the commit")
    assert "expected a commit of main" in company.fleet("us-1").refusal.problems[0]
    assert company.fleet("us-1").published == back
    assert promoter.poll() is None
