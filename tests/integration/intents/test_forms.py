"""The forms of acts on intents: the effects that they show, and the equality of the shown and the real effects."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.builders import make_package
from support.commands import invoke
from support.fleets.written import WrittenFleet
from support.forks import run_forked
from support.intents import GROUP
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.web.forms import follow, submit
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import IntentState, UpdateRule
from zkdeployment.intents.store import INTENTS
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from httpx import Client, Response


SHOP = "/v2/projects/p1/composite-apps/store/v1/deployment-intent-groups/shop"
IDENTITY = Identity("w0", "w0.example.com")
PAGE = "/intents/p1/store/v1/shop"
TREE = """\
/p1
  /shop
    /front : shop-front
      version = '{}'
      /deploy
        /w0
    /db : shop-db
      version = '1'
      /deploy
        /w0
"""


class Stage:
    """A fleet of one host, a syncer that publishes when it is told to, and an operator's browser."""

    def __init__(
        self, branch: Branch, service: RunningService, syncer: Syncer, browser: Client, fleet: WrittenFleet
    ) -> None:
        self.branch = branch
        self.service = service
        self.browser = browser
        self._syncer = syncer
        self._fleet = fleet

    def push(self, version: str, **intent: object) -> None:
        """Push a version of the front, and the group."""
        document = render_document(replace(GROUP, **intent).to_document())
        self.branch.push({"a.zk": TREE.format(version), "shop.yaml": document})

    def sync(self) -> None:
        """Publish the tip, and wait until the service has read that."""
        self._syncer.sync(SyncOptions(force=True))
        last = self.service.adapters.operator.session.last_transaction()
        wait_until(lambda: self._read() >= last, "the service has read the publication")

    def converge(self, revision: str) -> None:
        """Let the host have a revision, and wait until the service has read that."""
        self._fleet.register(Host(IDENTITY, revision))
        feed = self.service.adapters.feed
        wait_until(lambda: feed.snapshot().status.converged, "the service has read the host")

    def _read(self) -> int:
        try:
            return self.service.adapters.feed.snapshot().zxid
        except ZkdeploymentError:
            return 0

    def open(self, page: str, label: str, of: str = "/acts/") -> Response:
        """Return the form behind the link with a label on a page."""
        return follow(self.browser, self.browser.get(page), label, of=of)

    def act(self, form: Response, button: str, text: str = "reviewed") -> None:
        """Submit a form, and publish."""
        answer = submit(self.browser, form, button, {"reason": text})
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].endswith(f"job={self.branch.tip()}")
        self.sync()


@pytest.fixture
def stage(zookeeper: str, tmp_path: Path) -> Iterator[Stage]:
    branch = Branch(tmp_path)
    branch.push({"a.zk": TREE.format("1.2")})
    with (
        WrittenFleet(zookeeper) as fleet,
        Session(zookeeper) as session,
        running_service(zookeeper, commits=branch.commits()) as service,
    ):
        fleet.register(Host(IDENTITY))
        packages = {"glibc": (make_package("glibc", "2.34"),)}
        write_inventory(session, KnownHost(IDENTITY, Inventory(packages=packages), 5.0))
        source = GitSource(str(branch.bare), tmp_path / "syncer" / "tree", gap=0)
        syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
        with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
            yield Stage(branch, service, syncer, browser, fleet)


def test_an_approval_shows_the_content_the_differences_and_the_plan_and_covers_only_that(stage: Stage):
    viewer = stage.service.add_user(Role.VIEWER)

    def difference(**headers: str) -> Response:
        return stage.service.client.get(f"{SHOP}/diff", auth=viewer, headers=headers)

    stage.push("1.2", update=UpdateRule.APPROVE)
    stage.sync()
    form = stage.open(PAGE, "Approve")
    for shown in ("add /p1/shop/front", "property version = &#39;1.2&#39;", "1 host would change", "sha256:"):
        assert shown in form.text
    stage.branch.push({"a.zk": TREE.format("1.3")})
    refused = submit(stage.browser, form, "Approve", {"reason": "looks right"})
    assert (refused.status_code, "changed after it was shown" in refused.text) == (409, True)
    assert "property version = &#39;1.3&#39;" in refused.text
    stage.act(refused, "Approve")
    assert difference().json()["is_approved"] is True
    stage.act(stage.open(PAGE, "Instantiate"), "Instantiate")

    stage.branch.push({"a.zk": TREE.format("1.4")})
    found = difference().json()
    assert (found["is_approved"], found["update"]) == (
        False,
        {"/p1/shop/front": {"type": "shop-front", "version": "1.4"}},
    )
    text = difference(Accept="text/plain")
    assert text.headers["content-type"].startswith("text/plain")
    assert text.text == "/p1/shop/front change property version from '1.3' to '1.4'\n"
    form = stage.open(PAGE, "Approve")
    for shown in ("from &#39;1.3&#39; to &#39;1.4&#39;", "in place", found["content"]):
        assert shown in form.text
    stage.act(form, "Approve")
    assert stage.service.client.get(f"{SHOP}/status", auth=viewer).json()["state"] == "Instantiated"
    assert "approved already" in stage.open(PAGE, "Approve").text
    assert stage.service.client.get(f"{SHOP[:-4]}none/diff", auth=viewer).status_code == 404

    history = stage.service.client.get(f"{SHOP}/history", auth=viewer).json()
    (instance,) = history["instances"]
    events = [(event["event"], event["approved_by"].partition("@")[0]) for event in instance["events"]]
    assert events == [("instantiated", "ann"), ("updated", "ann")]
    stage.branch.push({"a.zk": TREE.format("1.5")})
    page = stage.browser.get(PAGE)
    assert f"History of instance {instance['id']}" in page.text
    form = stage.open(PAGE, f"Roll back to {instance['id']}")
    assert "are restored. Hosts deploy it in place." in form.text
    stage.branch.push({"a.zk": TREE.format("1.6")})
    refused = submit(stage.browser, form, "Roll back", {"reason": "1.5 loses sessions"})
    assert (refused.status_code, "the situation has changed" in refused.text) == (409, True)
    assert stage.branch.files()["a.zk"] == TREE.format("1.6")
    stage.act(refused, "Roll back", "1.6 loses sessions, too")
    assert stage.branch.files()["a.zk"] == TREE.format("1.4")
    audit = stage.browser.get("/audit").text
    assert f"intent rollback to instance {instance['id']} of p1/store/v1/shop" in audit
    operator = stage.service.add_user(Role.OPERATOR, "bob")
    order = {"instance": instance["id"], "reason": "as it was"}
    assert stage.service.client.post(f"{SHOP}/rollback", json=order, auth=operator).status_code == 200
    assert stage.service.client.post(f"{SHOP}/rollback", json=order, auth=viewer).status_code == 403
    unknown = stage.service.client.post(f"{SHOP}/rollback", json=order | {"instance": 1}, auth=operator)
    assert unknown.status_code == 404
    unknown = stage.browser.get("/acts/intent-rollback?subject=p1/store/v1/shop&instance=1")
    assert "There is no such instance" in unknown.text


def test_services_are_released_and_adopted_by_forms(stage: Stage):
    stage.push("1.2")
    stage.sync()
    stage.branch.push({"shop.yaml": None})
    stage.sync()
    wait_until(lambda: "/p1/shop/front" in stage.browser.get("/intents").text, "the service has read what left")
    form = stage.open("/intents", "Release", of="front")
    for shown in ("It left the governance of p1/store/v1/shop", "version = &#39;1.2&#39;", "1 host would change"):
        assert shown in form.text
    stage.branch.push({"a.zk": TREE.format("1.3")})
    refused = submit(stage.browser, form, "Release", {"reason": "it is free"})
    assert (refused.status_code, "changed after it was shown" in refused.text) == (409, True)
    stage.act(refused, "Release")
    stage.act(stage.open("/intents", "Release", of="db"), "Release")
    wait_until(lambda: ">Release<" not in stage.browser.get("/intents").text, "both services are released")

    question = {"subject": "p1/store/v1/shop", "apps": "front=/p1/shop/front db=/p1/shop/db"}
    form = submit(stage.browser, stage.browser.get("/intents"), "Show what will happen", question)
    for shown in ("Adopt the services of p1/store/v1/shop", "version = &#39;1.3&#39;", "becomes Instantiated"):
        assert shown in form.text
    stage.act(form, "Adopt")
    wait_until(lambda: stage.browser.get(PAGE).status_code == 200, "the service has read the intent")
    assert "is Instantiated" in stage.browser.get(PAGE).text
    again = submit(
        stage.browser, stage.browser.get("/intents"), "Show what will happen", {"subject": "p1/store/v1/shop"}
    )
    assert "it is instantiated already" in again.text
    for wrong, status in (
        ({"subject": "shop"}, 400),
        (question | {"apps": "front"}, 400),
        ({"subject": "a/b"}, 404),
    ):
        assert stage.browser.get("/acts/intent-adopt", params=wrong).status_code == status
    assert stage.browser.get("/acts/intent-release?path=/none").status_code == 404


def test_an_intent_that_waits_for_its_approval_is_seen_everywhere_and_approved_from_every_page(stage, zookeeper):
    stage.push("1.2", state=IntentState.CREATED)
    stage.sync()
    revision = stage.branch.tip()
    stage.converge(revision)
    waits = "intent p1/store/v1/shop waits for a decision: it is not approved, so nothing of it is deployed"
    command = "'zkdeployment intent approve p1/store/v1/shop' approves it"

    status = invoke("status", "-o", "json", "-z", zookeeper)
    monitored = run_forked("monitor", "--cluster", "-z", zookeeper)
    page = stage.browser.get("/").text

    (decision,) = json.loads(status.stdout)["decisions"]
    assert (status.returncode, decision["sentence"]) == (0, f"{waits}; {command}")
    assert (monitored.returncode, command in monitored.stdout) == (1, True), monitored.stdout
    assert "<h1>Intent p1/store/v1/shop waits for a decision</h1>" in page
    assert invoke("status", "--wait", revision, "--timeout", 60, "-z", zookeeper).returncode == 0
    read = stage.service.adapters.operator.fleet.snapshot().decisions
    assert read == stage.service.adapters.feed.snapshot().fleet.decisions != ()

    stage.act(stage.open("/locks", "Approve p1/store/v1/shop"), "Approve")
    stage.converge(stage.branch.tip())
    status = invoke("status", "-o", "json", "-z", zookeeper)
    assert (status.returncode, json.loads(status.stdout)["decisions"]) == (0, [])
    assert "<h1>The host has the wanted revision</h1>" in stage.browser.get("/").text


def test_a_fleet_without_intents_sends_no_request_for_decisions(stage, monkeypatch):
    stage.sync()
    read, session = [], stage.service.adapters.operator.session
    look = session.look
    monkeypatch.setattr(
        session, "look", lambda nodes, lists: (read.extend([*nodes, *lists]), look(nodes, lists))[1]
    )

    snapshot = stage.service.adapters.operator.fleet.snapshot()

    assert (snapshot.decisions, len(read) > 0) == ((), True)
    assert [path for path in read if path.startswith(INTENTS)] == []
