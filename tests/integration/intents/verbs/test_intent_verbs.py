"""The verbs of intents, on a real ZooKeeper and a real repository."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.branches import Branch
from support.commands import Done, invoke
from support.repository import make_key, public
from support.waiting import UNLIMITED, wait_until
from zkdeployment.base.errors import RefusedError, ZkdeploymentError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.views.requests import JobState, job_of
from zkdeployment.intents.documents import Approval, parse_subject
from zkdeployment.intents.rules.approvals import APPROVAL_NAMESPACE, approval_statement
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.keys import verify_text
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.hosts import encode as encode_host
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOP = "p1/store/v1/shop"
AMS = "ams/web1.example.com"
TREE = """\
/defaults
  greeting = '{greeting}'
/p1
  /shop
    /front : web
      version = '1.0'
      greeting => /defaults greeting
      /deploy
        /h1.example.com
    /db : db-1
      /deploy
        /h2.example.com
/net
  /vlan12 : vlan-1
    /deploy
      /web1.example.com
"""
INTENTS = """\
# The shop of Amsterdam.
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {project: p1, composite-app: store, version: v1, name: shop}
data:
  composite-profile: plain
  apps: {front: [/p1/shop/front], db: [/p1/shop/db]}
  state: Created  # see the runbook
---
schema: zkdeployment/Cluster/v1
metadata: {provider: ams, name: web1.example.com}
data: {network-intents: {vlan12: [/net/vlan12]}, state: Created}
"""


class Site:
    """A repository with intents, a ZooKeeper, and a configuration that names both."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        self.branch = Branch(directory)
        self.zookeeper = zookeeper
        self.source = GitSource(str(self.branch.bare), directory / "syncer" / "tree", gap=0)
        self.config = directory / "zkdeployment.cfg"
        self.config.write_text(
            f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]\nurl = {self.branch.bare}\nbranch = main\n"
            f"tree-directory = {directory / 'tree'}\n"
        )
        self.branch.push({"a.zk": TREE.format(greeting="hello"), "intents.yaml": INTENTS})
        self.publish()

    def push(self, greeting: str) -> None:
        """Push the tree with another value of a property that a link of the group leads to."""
        self.branch.push({"a.zk": TREE.format(greeting=greeting)})

    def publish(self) -> None:
        with Session(self.zookeeper) as session:
            Syncer(self.source, ZooKeeperPublications(session), SystemClock()).sync(SyncOptions(force=True))

    def run(self, verb: str, *words: str) -> Done:
        person = {"GIT_CONFIG_GLOBAL": "/dev/null", "SUDO_USER": "ann"}
        return invoke("intent", verb, *words, "--config", self.config, env=person)

    def at_terminal(self, typed: str, verb: str, *words: str) -> tuple[int, str]:
        """Run a verb at a terminal; return its exit code and its output."""
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        done = subprocess.run(
            [sys.executable, "-m", "zkdeployment", "intent", verb, *words, "--config", str(self.config)],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"GIT_CONFIG_GLOBAL": "/dev/null"},
            text=True,
            check=False,
        )
        os.close(theirs)
        os.close(ours)
        return done.returncode, done.stdout

    def json(self, verb: str, *words: str) -> Any:
        done = self.run(verb, SHOP, *words, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Publish every new tip of the branch, as a syncer that follows it does."""
        ended = threading.Event()

        def follow() -> None:
            published = self.branch.tip()
            while not ended.wait(0.05):
                if self.branch.tip() != published:
                    published = self.branch.tip()
                    self.publish()

        syncer = threading.Thread(target=follow)
        syncer.start()
        try:
            yield
        finally:
            ended.set()
            syncer.join()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Have a syncer judge the next tip of the branch, which it refuses."""
        last = self.branch.tip()

        def judge() -> None:
            wait_until(lambda: self.branch.tip() != last, "the next push")
            with pytest.raises(RefusedError):
                self.publish()

        with ThreadPoolExecutor() as syncer:
            judged = syncer.submit(judge)
            yield
            judged.result()

    def act(self, verb: str, subject: str = SHOP) -> None:
        done = self.run(verb, subject, "--reason", "a reason")
        assert (done.returncode, done.stdout.strip()) == (0, self.branch.tip()), done.stderr
        self.publish()


@pytest.fixture
def site(tmp_path: Path, zookeeper: str) -> Site:
    return Site(tmp_path, zookeeper)


def test_a_group_is_approved_instantiated_terminated_and_instantiated_again(site: Site) -> None:
    for verb, state in (
        ("approve", "Approved"),
        ("instantiate", "Instantiated"),
        ("terminate", "Terminated"),
        ("instantiate", "Instantiated"),
    ):
        site.act(verb)
        assert site.branch.ask("log", "-1", "--format=%an|%s") == f"ann|{verb.capitalize()} {SHOP}: a reason"
        assert site.json("status")["state"] == state
    found = site.json("instances")["instances"]
    assert [(instance["terminated"] is None, instance["by"].split()[0]) for instance in found] == [
        (True, "ann"),
        (False, "ann"),
    ]
    former = site.run("status", SHOP, "--instance", str(found[1]["id"]), "-o", "json")
    assert json.loads(former.stdout)["rsync-status"] == {"Terminated": 2}
    assert site.run("status", SHOP, "--instance", "1").returncode == 3
    assert "# see the runbook" in site.branch.files()["intents.yaml"]
    history = site.json("history")
    assert [[event["event"] for event in one["events"]] for one in history["instances"]] == [
        ["instantiated"],
        ["instantiated", "terminated"],
    ]
    first = history["instances"][1]["events"][0]
    assert (first["approved_by"].partition("@")[0], first["approval_reason"]) == ("ann", "a reason")
    shown = site.run("history", SHOP).stdout
    assert "terminated" in shown
    refused = site.run("rollback", SHOP, "--instance", str(found[1]["id"]), "--reason", "back")
    assert (refused.returncode, "terminate it first" in refused.stderr) == (3, True)
    site.act("terminate")
    site.push("good night")
    site.publish()
    back = site.run("rollback", SHOP, "--instance", str(found[1]["id"]), "--reason", "back")
    assert (back.returncode, back.stdout.strip()) == (0, site.branch.tip()), back.stderr
    assert site.json("diff")["content"] == first["content"]


def test_acts_that_the_state_does_not_allow_are_refused(site: Site) -> None:
    before = site.branch.tip()
    refused = site.run("instantiate", SHOP)
    assert (refused.returncode, refused.stderr) == (
        3,
        f"zkdeployment: {SHOP} is Created: it must be approved first\n",
    )
    assert "nothing of it is deployed" in site.run("terminate", SHOP).stderr
    assert "there is no act 'approve' for clusters" in site.run("approve", AMS).stderr
    assert "there is no intent p1/store/v1/other at the tip" in site.run("approve", "p1/store/v1/other").stderr
    assert site.branch.tip() == before
    site.run("approve", SHOP)
    again = site.run("approve", SHOP)
    assert (again.returncode, again.stdout.strip()) == (0, site.branch.tip())
    assert "nothing changes: this content is approved already" in again.stderr
    early = site.run("instantiate", SHOP)
    assert (early.returncode, "an earlier act" in early.stderr) == (3, True)
    site.publish()
    site.act("instantiate")
    twice = site.run("instantiate", SHOP)
    assert (twice.returncode, "it is instantiated already; terminate it first" in twice.stderr) == (3, True)


def test_services_that_left_their_group_are_named_and_released(site: Site) -> None:
    site.branch.push({"intents.yaml": None})
    site.publish()
    sentence = f"/p1/shop/front is not deployed to h1.example.com: it left the governance of {SHOP} with"
    assert sentence in invoke("services", "--config", site.config).stderr
    planned = invoke("plan", "--config", site.config)
    assert planned.returncode == 0, planned.stderr
    unknown = site.run("release", "/p1/shop", "--reason", "a mistake")
    assert (unknown.returncode, "/p1/shop is not among the services that left" in unknown.stderr) == (3, True)
    released = site.run("release", "/p1/shop/front", "/p1/shop/db", "--reason", "they stay")
    assert (released.returncode, released.stdout.strip()) == (0, site.branch.tip()), released.stderr
    assert site.branch.ask("log", "-1", "--format=%an|%s") == "ann|Release /p1/shop/front, /p1/shop/db: they stay"
    assert "nothing changes" in site.run("release", "/p1/shop/db", "--reason", "again").stderr
    site.publish()
    left = invoke("services", "--config", site.config).stderr
    assert "/p1/shop" not in left
    assert "/net/vlan12 is not deployed to web1.example.com: it left the governance of ams/" in left


def test_deployed_services_are_adopted_without_a_change_on_hosts(site: Site, tmp_path: Path) -> None:
    site.branch.push({"intents.yaml": None})
    site.publish()
    for path in ("/p1/shop/front", "/p1/shop/db"):
        site.run("release", path, "--reason", "they are free")
        site.publish()
    site.branch.push({"intents.yaml": INTENTS.partition("---")[0]})
    with pytest.raises(ZkdeploymentError, match="would undeploy services that are deployed without it"):
        site.publish()
    planned = invoke("plan", "--config", site.config)
    assert (planned.returncode, f"zkdeployment intent adopt {SHOP}" in planned.stderr) == (1, True), planned.stderr
    adopted = site.run("adopt", SHOP, "--reason", "the shop needs approvals")
    assert (adopted.returncode, adopted.stdout.strip()) == (0, site.branch.tip()), adopted.stderr
    site.publish()
    assert site.json("status")["state"] == "Instantiated"
    work_tree = tmp_path / "work-tree"
    work_tree.mkdir()
    for name, text in {"a.zk": TREE.format(greeting="hello"), "intents.yaml": INTENTS}.items():
        (work_tree / name).write_text(text)
    for subject in (SHOP, AMS):
        written = site.run("adopt", subject, "--work-tree", str(work_tree))
        assert written.stdout.strip() == str(work_tree / "intents.yaml"), written.stderr
    text = (work_tree / "intents.yaml").read_text()
    assert "state: Instantiated  # see the runbook" in text
    assert "state: Applied}" in text


def test_a_changed_content_is_not_instantiated_and_shown(site: Site) -> None:
    site.act("approve")
    assert site.run("diff", SHOP).returncode == 0
    site.push("good day")
    refused = site.run("instantiate", SHOP)
    assert (refused.returncode, "(changed: /defaults, /p1/shop/front)" in refused.stderr) == (3, True)
    assert "its content has changed since it was approved by ann@" in refused.stderr
    shown = site.run("diff", SHOP)
    assert (shown.returncode, shown.stdout) == (
        4,
        "/p1/shop/front change property greeting from 'hello' to 'good day'\n",
    )
    assert site.json("diff")["update"]["/p1/shop/front"]["greeting"] == "good day"
    body = site.json("show")
    assert (body["schema"], body["state"], body["tip_state"]) == ("zkdeployment/intent/v1", "Approved", "Created")
    lines = site.run("list").stdout.splitlines()
    assert [line.split()[:3] for line in lines if SHOP in line] == [[SHOP, "Approved", "Created"]]
    site.publish()
    site.act("approve")
    site.act("instantiate")


def test_an_instance_shows_its_resources_and_filters_select_among_them(site: Site) -> None:
    site.act("approve")
    site.act("instantiate")
    body = site.json("status")
    assert "schema" not in body
    assert (body["name"], body["project"], body["composite-profile-name"]) == ("shop", "p1", "plain")
    assert (body["rsync-status"], body["cluster-status"]) == ({"Retrying": 2}, {"Unknown": 2})
    assert [app["app-name"] for app in body["resources"]] == ["db", "front"]
    one = site.run("status", SHOP, "--app", "front", "--output", "detail", "-o", "json")
    resource = json.loads(one.stdout)["resources"][0]["clusters"][0]["resources"][0]
    assert (resource["Name"], resource["spec"]["version"]) == ("h1.example.com:/p1/shop/front.0", "1.0")
    both = site.run("status", SHOP, "--app", "front", "--app", "db", "--cluster", "h2.example.com", "-o", "json")
    assert json.loads(both.stdout)["rsync-status"] == {"Retrying": 1}
    table = site.run("status", SHOP).stdout
    assert f"{SHOP} is Instantiated; rsync-status: 2 Retrying; cluster-status: 2 Unknown" in table
    assert "front   h1.example.com   h1.example.com:/p1/shop/front.0" in table
    for words in (["--output", "x"], ["--app", "x"], ["--instance", "x"], ["--cluster", ""]):
        assert site.run("status", SHOP, *words).returncode == 2


def test_a_cluster_is_applied_and_terminated_without_an_approval(site: Site) -> None:
    site.act("apply", AMS)
    body = json.loads(site.run("status", AMS, "-o", "json").stdout)
    assert (body["name"], body["state"], body["rsync-status"]) == ("web1.example.com", "Applied", {"Retrying": 1})
    assert body.keys().isdisjoint({"project", "composite-app-name", "composite-profile-name"})
    by_provider = site.run("status", AMS, "--cluster", "ams+web1.example.com", "-o", "json")
    assert json.loads(by_provider.stdout)["rsync-status"] == {"Retrying": 1}
    site.act("terminate", AMS)
    assert site.run("diff", AMS).returncode == 3


def test_a_wait_ends_with_a_timeout_that_names_the_awaited_state(site: Site) -> None:
    unpublished = site.run("approve", SHOP, "--wait", "--timeout", "0.1")
    assert (unpublished.returncode, "waiting for the publication of" in unpublished.stderr) == (5, True)
    begun = time.monotonic()
    site.publish()
    suffices = max(10.0, 40 * (time.monotonic() - begun))  # for the next publication
    known = KnownHost(Identity("h2.example.com", "h2.example.com"), Inventory())
    with Session(site.zookeeper) as session:
        session.ensure("/zkdeployment/inventory/h2.example.com", encode_host(known))
    with site.following():
        done = site.run("instantiate", SHOP, "--wait", "--timeout", str(suffices))
    assert done.returncode == 5
    assert "waiting for h2.example.com:/p1/shop/db.0 (its host is absent);" in done.stderr
    assert site.run("instantiate", SHOP, "--timeout", "1").returncode == 2


def test_a_wait_ends_without_the_hosts_that_were_never_seen_and_names_them(site: Site) -> None:
    site.act("approve")
    with site.following():
        done = site.run("instantiate", SHOP, "--wait", "--timeout", str(UNLIMITED))
    assert (done.returncode, "done: 0 deployments" in done.stderr) == (0, True)
    assert "never seen: h2.example.com:/p1/shop/db.0, h1.example.com:/p1/shop/front.0" in done.stderr
    with site.following():
        ended = site.run("terminate", SHOP, "--wait", "--timeout", str(UNLIMITED))
    assert (ended.returncode, "done: 2 deployments" in ended.stderr) == (0, True)
    assert site.json("status")["rsync-status"] == {"Terminated": 2}


def test_acts_correct_a_tip_that_the_syncer_refuses_and_a_wait_prints_its_problems(site: Site) -> None:
    site.act("approve")
    commit = site.run("instantiate", SHOP, "--reason", "the shop opens").stdout.strip()
    site.push("good day")
    tip = site.branch.tip()
    with pytest.raises(RefusedError):
        site.publish()
    refused = site.run("terminate", AMS, "--wait")
    assert (refused.returncode, "nothing of it is deployed" in refused.stderr) == (3, True)
    with site.refusing():
        waited = site.run("apply", AMS, "--wait", "--timeout", str(UNLIMITED))
    assert waited.returncode == 3
    assert f"the syncer refused {str(site.branch.tip())[:12]}:\n  {SHOP} is Approved" in waited.stderr
    assert "(changed: /defaults, /p1/shop/front)" in waited.stderr
    with Session(site.zookeeper) as session:
        reader = ZooKeeperFleetReader(session)
        job = job_of(commit, reader.history(), reader.refusals(), lambda name: name in {tip, site.branch.tip()})
    assert (job.state, job.refused) == (JobState.FAILED, site.branch.tip())
    site.act("approve")
    site.act("instantiate")


def test_a_wait_ends_after_a_termination_withdrew_an_instantiation_that_was_refused(site: Site) -> None:
    site.act("approve")
    site.run("instantiate", SHOP)
    site.push("good day")
    with pytest.raises(RefusedError):
        site.publish()
    with site.following():
        ended = site.run("terminate", SHOP, "--wait", "--timeout", str(UNLIMITED))
    assert (ended.returncode, "done: 0 deployments" in ended.stderr) == (0, True), ended.stderr
    assert site.json("show")["state"] == "Terminated"


def test_the_content_of_an_instantiated_group_is_approved_in_the_change_itself(site: Site, tmp_path: Path) -> None:
    site.branch.push(
        {"intents.yaml": INTENTS.replace("  state: Created  #", "  update: approve\n  state: Created  #")}
    )
    site.publish()
    site.act("approve")
    site.act("instantiate")
    tree = tmp_path / "clone"
    site.branch.clone.git("pull", "--quiet", "--ff-only", "origin", "main")
    (tree / "a.zk").write_text(TREE.format(greeting="good day"))
    done = site.run("approve", SHOP, "--reason", "friendlier", "--work-tree", str(tree))
    assert (done.returncode, done.stdout) == (0, f"{tree / 'intents.yaml'}\n")
    assert site.run("approve", SHOP, "--work-tree", str(tree)).stdout == ""
    changed = {name: (tree / name).read_text() for name in ("a.zk", "intents.yaml")}
    site.branch.clone.git("checkout", "--quiet", "--", ".")
    unapproved = site.branch.push({"a.zk": changed["a.zk"]}, message="without the approval")
    with pytest.raises(ZkdeploymentError, match="its new content must be approved in the same change"):
        site.publish()
    assert unapproved == site.branch.tip()
    with site.following():
        waited = site.run("approve", SHOP, "--reason", "friendlier", "--wait", "--timeout", str(UNLIMITED))
    assert (waited.returncode, "done: 0 deployments" in waited.stderr) == (0, True)
    assert "never seen: h2.example.com:/p1/shop/db.0, h1.example.com:/p1/shop/front.0" in waited.stderr
    site.branch.push({"intents.yaml": changed["intents.yaml"]}, message="with the approval")
    site.publish()
    body = site.json("status", "--output", "detail")
    front = body["resources"][1]["clusters"][0]["resources"][0]
    assert (body["state"], front["spec"]["properties"]["greeting"]) == ("Instantiated", "good day")
    assert len(site.json("instances")["instances"]) == 1
    assert site.run("approve", SHOP, "--work-tree", str(tree), "--wait").returncode == 2
    missing = site.run("approve", "p1/store/v1/none", "--work-tree", str(tree))
    assert (missing.returncode, "there is no intent p1/store/v1/none in these files" in missing.stderr) == (
        3,
        True,
    )


def test_an_approval_is_signed_where_approvers_are_configured(site: Site, tmp_path: Path) -> None:
    alice, mallory = make_key(tmp_path, "alice"), make_key(tmp_path, "mallory")
    approvers = tmp_path / "approvers"
    approvers.write_text(f"alice@example.com {public(alice)}\n")
    without = site.config.read_text()
    site.config.write_text(f"{without}approvers = {approvers}\n")
    unsigned = site.run("approve", SHOP)
    assert (unsigned.returncode, "give the file of your key with --key" in unsigned.stderr) == (2, True)
    foreign = site.run("approve", SHOP, "--key", str(mallory))
    assert (foreign.returncode, "is not by one of the keys in" in foreign.stderr) == (3, True)
    assert site.run("approve", SHOP, "--key", str(alice)).returncode == 0
    site.publish()
    approval = site.json("show")["approval"]
    assert (approval["by"], approval["state"]) == ("alice@example.com", "Approved")
    statement = approval_statement(parse_subject(SHOP), Approval(**approval))
    assert verify_text(approvers, APPROVAL_NAMESPACE, statement, approval["signature"]).name == "alice@example.com"
    assert ", signed" in site.run("show", SHOP).stdout
    assert site.json("show")["approvals"] == []
    rules = tmp_path / "rules"
    rules.write_text("/p1 2 30 alice@example.com bob@example.com\n")
    site.config.write_text(f"{without}approvers = {approvers}\napproval-rules = {rules}\n")
    count = "1 of 2 approvals for /p1: alice@example.com; needs 1 more of bob@example.com"
    assert f"{count}; counts until 2" in " ".join(site.run("show", SHOP).stdout.split())
    assert "1 of 2" in site.run("list").stdout
    (counted,) = site.json("show")["approvals"]
    assert (counted["awaited"], counted["expires"]) == (["bob@example.com"], approval["instance"] + 30 * 86_400)
    rules.write_text("/p1 two\n")
    unreadable = site.run("show", SHOP)
    assert (unreadable.returncode, "approvals are not counted: " in unreadable.stderr) == (0, True)
    site.push("good day")
    site.config.write_text(without)
    assert site.run("approve", SHOP).returncode == 0
    tip = site.branch.tip()
    site.config.write_text(f"{without}approvers = {approvers}\n")
    refused = site.run("instantiate", SHOP)
    assert (refused.returncode, site.branch.tip()) == (3, tip)
    hint = f"needs signed approvals; use 'zkdeployment intent approve {SHOP} --key FILE' at a terminal"
    assert hint in refused.stderr


def test_an_approval_in_a_directory_is_signed_where_approvers_are_configured(site: Site, tmp_path: Path) -> None:
    alice, approvers = make_key(tmp_path, "alice"), tmp_path / "approvers"
    approvers.write_text(f"alice@example.com {public(alice)}\n")
    with site.config.open("a") as config:
        config.write(f"approvers = {approvers}\n")
    tree = tmp_path / "work-tree"
    tree.mkdir()
    (tree / "a.zk").write_text(TREE.format(greeting="hello"))
    (tree / "intents.yaml").write_text(INTENTS)
    for verb in ("approve", "adopt"):
        unsigned = site.run(verb, SHOP, "--work-tree", str(tree))
        assert (unsigned.returncode, "give the file of your key with --key" in unsigned.stderr) == (2, True)
    assert (tree / "intents.yaml").read_text() == INTENTS
    assert site.run("adopt", AMS, "--work-tree", str(tree)).returncode == 0
    assert site.run("approve", SHOP, "--work-tree", str(tree), "--key", str(alice)).returncode == 0
    text = (tree / "intents.yaml").read_text()
    assert ("by: alice@example.com" in text, "signature:" in text) == (True, True)


def test_a_rollback_names_the_people_whose_approvals_are_missing(site: Site, tmp_path: Path) -> None:
    for verb in ("approve", "instantiate", "terminate"):
        site.act(verb)
    (instance,) = site.json("instances")["instances"]
    site.push("good night")
    site.publish()
    alice, approvers, rules = make_key(tmp_path, "alice"), tmp_path / "approvers", tmp_path / "rules"
    approvers.write_text(f"alice@example.com {public(alice)}\n")
    rules.write_text("/p1 2 - alice@example.com bob@example.com\n")
    with site.config.open("a") as config:
        config.write(f"approvers = {approvers}\napproval-rules = {rules}\n")
    words = ("--instance", str(instance["id"]), "--reason", "back", "--key", str(alice))
    back = site.run("rollback", SHOP, *words)
    assert (back.returncode, back.stdout.strip()) == (0, site.branch.tip()), back.stderr
    assert "not approved yet: 1 of 2 approvals for /p1: alice@example.com; needs 1 more of bob" in back.stderr


def test_an_intent_that_was_never_published_is_shown_from_the_tip(site: Site) -> None:
    site.branch.push(
        {"new.yaml": INTENTS.replace("shop}", "new}").partition("---")[0].replace("/p1/shop", "/net")}
    )
    body = json.loads(site.run("show", "p1/store/v1/new", "-o", "json").stdout)
    assert (body["state"], body["tip_state"]) == (None, "Created")
    assert site.run("status", "p1/store/v1/new").returncode == 3
    assert site.run("show", "p1/store/v1/none").returncode == 3
    assert site.run("show", "shop").returncode == 2


def test_at_a_terminal_an_approval_shows_the_content_and_the_plan_and_asks(site: Site) -> None:
    before = site.branch.tip()
    refused, shown = site.at_terminal("n\n", "approve", SHOP, "--reason", "tested")
    assert (refused, site.branch.tip()) == (130, before)
    assert f"{SHOP} was never approved: the whole content is new" in shown
    assert "  add /p1/shop/front" in shown
    assert "after the instantiation:" in shown
    assert f"Approve this content of {SHOP}? [y/N]" in shown
    done, _ = site.at_terminal("y\n", "approve", SHOP, "--reason", "tested")
    assert done == 0
    site.publish()
    site.push("good day")
    again, shown = site.at_terminal("", "approve", SHOP, "--reason", "tested", "--yes")
    assert (again, "Approve this" in shown) == (0, False)
    site.publish()
    site.push("good morning")
    _, shown = site.at_terminal("n\n", "approve", SHOP)
    assert f"changed in {SHOP} since the last approval:" in shown
    assert "/p1/shop/front change property greeting from 'good day' to 'good morning'" in shown
    before = site.branch.tip()
    blind = site.run("approve", SHOP, "--content", f"sha256:{'0' * 64}")
    assert (blind.returncode, "changed after it was shown" in blind.stderr, site.branch.tip()) == (3, True, before)
    seen = site.json("diff")["content"]
    assert site.run("approve", SHOP, "--content", seen).returncode == 0
