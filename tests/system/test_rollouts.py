"""Rollouts of the documented example strategy in a sandbox of six hosts: real packages, scripts and daemons."""

import contextlib
import itertools
import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.hosts.rpms import build_rpm
from support.sandboxes import PROGRAMS, SandboxCommands
from support.strategies import EXAMPLE_FILE
from support.waiting import UNLIMITED, wait_until
from zkdeployment.sandbox.processes import VARIABLE
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state import Ending, RolloutState
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress, RolloutResult
from zkdeployment.strategies.store.records import read_current, read_leader, read_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

#: One host is in two groups, so that six hosts are enough for all five groups.
HOSTS = """\
ntp01: {rack: rack01}
ctl1: {rack: rack03, tags: [control]}
ctl2: {rack: rack03, tags: [control]}
ctl3: {rack: rack03, tags: [control, monitoring]}
one1: {rack: rack01, tags: [compute]}
two1: {rack: rack02, tags: [compute]}
"""
NAMES = ("ntp01", "ctl1", "ctl2", "ctl3", "one1", "two1")
GROUPS = ("control-nodes", "compute-nodes-1", "compute-nodes-2", "monitoring-nodes", "ntp-node")

#: A deployment script that waits while its host's block file exists, and fails if its host's fail file exists.
SCRIPT = """\
#!/bin/sh
set -eu
[ "$1" != -u ] || exit 0
shared=$ZKDEPLOYMENT_ROOT/../../../shared
echo "$ZKDEPLOYMENT_HOST_ID $ZKDEPLOYMENT_VERSION $1" >> "$shared/began"
while [ -e "$shared/block-$ZKDEPLOYMENT_HOST_ID" ]; do sleep 0.05; done
if [ -e "$shared/fail-$ZKDEPLOYMENT_HOST_ID" ]; then echo "as told" >&2; exit 1; fi
echo "$ZKDEPLOYMENT_HOST_ID $ZKDEPLOYMENT_VERSION $1" >> "$shared/ended"
"""

#: A tree that deploys to two hosts only: the other hosts adopt the revision without running scripts.
TREE = """\
/s
  /base : base
    version = '1'
    round = {round}
    /deploy
      /ctl1
      /two1
"""
EXTRA = """\
  /extra : extra
    version = '{version}'
    /deploy
      /{host}
"""

EXAMPLE = EXAMPLE_FILE.read_text(encoding="utf-8")


def paced() -> str:
    """Return the example strategy with a manual group and with a short timeout for another group."""
    document = EXAMPLE
    for name, key in {"compute-nodes-1": "manual: true", "compute-nodes-2": "deploy_timeout: 6s"}.items():
        line = f"    - name: {name}\n"
        assert line in document
        document = document.replace(line, f"{line}      {key}\n")
    return document


class Fleet:
    """The sandbox, the calls its scripts recorded, and the state of its rollouts in ZooKeeper."""

    def __init__(self, box: SandboxCommands, session: Session) -> None:
        self.box = box
        self.session = session
        self.shared = box.directory / "shared"
        self._rounds = itertools.count(1)

    def publish(self, *, extra: str = "", strategy: str = EXAMPLE) -> str:
        """Publish a new revision with a strategy, resuming a stopped fleet if necessary; return the revision."""
        tree = TREE.format(round=next(self._rounds)) + extra
        revision = self.box.push(tree, "a round", {"strategy.yaml": strategy})
        if self.version is None:
            self.box.zkdeployment("resume", "--latest", "--reason", "mended", "--timeout", UNLIMITED)
        return revision

    def revive(self) -> None:
        """Start all agents that are not running; the nodes of killed agents stay until their sessions end."""
        if dead := [name for name, host in self.box.status["hosts"].items() if host["pid"] is None]:
            assert self.box.sandbox("start", *dead).returncode == 0
        pids = {name: host["pid"] for name, host in self.box.status["hosts"].items()}
        wait_until(lambda: all(self.node(name).get("pid") == pids[name] for name in NAMES), "all agents")

    @property
    def rollout(self) -> RolloutState:
        """The state of the newest rollout."""
        state = read_state(self.session)
        assert state is not None
        return state

    def verdict(self, group: str) -> GroupVerdict | None:
        """Return the verdict on a group, or ``None`` if the group has none."""
        return self.rollout.rollout.progress[group].verdict

    def script_began(self, host: str, revision: str) -> bool:
        """Whether a host's script is running or has finished at a revision."""
        return host in self.noted("began", revision)

    def under_way(self, revision: str) -> bool:
        """Whether a rollout of a revision has started."""
        return read_current(self.session) is not None and self.rollout.revision == revision

    def over(self, revision: str) -> RolloutState:
        """Wait for the end of a revision's rollout and return its state."""
        wait_until(lambda: self.under_way(revision) and self.rollout.ended is not None, "the end of the rollout")
        return self.rollout

    def node(self, host: str) -> dict:
        """Return the properties of a host's node."""
        node = self.session.get(f"{paths.HOSTS}/{host}")
        return {} if node is None else node.properties

    @property
    def version(self) -> object:
        """The cluster version."""
        return self.session.get(paths.HOSTS).properties["version"]

    def noted(self, file_name: str, revision: str) -> list[str]:
        """Return the hosts whose script began or ended at a revision, in chronological order."""
        file = self.shared / file_name
        lines = file.read_text().splitlines() if file.exists() else []
        return [host for host, version, path in map(str.split, lines) if version == revision and path == "/s/base"]

    @contextlib.contextmanager
    def file(self, name: str):
        """Create a file that scripts check and remove it at the end; yield a function that removes it earlier."""
        file = self.shared / name
        file.touch()
        try:
            yield lambda: file.unlink(missing_ok=True)
        finally:
            file.unlink(missing_ok=True)

    def kill(self, host: str) -> None:
        """Kill a host's agent to simulate a crash."""
        os.kill(int(self.node(host)["pid"]), signal.SIGKILL)

    def kill_leader(self) -> None:
        """Kill the leading coordinator and wait until another coordinator leads."""
        before = read_leader(self.session)
        os.kill(int(before.partition("process ")[2].rstrip(")")), signal.SIGKILL)
        wait_until(lambda: read_leader(self.session) not in {None, before}, "another coordinator leads")

    def ask(self, *arguments: str) -> None:
        """Run a ``rollout`` command."""
        done = self.box.zkdeployment("rollout", *arguments)
        assert done.returncode == 0, done.stderr


def verdicts(rollout: RolloutState) -> dict[str, tuple[str, str]]:
    """Return each group's verdicts on prepare and deploy, each as its first letter."""
    letter = {GroupVerdict.SUCCESS: "s", GroupVerdict.FAILED: "f"}
    return {
        name: "".join(letter[course.verdicts[phase]] for phase in Phase)
        for name, course in rollout.rollout.progress.items()
    }


@pytest.fixture
def fleet(sandbox):
    """Return a fleet of six hosts whose agents are running."""
    sandbox.revive()
    return sandbox


@pytest.fixture(scope="module")
def sandbox(make_box, place):
    """Return a fleet with two coordinators and an initial revision without a strategy."""
    box = make_box("rollouts")
    hosts = place / "hosts.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    box.up("--hosts", hosts)
    (box.directory / "shared").mkdir()
    packages = [build_rpm(place / "rpms", name, "1", script=SCRIPT) for name in ("base", "extra")]
    assert box.sandbox("rpm", *packages).returncode == 0
    with Session(box.status["zookeeper"]) as session, second_coordinator(box):
        fleet = Fleet(box, session)
        waited = box.wait(box.push(TREE.format(round=0)))
        assert waited.returncode == 0, waited.stdout + waited.stderr
        yield fleet


@contextlib.contextmanager
def second_coordinator(box: SandboxCommands):
    command = [str(PROGRAMS / "zkdeployment"), "coordinate", box.status["config"]]
    environment = {**os.environ, VARIABLE: str(box.directory)}  # lets the sandbox end the coordinators
    with (
        Path(box.directory / "second.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as coordinator,
    ):
        try:
            yield
        finally:
            coordinator.kill()


def test_a_rollout_succeeds_although_an_agent_and_the_leader_are_killed(fleet):
    before = fleet.version
    with fleet.file("block-ctl1") as unblock:
        revision = fleet.publish(extra=EXTRA.format(version="1", host="one1"))
        wait_until(lambda: fleet.script_began("ctl1", revision), "ctl1 runs its script")
        fleet.kill("ctl1")
        assert fleet.box.sandbox("start", "ctl1").returncode == 0
        fleet.kill_leader()
        wait_until(lambda: fleet.node("ctl3").get("version") == revision, "ctl3 has nothing to do")
        assert fleet.node("one1")["version"] == before
        unblock()
        over = fleet.over(revision)
    assert over.rollout.result is RolloutResult.SUCCESS
    assert verdicts(over) == dict.fromkeys(GROUPS, "ss")
    order = over.rollout.order
    assert order.index("ntp-node") < order.index("control-nodes") < order.index("compute-nodes-1")
    assert [host for host in fleet.noted("ended", revision) if host == "two1"] == ["two1"]
    assert {fleet.node(name)["version"] for name in NAMES} == {revision}
    assert (fleet.box.root("one1") / "opt/extra/bin/zookeeper-deploy").exists()


@pytest.mark.nightly
def test_a_failed_prepare_of_the_ntp_node_fails_the_rollout(fleet):
    revision = fleet.publish(extra=EXTRA.format(version="9", host="ntp01"))
    over = fleet.over(revision)
    assert over.rollout.result is RolloutResult.FAILED
    assert verdicts(over) == dict.fromkeys(GROUPS, "ff") | {"monitoring-nodes": "ss"}
    assert "extra" in over.errors["ntp01"]
    assert "extra" in fleet.node("ntp01")["error"]
    assert over.rollout.hosts["ctl1"] is HostProgress.NOT_STARTED
    assert [name for name in NAMES if fleet.node(name)["version"] == revision] == ["ctl3"]
    assert fleet.noted("began", revision) == []
    assert fleet.version is None
    assert "ntp-node" in fleet.box.zkdeployment("status").stdout


@pytest.mark.nightly
def test_a_non_critical_group_that_fails_in_deploy_does_not_block_the_next_revision(fleet):
    with fleet.file("fail-two1"):
        revision = fleet.publish()
        over = fleet.over(revision)
    assert over.rollout.result is RolloutResult.PARTIAL
    assert verdicts(over) == dict.fromkeys(GROUPS, "ss") | {"compute-nodes-2": "sf"}
    assert "exit status 1" in fleet.node("two1")["error"]
    assert fleet.version == revision
    assert [name for name in NAMES if fleet.node(name)["version"] != revision] == ["two1"]


@pytest.mark.nightly
def test_an_operator_pauses_resumes_and_promotes_and_a_killed_host_counts_as_failed(fleet):
    with fleet.file("block-ctl1") as unblock, fleet.file("block-two1"):
        revision = fleet.publish(strategy=paced())
        wait_until(lambda: fleet.script_began("ctl1", revision), "ctl1 runs its script")
        fleet.ask("pause", "--reason", "coffee")
        unblock()
        wait_until(lambda: fleet.node("ctl1").get("version") == revision, "ctl1 finishes")
        wait_until(lambda: "paused by" in fleet.rollout.waiting, "nothing new begins")
        assert fleet.rollout.rollout.progress["compute-nodes-2"].submitted == {}
        fleet.ask("resume")
        ended = GroupVerdict.FAILED, GroupVerdict.SUCCESS
        wait_until(
            lambda: fleet.script_began("two1", revision) or fleet.verdict("compute-nodes-2") in ended, "two1"
        )
        fleet.kill("two1")
        wait_until(lambda: fleet.verdict("compute-nodes-2") in ended, "its time is over")
        wait_until(lambda: "promote compute-nodes-1" in fleet.rollout.waiting, "the manual group waits")
        fleet.ask("promote", "compute-nodes-1", "--reason", "looks good")
        over = fleet.over(revision)
    assert over.rollout.result is RolloutResult.PARTIAL
    assert verdicts(over) == dict.fromkeys(GROUPS, "ss") | {"compute-nodes-2": "sf"}
    assert "did not end within 6 s" in over.errors["two1"]
    assert fleet.version == revision


@pytest.mark.nightly
def test_after_an_abort_and_a_resume_a_new_rollout_starts_with_the_hosts_that_are_behind(fleet):
    with fleet.file("block-ctl1"):
        revision = fleet.publish()
        wait_until(lambda: fleet.script_began("ctl1", revision), "ctl1 runs its script")
        fleet.ask("abort", "--reason", "wrong week")
        aborted = fleet.over(revision)
        assert (aborted.ending, fleet.version) == (Ending.ABORTED, None)
    wait_until(lambda: "deploying" not in fleet.node("ctl1"), "ctl1 ends its step and stops")
    done = fleet.box.zkdeployment("resume", "--reason", "right week", "--timeout", UNLIMITED)
    wait_until(lambda: fleet.rollout.attempt == 2, "another attempt")
    over = fleet.over(revision)
    assert over.rollout.result is RolloutResult.SUCCESS, done.stderr
    assert over.rollout.progress["monitoring-nodes"].submitted == {Phase.PREPARE: (), Phase.DEPLOY: ()}
    assert {fleet.node(name)["version"] for name in NAMES} == {revision}
    converged = fleet.box.wait(revision)
    assert converged.returncode == 0, converged.stdout
