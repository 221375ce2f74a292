"""Every act on every page: its form is opened from the page, and submitted with exactly the fields that it has."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.builders import make_host, make_known_host
from support.fleets.written import WrittenFleet
from support.intents import CLUSTER, GROUP, TREE, begun, recorded
from support.metrics import probe_of
from support.pools.builders import POOLS_DOCUMENT, add_ready_nodes, add_tenant, contextualizing, make_node
from support.service import RunningService, running_service
from support.strategies import advanced_rollout, group, plain_hosts, strategy
from support.waiting import wait_until
from support.web.forms import follow, form_of, submit
from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Retry
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.deployment import DeploymentFailure, HostResult
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import Approval, Intent, IntentState
from zkdeployment.intents.feed import records_of
from zkdeployment.intents.rules.content import intent_content
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.pools.feed import pools_of
from zkdeployment.pools.opening import pool_adapters_of
from zkdeployment.pools.rules.node import NodeState, PoolNode, fail
from zkdeployment.pools.rules.snapshot import PoolChange
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.hosts import encode as encode_host
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.users.user import Role
from zkdeployment.strategies.progress import start
from zkdeployment.strategies.state import RolloutFacts
from zkdeployment.strategies.strategy import Pace
from zkdeployment.tree.lint import lint
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from httpx import Client, Response
    from kazoo.client import KazooClient

    from support.publishing import Publishing


@dataclass
class Stage:
    """A fleet of one host with two publications, and an operator's browser without JavaScript."""

    zookeeper: str
    service: RunningService
    fleet: WrittenFleet
    branch: Branch
    revisions: tuple[str, str]
    browser: Client

    def open(self, page: str, label: str, *, of: str = "/acts/") -> Response:
        """Return the form behind the link with a label on a page."""
        return follow(self.browser, self.browser.get(page), label, of=of)

    def submit(
        self, form: Response, button: str, texts: dict[str, str] | None = None, *ticks: str, back: str
    ) -> None:
        """Submit a form, which leads back to a page."""
        answer = submit(self.browser, form, button, texts, *ticks)
        assert (answer.status_code, answer.headers.get("location")) == (303, back), answer.text
        self.wait_for_the_act()

    def wait_for_the_act(self) -> None:
        """Wait until pages show all nodes that the last act wrote: the service may read one of them earlier."""
        wait_until(self._has_read_the_act, "the service has read what the act wrote")

    def _has_read_the_act(self) -> bool:
        read, written = (
            self.service.adapters.feed.snapshot().fleet,
            self.service.adapters.operator.fleet.snapshot(),
        )
        read_acts, written_acts = ((each.cluster, each.stops, each.maintenance) for each in (read, written))
        return read_acts == written_acts

    def acts(self) -> list[tuple[str, str]]:
        """Return the acts of the operator on the fleet."""
        acts = self.service.adapters.operator.fleet.acts()
        return [(act.what, act.reason) for act in acts if act.by == "ann"]


@pytest.fixture
def stage(zookeeper: str, tmp_path: Path) -> Iterator[Stage]:
    branch = Branch(tmp_path)
    revisions = tuple(branch.push({"a.zk": TREE.format(version)}) for version in ("1.2", "1.3"))
    with WrittenFleet(zookeeper) as fleet, running_service(zookeeper, commits=branch.commits()) as service:
        for version, revision in zip(("1.2", "1.3"), revisions, strict=True):
            fleet.publish(revision, TREE.format(version))
        host = make_host("w0", revisions[1], "web")
        fleet.register(host)
        wait_until(lambda: len(_history(service)) == len(revisions), "the service has read the fleet")
        with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
            yield Stage(zookeeper, service, fleet, branch, revisions, browser)


def _history(service: RunningService) -> list[int]:
    try:
        assert service.adapters.feed.snapshot().fleet.hosts
        return [record.sequence for record in service.adapters.feed.history(9)]
    except (UnreachableError, AssertionError):
        return []


@contextmanager
def syncer(stage: Stage, directory: Path) -> Iterator[None]:
    """Run a syncer that publishes when an operator requests it."""
    with Session(stage.zookeeper) as session:
        store, control = ZooKeeperPublications(session), Control(SystemClock())
        worker = Syncer(GitSource(str(stage.branch.bare), directory, gap=0), store, SystemClock())
        follower = Follower(
            worker, store, control, connect=session.open, notifier=SystemdNotifier({}), probe=probe_of(session)
        )
        thread = threading.Thread(target=follower.run, args=(3600.0,))
        thread.start()
        try:
            yield
        finally:
            control.stop()
            thread.join()


def test_a_fleet_is_stopped_resumed_and_held(stage: Stage):
    back = "/?state=converged"
    stage.submit(stage.open(back, "Stop"), "Stop the fleet", {"reason": "web loses sessions"}, back=back)
    stage.submit(stage.open("/", "Resume"), "Resume the fleet", {"reason": ""}, back="/")
    stage.submit(stage.open("/", "Hold"), "Hold the fleet", {"reason": "rack 7"}, back="/")
    assert stage.acts() == [("stop", "web loses sessions"), ("resume", ""), ("hold", "rack 7")]


def test_a_resumption_predicts_its_duration_only_without_a_strategy(stage: Stage):
    fleet, old, pace = stage.fleet, stage.revisions[0], "1 host takes about 1 min at the pace"
    done = HostResult("w1", "w1", time.time() + 90, 1.0)
    fleet.publish(old, TREE.format("1.2"), results=[done])
    stage.submit(stage.open("/", "Stop"), "Stop the fleet", {"reason": "broken"}, back="/")
    assert pace in stage.open("/", "Resume").text
    fleet.publish(old, TREE.format("1.2"), strategy=strategy(group("all", hosts="w0")), results=[done])
    wait_until(lambda: stage.service.adapters.feed.snapshot().fleet.governed, "the strategy is read")
    stage.submit(stage.open("/", "Stop"), "Stop the fleet", {"reason": "broken"}, back="/")
    assert pace not in stage.open("/", "Resume").text


def test_a_fleet_is_resumed_at_the_tip_of_the_branch(stage: Stage, tmp_path: Path):
    stage.submit(stage.open("/", "Stop"), "Stop the fleet", {"reason": "broken"}, back="/")
    fix = stage.branch.push({"a.zk": TREE.format("1.4")})
    with syncer(stage, tmp_path / "tree"):
        stage.submit(stage.open("/", "Resume"), "Resume the fleet", {"reason": "a fix"}, "latest", back="/")
    assert stage.service.adapters.operator.fleet.snapshot().cluster.revision == fix
    assert stage.acts()[-1] == ("resume --latest", "a fix")


def test_the_fleet_is_rolled_back_to_an_earlier_publication(stage: Stage):
    page = f"/history/{_history(stage.service)[-1]}"
    form = stage.open(page, "Roll back to this")
    assert "It undoes 1 commit" in form.text
    assert "<del>-      version = &#39;1.3&#39;</del>" in form.text
    assert "<ins>+      version = &#39;1.2&#39;</ins>" in form.text
    assert "No strategy governs the rollback: all hosts without the revision deploy at once." in form.text
    stage.submit(form, "Roll back", {"reason": "back"}, "quarantine", back=page)
    assert stage.branch.files()["a.zk"] == TREE.format("1.2")
    assert "quarantine-shop-front-1.3.yaml" in stage.branch.files()
    assert stage.branch.ask("log", "-1", "--format=%an|%s", "main").startswith("ann|Roll back to")


def test_the_page_of_a_failed_host_offers_the_end_of_the_stop_and_the_rollback(stage: Stage, tmp_path: Path):
    done = HostResult("w0", "w0", 1.0, 2.0)
    for version, revision in zip(("1.2", "1.3"), stage.revisions, strict=True):
        stage.fleet.publish(revision, TREE.format(version), subject=f"Web {version}", results=[done])
    failure = DeploymentFailure(2, "deploy /shop/front 0")
    stage.fleet.register(make_host("w0", stage.revisions[0], "web", error="exit status 1", failed=failure))
    stage.submit(stage.open("/", "Stop"), "Stop the fleet", {"reason": "broken"}, back="/")
    page = "/hosts/w0"
    wait_until(lambda: "Roll back to" in stage.browser.get(page).text, "the page shows the failure")
    assert "zkdeployment resume" not in stage.browser.get(page).text
    frame = stage.browser.get("/locks").text
    assert 0 < frame.find("Roll back to “Web 1.2”") < frame.find("/acts/resume?")
    with stage.service.browser(stage.service.add_user(Role.VIEWER)) as viewer:
        text = viewer.get(page).text
    assert "/acts/" not in text
    assert "zkdeployment resume" in text
    stage.submit(stage.open(page, "Resume the fleet"), "Resume the fleet", {"reason": "repaired"}, back=page)
    assert stage.acts()[-1] == ("resume", "repaired")
    with syncer(stage, tmp_path / "tree"):
        stage.submit(stage.open(page, "Roll back to “Web 1.2”"), "Roll back", {"reason": "back"}, back=page)
    assert stage.branch.files()["a.zk"] == TREE.format("1.2")


def test_a_failed_host_is_tried_again_from_its_page_and_from_the_front_page(stage: Stage):
    failed = replace(make_host("w0", stage.revisions[0], "web"), error="exit status 1")
    stage.fleet.fail(failed, "deploy /shop/front 0", "exit status 1", stage.revisions[1])
    stage.fleet.register(failed)
    page = "/hosts/w0"
    for back, label in ((page, "Retry the host"), ("/", "Retry w0.example.com")):
        wait_until(lambda back=back, label=label: label in stage.browser.get(back).text, "the failure is shown")
        form = stage.open(back, label)
        assert "The fleet stays stopped: no other host starts a step." in form.text
        stage.submit(form, "Retry the host", {"reason": "repaired"}, back=back)
        assert stage.acts()[-1] == ("retry of w0", "repaired")
    cluster = stage.service.adapters.operator.fleet.snapshot().cluster
    assert cluster.retry == Retry("w0", stage.revisions[1])
    stage.submit(stage.open("/", "Resume"), "Resume the fleet", {"reason": ""}, back="/")
    wait_until(lambda: "Retry w0.example.com" not in stage.browser.get("/").text, "the stop has ended")
    answer = stage.browser.get("/acts/retry?host=w0")
    assert "The fleet is running, and single hosts are retried only while it is stopped" in answer.text


def test_a_host_enters_and_leaves_maintenance_from_its_page(stage: Stage):
    stage.fleet.register(make_host("w0", stage.revisions[1], "web"))
    page = "/hosts/w0"
    wait_until(lambda: "Put into maintenance" in stage.browser.get(page).text, "the host is read")
    form = stage.open(page, "Put into maintenance")
    assert "Publications and rollouts do not wait for it." in form.text
    texts = {"until": "2001-01-01T00:00Z", "reason": "its disk is replaced"}
    again = submit(stage.browser, form, "Put into maintenance", texts)
    assert (again.status_code, "expected a time in the future" in again.text) == (409, True)
    stage.submit(again, "Put into maintenance", texts | {"until": "2h"}, back=page)
    assert stage.acts()[-1] == ("cordon w0 until 2h", "its disk is replaced")
    assert "by ann: its disk is replaced" in stage.browser.get(page).text
    form = stage.open(page, "End the maintenance")
    stage.submit(form, "End the maintenance", {"reason": ""}, back=page)
    assert stage.acts()[-1] == ("uncordon w0", "")
    late = submit(stage.browser, form, "End the maintenance", {"reason": ""})
    assert (late.status_code, "so there is nothing to end" in late.text) == (409, True)


CHANGED = "Nothing was done, because the situation has changed since this form was opened."


def refused(stage: Stage, form: Response, button: str, *words: str) -> Response:
    """Submit a form that was opened in another situation; return the form that is shown again."""
    again = submit(stage.browser, form, button, {"reason": "as seen"})
    assert (again.status_code, CHANGED in again.text) == (409, True), again.text
    assert [word for word in words if word not in again.text] == []
    assert "as seen" not in [reason for _, reason in stage.acts()]
    return again


def bob_stops(stage: Stage) -> None:
    stage.service.adapters.operator.cluster.stop(Act("bob", "stop", "web loses sessions", 1.0))
    stage.wait_for_the_act()


def test_a_form_that_was_opened_before_a_stop_does_not_publish_after_it(stage: Stage, tmp_path: Path):
    tip = stage.branch.push({"a.zk": TREE.format("1.4")})
    form = stage.browser.get(f"/acts/publish?commit={tip}&back=/")
    bob_stops(stage)
    again = refused(
        stage,
        form,
        "Publish the tip of the branch",
        "the fleet is running at",
        "(stopped by bob: web loses sessions)",
    )
    assert "The stop of the fleet ends, and hosts deploy the new revision." in again.text
    with syncer(stage, tmp_path / "tree"):
        stage.submit(again, "Publish the tip of the branch", {"reason": "the fix"}, back="/")
    assert stage.service.adapters.operator.fleet.snapshot().cluster.revision == tip


def test_a_stop_that_was_not_on_the_form_is_not_removed(stage: Stage):
    stage.submit(stage.open("/", "Stop"), "Stop the fleet", {"reason": "rack 7"}, back="/")
    form = stage.open("/", "Resume")
    bob_stops(stage)
    again = refused(stage, form, "Resume the fleet", "stopped by bob: web loses sessions")
    stage.submit(again, "Resume the fleet", {"reason": "bob agrees"}, back="/")
    assert stage.service.adapters.operator.fleet.snapshot().stops == ()


def test_a_rollback_does_not_undo_commits_that_its_form_did_not_show(stage: Stage):
    page = f"/history/{_history(stage.service)[-1]}"
    form = stage.open(page, "Roll back to this")
    tip = stage.branch.push({"a.zk": TREE.format("1.4")})
    again = refused(stage, form, "Roll back", f"and the branch is at {tip[:12]}")
    assert "It undoes 2 commits" in again.text
    stage.submit(again, "Roll back", {"reason": "back"}, back=page)
    assert stage.branch.files()["a.zk"] == TREE.format("1.2")


def test_a_stop_is_made_in_every_situation(stage: Stage):
    form = stage.open("/", "Stop")
    stage.fleet.publish(stage.revisions[0], TREE.format("1.2"))
    feed = stage.service.adapters.feed
    wait_until(lambda: feed.snapshot().fleet.published == stage.revisions[0], "the publication is read")
    stage.submit(form, "Stop the fleet", {"reason": "broken"}, back="/")
    assert stage.acts() == [("stop", "broken")]


def test_a_form_without_its_situation_is_shown_again(stage: Stage):
    bob_stops(stage)
    fields = form_of(stage.open("/", "Resume"), "Resume the fleet").fields({})
    del fields["situation"]
    again = stage.browser.post("/acts/resume", data=fields)
    assert (again.status_code, CHANGED in again.text, "Then:" in again.text) == (409, True, False)


def test_a_rollback_is_published_at_once(stage: Stage, tmp_path: Path):
    page = f"/history/{_history(stage.service)[-1]}"
    with syncer(stage, tmp_path / "tree"):
        stage.submit(stage.open(page, "Roll back to this"), "Roll back", {"reason": "back"}, "now", back=page)
    assert stage.service.adapters.operator.fleet.snapshot().cluster.revision == stage.branch.tip()


def test_a_rollback_needs_no_reason_and_puts_the_undone_versions_into_quarantine(stage: Stage):
    page = f"/history/{_history(stage.service)[-1]}"
    stage.submit(stage.open(page, "Roll back to this"), "Roll back", {}, "quarantine", back=page)
    assert "no reason given" in stage.branch.files()["quarantine-shop-front-1.3.yaml"]


def test_a_form_that_is_shown_again_after_a_mistake_can_be_corrected(stage: Stage, client: KazooClient):
    client.create("/role-locks/web/lr-0000000001", b'{"requestor": "h9", "hostname": "h9"}', makepath=True)
    form = stage.open("/locks", "Release", of="role-locks")
    again = submit(stage.browser, form, "Release the lock", {"reason": " "})
    assert (again.status_code, "The reason is missing" in again.text) == (422, True)
    stage.submit(again, "Release the lock", {"reason": "burnt"}, back="/locks")
    assert client.get_children("/role-locks/web") == []


@pytest.mark.parametrize(
    ("label", "button", "what", "paused"),
    [
        ("Pause the rollout", "Pause the rollout", "rollout pause", None),
        (
            "Resume the rollout",
            "Resume the rollout",
            "rollout resume",
            Act("bob", "rollout pause", "latency", 1.0),
        ),
        ("Promote", "Promote the group", "rollout promote rest", None),
        ("Abort the rollout", "Abort the rollout", "rollout abort", None),
    ],
)
def test_a_rollout_is_directed(stage: Stage, label: str, button: str, what: str, paused: Act | None):
    plan = strategy(group("first", hosts="w0"), replace(group("rest", "first"), pace=Pace(manual=True)))
    revision = stage.revisions[0]
    sequence = stage.fleet.publish(revision, TREE.format("1.2"), strategy=plan)
    facts = RolloutFacts(now=1.0, present=plain_hosts(["w0"]))
    begun = start(plan, facts, sequence=sequence, attempt=1, revision=revision)
    if label == "Promote":  # only a group that waits is promoted
        begun = advanced_rollout(begun, until="rest")
    stage.fleet.begin_rollout(replace(begun, paused=paused))
    wait_until(lambda: stage.service.adapters.feed.snapshot().fleet.rollout is not None, "the rollout is read")
    form = stage.open("/rollout", label)
    if button != "Pause the rollout":  # to pause is safe in every situation
        bob_stops(stage)
        form = refused(stage, form, button, f"the rollout {begun.id} of", "the fleet is stopped at")
    stage.submit(form, button, {"reason": "latency"}, back="/rollout")
    assert stage.acts() == [(what, "latency")]


def test_the_locks_of_services_and_of_roles_are_released(stage: Stage, client: KazooClient):
    stage.fleet.hold_lock("/p1/shop/front", Identity("w0", "w0.example.com"), step="deploy /p1/shop/front 0")
    client.create("/role-locks/web/lr-0000000001", b'{"requestor": "h9", "hostname": "h9"}', makepath=True)
    service = stage.open("/locks", "Release", of="shop%2Cfront")
    assert form_of(service, "Release the lock").hidden["situation"] == "w0.example.com (w0) holds the lock"
    refused = submit(stage.browser, service, "Release the lock", {"reason": "stuck"})
    assert (refused.status_code, "has worked under the lock" in refused.text) == (409, True)
    stage.submit(refused, "Release the lock", {"reason": "stuck"}, "force", back="/locks")
    role = stage.open("/locks", "Release", of="role-locks")
    stage.submit(role, "Release the lock", {"reason": "burnt"}, back="/locks")
    assert client.get_children("/role-locks/web") == []
    assert client.get_children("/agent-locks/p1,shop,front") == []
    assert [reason for _, reason in stage.acts()] == ["stuck", "burnt"]


CONTENT = intent_content(GROUP, lint([SourceFile("a.zk", TREE.format("1.3").encode())]).tree)
APPROVED = replace(GROUP, approval=Approval(CONTENT.digest, "jane@example.com", "reviewed"))


@pytest.mark.parametrize(
    ("intent", "state", "label", "after"),
    [
        (GROUP, IntentState.CREATED, "Approve", "Approved"),
        (APPROVED, IntentState.APPROVED, "Instantiate", "Instantiated"),
        (APPROVED, IntentState.INSTANTIATED, "Terminate", "Terminated"),
        (CLUSTER, IntentState.CREATED, "Apply", "Applied"),
        (CLUSTER, IntentState.APPLIED, "Terminate", "Terminated"),
    ],
)
def test_an_intent_goes_through_its_life_cycle(
    stage: Stage, intent: Intent, state: IntentState, label: str, after: str
):
    written = replace(intent, state=state)
    stage.branch.push({"intent.yaml": render_document(written.to_document())})
    stage.fleet.record(IntentRecord(written, state, content=CONTENT))
    wait_until(partial(records_of, stage.service.adapters.feed), "the service has read the intent")
    page = f"/intents/{'/'.join(intent.subject)}"
    answer = submit(stage.browser, stage.open(page, label), label, {"reason": "reviewed"})
    assert answer.status_code == 303, answer.text
    assert answer.headers["location"] == f"{page}?job={stage.branch.tip()}"
    assert f"state: {after}" in stage.branch.files()["intent.yaml"]


@dataclass
class PoolStage:
    """Host pools, an admin's browser and a tenant's."""

    service: RunningService
    admin: Client
    tenant: Client

    def add(self, state: NodeState, name: str) -> int:
        """Add a node in a state, and wait until the service has read it."""
        store = pool_adapters_of(self.service.adapters).store
        (number,) = store.take_ids(1)
        node = make_node(number, state, pool="web", hostname=name, reusable=True)
        if state is NodeState.FAILED:
            node = fail(replace(node, state=NodeState.DEPROVISIONING), "no route", 1)
        store.commit(PoolChange(nodes=(node,)), store.read())
        wait_until(lambda: number in pools_of(self.service.adapters.feed).snapshot.nodes, "the node")
        return number

    def acts(self) -> list[str]:
        """Return the acts of the admin."""
        return [act.what for act in self.service.adapters.operator.fleet.acts() if act.by == "boss"]


@pytest.fixture
def pools(zookeeper: str, publishing: Publishing) -> Iterator[PoolStage]:
    publishing.push(TREE.format("1"), pools_yaml=POOLS_DOCUMENT)
    publishing.sync()
    with running_service(zookeeper) as service:
        wait_until(service.has_read, "the service has read the fleet")
        users = service.adapters.users
        admin, tenant = (
            add_tenant(users, name, role) for name, role in (("boss", Role.ADMIN), ("ci", Role.TENANT))
        )
        with service.browser(("boss", admin.key)) as first, service.browser(("ci", tenant.key)) as second:
            yield PoolStage(service, first, second)


def test_a_tenant_requests_extends_and_retires_a_session(pools: PoolStage):
    store, browser = pool_adapters_of(pools.service.adapters).store, pools.tenant
    add_ready_nodes(store, 1)
    wait_until(lambda: "pool=web" in browser.get("/pools").text, "the service has read the node")
    with contextualizing(store):
        form = follow(browser, browser.get("/pools"), "Request", of="pool=web")
        asked = submit(browser, form, "Request", {"nodes-web": "1"})
        assert asked.status_code == 303, asked.text
        (number,) = store.read().sessions
        wait_until(
            lambda: f"Session {number} has begun" in browser.get(asked.headers["location"]).text, "it began"
        )
    ends = store.read().sessions[number].expires_at
    form = follow(browser, browser.get("/pools"), "Extend", of="/pools/acts/")
    assert submit(browser, form, "Extend the session", {"hours": "2"}).status_code == 303
    assert store.read().sessions[number].expires_at == ends + 7200.0
    form = follow(browser, browser.get("/pools"), "Retire", of="/pools/acts/")
    assert submit(browser, form, "Retire the session").status_code == 303
    assert not store.session(number).is_active


@pytest.mark.parametrize(
    ("state", "label", "button", "after"),
    [
        (NodeState.UNUSED, "Retire", "Retire the node", NodeState.DONE),
        (NodeState.READY, "Drain", "Drain the node", NodeState.DEPROVISIONING),
        (NodeState.FAILED, "Forgive", "Forgive the node", NodeState.DEPROVISIONING),
        (NodeState.FAILED, "Retire", "Retire the node", NodeState.DONE),
    ],
)
def test_an_admin_acts_on_a_node(pools: PoolStage, state: NodeState, label: str, button: str, after: NodeState):
    number = pools.add(state, "n1.example.com")
    form = follow(pools.admin, pools.admin.get("/pools"), label, of="/pools/acts/")
    assert submit(pools.admin, form, button, {"reason": "the switch"}).status_code == 303
    assert pool_adapters_of(pools.service.adapters).store.node(number).state is after
    assert pools.acts() == [f"{label.lower()} node {number}"]


def test_an_admin_adds_a_machine_and_a_host_of_the_fleet(pools: PoolStage, publishing: Publishing):
    host = make_known_host("h1", Inventory(), address="192.0.2.1", idle_role="spare")
    publishing.client.create("/zkdeployment/inventory/h1", encode_host(host), makepath=True)
    publishing.register("h1", "r1", "h1.example.com")
    feed = pools.service.adapters.feed
    wait_until(lambda: feed.snapshot().status.hosts and feed.known_hosts(["h1"]), "the service has read the host")
    page = pools.admin.get("/pools")
    machine = {"hostname": "m1.example.com", "ipaddr": "192.0.2.9", "values": 'cores=8 slots="8" rack="a b"'}
    form = follow(pools.admin, page, "Add a node")
    assert submit(pools.admin, form, "Add the node", machine, "once").status_code == 303
    form = follow(pools.admin, page, "Add a node")
    added = submit(pools.admin, form, "Add the node", {"hostname": "h1", "comment": "spare"}, "host")
    assert added.status_code == 303, added.text
    first, second = pool_adapters_of(pools.service.adapters).store.read().nodes.values()
    assert (first.hostname, first.reusable, first.data) == (
        "m1.example.com",
        False,
        {"cores": 8, "slots": "8", "rack": "a b"},
    )
    assert (second.host, second.comment) == ("h1", "spare")


def test_an_admin_fills_a_pool(pools: PoolStage):
    pool_adapters_of(pools.service.adapters).store.announce("worker on adm1")
    pools.add(NodeState.FAILED, "n1.example.com")
    form = follow(pools.admin, pools.admin.get("/pools"), "Fill now", of="pool=web")
    assert submit(pools.admin, form, "Fill the pool", {"reason": "a demonstration"}).status_code == 303
    assert pools.acts() == ["fill pool web"]


def test_a_person_logs_in_and_out(stage: Stage):
    browser = stage.browser
    out = submit(browser, browser.get("/locks"), "Log out")
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    name, key = stage.service.add_user(Role.VIEWER, "victor")
    entry = browser.get(browser.get("/locks").headers["location"])
    entered = submit(browser, entry, "Log in", {"name": name, "key": key})
    assert (entered.status_code, entered.headers["location"]) == (303, "/locks")


@pytest.mark.parametrize(
    ("path", "button", "field"),
    [
        ("/?state=converged", "Find", "text"),
        ("/services", "Find", "text"),
        ("/intents?state=Created", "Find", "text"),
        ("/intents/p1/store/v1/shop", "Find", "text"),
        ("/checks", "Find", "text"),
        ("/pools", "Find", "text"),
        ("/audit", "Find", "who"),
        ("/plan", "Show the plan", "revision"),
    ],
)
def test_a_page_shows_the_result_of_its_search_form(stage: Stage, path: str, button: str, field: str):
    stage.fleet.record(recorded(replace(GROUP, state=IntentState.INSTANTIATED), IntentState.INSTANTIATED, begun()))
    pools = pool_adapters_of(stage.service.adapters).store
    pools.commit(
        PoolChange(nodes=(PoolNode(id=1, state=NodeState.UNUSED, created_at=1, changed=1),)), pools.read()
    )
    wait_until(partial(records_of, stage.service.adapters.feed), "the service has read the intent")
    admin = stage.service.add_user(Role.ADMIN, "boss")
    with stage.service.browser(admin) as browser:
        wait_until(lambda: button in browser.get(path).text, "the page has its form")
        before = browser.get(path)
        found = submit(browser, before, button, {field: "w0"})
        form = form_of(found, button)
    assert form.texts == {field: "w0"}
    assert form.hidden == form_of(before, button).hidden
