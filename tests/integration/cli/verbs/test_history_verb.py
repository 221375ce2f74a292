"""The history command, on records of a syncer and agents: real ZooKeeper, git, agents and scripts."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from support.commands import invoke
from support.forks import run_forked
from support.waiting import wait_until
from zkdeployment.base.errors import TreeError
from zkdeployment.cli.operator_options import new_act
from zkdeployment.fleet.store.cluster_control import ZooKeeperClusterControl
from zkdeployment.fleet.views.history import FailedLogin, LoginProblem
from zkdeployment.publishing.records import ForcedBy, SyncOptions
from zkdeployment.service.users.login_store import FAILED_LOGINS, record_failed_login
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.session import Session

TREE = "/who\n  /one : foo\n    version = '{}'\n    /deploy\n      /h1\n"


@pytest.fixture
def run(zookeeper):
    def call(*argv):
        done = run_forked("history", *argv, "-z", zookeeper)
        return done.returncode, done.stdout, done.stderr

    return call


def test_an_empty_history_is_not_an_error(run):
    assert run() == (0, "", "nothing was published yet\n")


def test_refused_pushes_are_listed_with_their_commits_the_newest_first(run, publishing, session):
    assert run("--refused") == (0, "", "no refused push is recorded\n")
    session.ensure(paths.OURS)
    old = {"current": None, "refusals": [{"revision": "r1", "problems": ["the tree is empty"], "time": 1e9}]}
    publishing.put(paths.REFUSALS, old)  # by a syncer that recorded no authors
    bad = publishing.push("/who\n  x = oops\n")
    with pytest.raises(TreeError):
        publishing.sync()
    refused = json.loads(run("--refused", "-o", "json")[1])["refused"]
    assert [(each["revision"], each["author"], each["subject"]) for each in refused] == [
        (bad, "Tester <tester@example.com>", "a change"),
        ("r1", "", ""),
    ]
    heading, *rows = run("--refused")[1].strip().splitlines()
    assert heading.split() == ["REVISION", "REFUSED", "AUTHOR", "SUBJECT", "PROBLEMS"]
    assert bad[:12] in " ".join(rows)
    assert "Tester" in " ".join(rows)
    assert "a.zk:2:7: " in " ".join(rows)
    assert "the tree is empty" not in run("--refused", "-n", "1")[1]
    assert "the tree is empty" not in run("--refused", "--since", "7d")[1]


def test_publications_are_listed_with_their_outcome_and_operator_actions(run, fleet, publishing, zookeeper):
    first = publishing.push(TREE.format("1.0"))
    publishing.sync()
    host = fleet.host("h1")
    with host.agent():
        wait_until(lambda: host.has_finished(first), "the first revision")
        host.fail("/who/one 0")
        second = publishing.push(TREE.format("2.0"))
        publishing.sync()
        host.wait_for_error()
        wait_until(lambda: "failed" in run("show", second)[1], "its record")
        with Session(zookeeper) as session:
            ZooKeeperClusterControl(session).stop(new_act("stop", "let me look"))
        host.root.joinpath("fail").unlink()
        third = publishing.push(TREE.format("1.0"))
        with publishing.syncer() as syncer:
            syncer.sync(SyncOptions(force=True, forced=ForcedBy("ann@desk", "back to 1.0")))
        wait_until(lambda: host.has_finished(third), "the third revision")

    code, out, _ = run("-o", "json")
    assert code == 0
    listed = json.loads(out)["publications"]
    assert [(entry["revision"], entry["done"], entry["failed"], entry["hosts"]) for entry in listed] == [
        (third, 1, 0, 1),
        (second, 0, 1, 1),
        (first, 1, 0, 0),
    ]
    assert (listed[0]["author"], listed[0]["subject"]) == ("Tester <tester@example.com>", "a change")
    assert (listed[0]["forced_by"], listed[0]["reason"]) == ("ann@desk", "back to 1.0")
    assert listed[0]["time"] < listed[0]["ended"] + 0.1  # ends are rounded

    code, out, _ = run()
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert " ".join(lines[0]) == "REVISION PUBLISHED TOOK DONE FAILED REPAIRED OF AUTHOR SUBJECT FORCED BY"
    assert [line[0] for line in lines if line[0] in {revision[:12] for revision in (first, second, third)}] == [
        third[:12],
        second[:12],
        first[:12],
    ]
    assert len(run("--last", "1")[1].splitlines()) < len(out.splitlines())
    assert run("--since", "1h", "--until", "2100-01-01")[1] == out
    assert run("--until", "1h") == (0, "", "nothing was published in this period\n")
    assert run("--since", "yesterday")[0] == 2

    code, out, _ = run("show", second[:8], "-o", "yaml")
    document = yaml.safe_load(out)
    assert [(result["id"], result["name"]) for result in document["results"]] == [("h1", "h1.example.com")]
    assert document["results"][0]["error"].startswith("deploy /who/one 0: ")
    assert document["results"][0]["error"].endswith("failed with exit status 3")
    assert [(act["what"], act["reason"]) for act in document["acts"]] == [("stop", "let me look")]
    code, out, _ = run("show", str(listed[1]["sequence"]))
    assert "hosts      0 done, 1 failed, 1 registered when published" in out
    assert "let me look" in out
    assert run("show", "feedfeed")[0] == 3


def test_the_audit_lists_acts_with_the_guards_that_they_override_and_failed_logins(publishing, zookeeper):
    publishing.push(TREE.format("1.0"))
    publishing.sync()
    with Session(zookeeper) as session:
        login = FailedLogin(time.time(), "eve", "192.0.2.9", LoginProblem.WRONG)
        session.ensure(FAILED_LOGINS)
        record_failed_login(session, (), login)
    assert invoke("stop", "-z", zookeeper).returncode == 0
    late = invoke("resume", "--latest", "--allow-mass-removal", "--timeout", "0", "-z", zookeeper)
    assert late.returncode == 5

    shown = invoke("audit", "-z", zookeeper).stdout
    assert "no reason given" in shown
    assert "eve" in shown
    acts = json.loads(invoke("audit", "--since", "1h", "-o", "json", "-z", zookeeper).stdout)["acts"]
    assert [act["what"] for act in acts] == ["resume --latest --allow-mass-removal", "stop"]
    nothing = invoke("audit", "--until", "1h", "-z", zookeeper)
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "no act is recorded\n")
