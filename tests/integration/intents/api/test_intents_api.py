"""``/v2``: groups and clusters, acts on them as commits, and their status, at EMCO's addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.builders import make_host
from support.fleets.written import WrittenFleet
from support.intents import APPROVAL, CLUSTER, GROUP, begun, recorded
from support.repository import make_key, public
from support.service import RunningService, running_service
from support.waiting import PATIENCE, wait_until
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.source_files import SourceFile
from zkdeployment.documents.edits import render_document
from zkdeployment.fleet.events.event import EventKind
from zkdeployment.intents.acts.intents import IntentOrder, approve_intent
from zkdeployment.intents.documents import IntentState
from zkdeployment.intents.feed import INTENTS_PART
from zkdeployment.intents.rules.edits import find_intent
from zkdeployment.intents.verification import approval_signer
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service import act_routes
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from zkdeployment.intents.rules.instances import IntentRecord

GROUPS = "/v2/projects/p1/composite-apps/store/v1/deployment-intent-groups"
SHOP = f"{GROUPS}/shop"
LEFT = "/api/v1/left-services"
CLUSTERS = "/v2/cluster-providers/ams/clusters"

TREE = """\
/p1
  /shop
    /front : shop-front
      version = '1.3'
      /deploy
        /web
          n = 2
    /db : shop-db
      version = '1'
      /deploy
        /db
    /spare : shop-front
      version = '1.3'
      /deploy
/net
  /vlan12 : net-vlan
    version = '1'
    /deploy
      /web
"""


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    branch = Branch(tmp_path)
    branch.push({"a.zk": TREE})
    return branch


@pytest.fixture
def fleet(zookeeper: str) -> Iterator[WrittenFleet]:
    with WrittenFleet(zookeeper) as fleet:
        hosts = [make_host(f"w{n}", "r1", "web") for n in range(2)]
        fleet.register(*hosts)
        fleet.publish("r1", TREE)
        fleet.report(*(host.identity for host in hosts))
        yield fleet


@pytest.fixture
def service(zookeeper: str, branch: Branch) -> Iterator[RunningService]:
    with running_service(zookeeper, commits=branch.commits()) as running:
        yield running


@pytest.fixture
def sync(zookeeper: str, branch: Branch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Publish the tip of the branch, as the syncer does."""
    with Session(zookeeper) as session:
        source = GitSource(str(branch.bare), tmp_path / "syncer" / "tree", gap=0)
        syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
        yield lambda: syncer.sync(SyncOptions(force=True))


def publish(service: RunningService, fleet: WrittenFleet, *records: IntentRecord) -> None:
    """Write records, and wait until the service has read them."""
    fleet.record(*records)

    def is_read() -> bool:
        try:
            known = service.adapters.feed.snapshot().reading.of(INTENTS_PART)
        except UnreachableError:
            return False
        return {subject: record.state for subject, record in known.items()} == {
            record.intent.subject: record.state for record in records
        }

    wait_until(is_read, "the service has read the intents")


def test_the_status_is_the_body_of_emco_with_filters(service: RunningService, fleet: WrittenFleet):
    get, viewer = service.client.get, service.add_user(Role.VIEWER)
    publish(
        service,
        fleet,
        recorded(GROUP, IntentState.INSTANTIATED, begun()),
        recorded(CLUSTER, IntentState.CREATED),
    )

    body = get(f"{SHOP}/status", auth=viewer).json()
    assert {key: value for key, value in body.items() if key != "resources"} == {
        "name": "shop",
        "project": "p1",
        "composite-app-name": "store",
        "composite-app-version": "v1",
        "composite-profile-name": "plain",
        "state": "Instantiated",
        "rsync-status": {"Pending": 4},
        "cluster-status": {"Present": 4},
    }
    (front,) = body["resources"]
    assert (front["app-name"], front["clusters"][0]["name"]) == ("front", "web")
    assert front["clusters"][0]["resources"][0] == {
        "GVK": {"Group": "zkdeployment", "Version": "v1", "Kind": "Deployment"},
        "Name": "w0:/p1/shop/front.0",
        "rsync-status": "Pending",
        "cluster-status": "Present",
    }
    summary = get(f"{SHOP}/status", params={"output": "summary", "resource": "w0:/p1/shop/front.0"}, auth=viewer)
    assert (summary.json()["rsync-status"], "resources" in summary.json()) == ({"Pending": 1}, False)
    for cluster in ("web", "ams+web"):
        found = get(f"{SHOP}/status", params=[("cluster", "none"), ("cluster", cluster)], auth=viewer).json()
        assert found["cluster-status"] == {"Present": 4}
    assert get(f"{SHOP}/status", params={"cluster": "none"}, auth=viewer).json()["resources"] == []
    assert get(f"{SHOP}/status?instance", auth=viewer).json() == {
        "instances": [{"id": 7, "instantiated": 1000.0, "terminated": None, "by": "jane@example.com"}]
    }
    assert get(f"{SHOP}/status?instance=7&output=rsync", auth=viewer).json()["state"] == "Instantiated"
    assert get(f"{CLUSTERS}/web/status", auth=viewer).json() == {"name": "web", "state": "Created"}


def test_a_malformed_filter_is_answered_by_400(service, fleet):
    viewer = service.add_user(Role.VIEWER)
    publish(service, fleet, recorded(GROUP, IntentState.INSTANTIATED, begun()))
    for query, status, detail in (
        ("clutser=web", 400, "unknown parameter 'clutser': did you mean cluster? expected one of: app, cluster"),
        ("output=much", 400, "output is much: expected one of: summary, all, detail, rsync"),
        ("app=", 400, "app is empty"),
        ("app=front&app=back", 400, "has no app back; expected one of: db, front"),
        ("instance=x", 400, "expected the id of one instance, a number"),
        ("instance=9", 404, "has no instance 9"),
    ):
        answer = service.client.get(f"{SHOP}/status?{query}", auth=viewer)
        assert (answer.status_code, detail in answer.json()["detail"]) == (status, True), answer.text


def test_documents_are_those_of_the_last_publication(service, fleet):
    get, viewer = service.client.get, service.add_user(Role.VIEWER)
    approved = replace(GROUP, state=IntentState.APPROVED, approval=APPROVAL)
    publish(service, fleet, recorded(approved, IntentState.CREATED), recorded(CLUSTER, IntentState.CREATED))

    shop = get(SHOP, auth=viewer).json()
    assert shop == GROUP.to_document() | {
        "data": {
            "composite-profile": "plain",
            "apps": {"db": ["/p1/shop/db"], "front": ["/p1/shop/front"]},
            "state": "Created",
            "approval": {"content": APPROVAL.content, "by": "jane@example.com", "reason": "reviewed"},
        }
    }
    assert get(GROUPS, auth=viewer).json() == [shop]
    assert get(CLUSTERS, auth=viewer).json() == [get(f"{CLUSTERS}/web", auth=viewer).json()]
    assert get(f"{CLUSTERS}/web", auth=viewer).json() == CLUSTER.to_document()
    assert get("/v2/cluster-providers/nobody/clusters", auth=viewer).json() == []
    first, second = get("/api/v1/intents", auth=viewer).json()
    assert (first["subject"], first["state"], first["instance"]) == ("p1/store/v1/shop", "Created", None)
    assert (first["document"], first["address"], second["address"]) == (shop, SHOP, f"{CLUSTERS}/web")
    assert get("/api/v1/intents?state=Created", auth=viewer).status_code == 400
    for unknown in (f"{GROUPS}/none", f"{GROUPS}/none/status", f"{CLUSTERS}/none", f"{CLUSTERS}/none/status"):
        assert get(unknown, auth=viewer).status_code == 404


def test_a_group_is_created_approved_changed_and_removed_by_commits(service, fleet, branch):
    ann, victor = service.add_user(Role.OPERATOR, "ann"), service.add_user(Role.VIEWER, "victor")
    document = {
        "metadata": {"name": "shop"},
        "data": {"composite-profile": "plain", "apps": {"front": ["/p1/shop/spare"]}, "update": None},
    }
    wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
    client = service.client
    assert client.post(GROUPS, json=document, auth=victor).status_code == 403
    created = client.post(GROUPS, json=document, params={"reason": "a shop"}, auth=ann)
    assert (created.status_code, created.json()) == (202, {"job": branch.tip()})
    assert branch.ask("log", "-1", "--format=%an|%s", "main") == "ann|Create p1/store/v1/shop: a shop"
    assert "intent-p1-store-v1-shop.yaml" in branch.files()
    assert client.post(GROUPS, json=document, auth=ann).status_code == 409
    refused = client.post(f"{SHOP}/instantiate", auth=ann)
    assert (refused.status_code, "must be approved first" in refused.json()["detail"]) == (409, True)
    assert client.post(f"{SHOP}/approve", json={"content": "x"}, auth=ann).status_code == 422
    publish(service, fleet, recorded(replace(GROUP, apps={"front": ("/p1/shop/spare",)}), IntentState.CREATED))

    changed = document | {"data": document["data"] | {"composite-profile": "large", "state": "Created"}}
    answer = client.put(SHOP, json=changed, auth=ann)
    assert (answer.status_code, answer.json()["job"]) == (202, branch.tip())
    assert "composite-profile: large" in branch.files()["intent-p1-store-v1-shop.yaml"]
    assert client.put(SHOP, json=changed, auth=ann).status_code == 200
    approved = client.post(f"{SHOP}/approve", auth=ann)
    assert (approved.status_code, approved.json()["job"]) == (202, branch.tip())
    assert "state: Approved" in branch.files()["intent-p1-store-v1-shop.yaml"]
    early = client.post(f"{SHOP}/instantiate", json={"reason": "go"}, auth=ann)
    assert (early.status_code, "not published yet" in early.json()["detail"]) == (409, True)
    stated = document | {"data": document["data"] | {"state": "Instantiated"}}
    assert client.put(SHOP, json=stated, auth=ann).status_code == 409
    assert client.delete(f"{GROUPS}/none", auth=ann).status_code == 404


def test_where_approvals_need_a_signature_they_are_made_at_a_terminal(zookeeper, fleet, branch, tmp_path):
    key, approvers, rules = make_key(tmp_path, "alice"), tmp_path / "approvers", tmp_path / "rules"
    rules.write_text("/ 1 - *\n")
    approvers.write_text(f"alice@example.com {public(key)}\n")
    unsigned = "it has no signature by one of the approvers; this fleet needs signed approvals; use 'zkdeployment"
    unsigned += " intent approve p1/store/v1/shop --key FILE' at a terminal"
    branch.push({"shop.yaml": render_document(GROUP.to_document())})
    commits = branch.commits(approvers=approvers, rules=rules)
    with running_service(zookeeper, commits=commits) as service:
        ann, client = service.add_user(Role.OPERATOR, "ann"), service.client
        publish(service, fleet, recorded(GROUP, IntentState.CREATED))

        def refusal(verb: str) -> tuple[int, bool, bool]:
            tip = branch.tip()
            answer = client.post(f"{SHOP}/{verb}", json={"reason": "go"}, auth=ann)
            return answer.status_code, unsigned in answer.json()["detail"], branch.tip() == tip

        assert refusal("approve") == (409, True, True)
        document = client.get(SHOP, auth=ann).json()
        (count,) = document["approvals"]
        assert (count["path"], count["missing"], count["expires"]) == ("/", 1, None)
        assert client.get("/api/v1/intents", auth=ann).json()[0]["approvals"] == [count]
        assert client.put(SHOP, json=document, auth=ann).status_code == 200
        with service.browser(ann) as browser:
            page = browser.get("/intents/p1/store/v1/shop").text
            assert "this fleet needs signed approvals" in page
            assert "0 of 1 approvals for /; needs 1 more of the approvers" in page
            assert "/acts/intent-approve" not in page
        order = IntentOrder(subject=GROUP.subject, author=Author("eve", "eve@example.com"), record=None)
        approve_intent(branch.commits("eve"), order)
        assert refusal("instantiate") == (409, True, True)
        branch.push({"shop.yaml": render_document(GROUP.to_document())})
        approve_intent(branch.commits("alice-acts"), replace(order, sign=approval_signer(key, approvers)))
        files = [SourceFile(name, text.encode()) for name, text in branch.files().items()]
        approved = find_intent(files, GROUP.subject).intent
        publish(service, fleet, recorded(approved, IntentState.APPROVED))
        assert client.post(f"{SHOP}/instantiate", auth=ann).status_code == 202


def test_a_cluster_is_applied_terminated_and_removed(service, fleet, branch):
    ann = service.add_user(Role.OPERATOR, "ann")
    file = "cluster-ams-web.yaml"
    branch.push({file: render_document(CLUSTER.to_document())})
    publish(service, fleet, recorded(CLUSTER, IntentState.CREATED))
    client = service.client
    assert client.post(f"{CLUSTERS}/web/terminate", auth=ann).status_code == 409
    applied = client.post(f"{CLUSTERS}/web/apply", json={"reason": "go"}, auth=ann)
    assert (applied.status_code, applied.json()["job"]) == (202, branch.tip())
    assert "state: Applied" in branch.files()[file]
    publish(service, fleet, recorded(replace(CLUSTER, state=IntentState.APPLIED), IntentState.APPLIED))
    assert client.delete(f"{CLUSTERS}/web", auth=ann).status_code == 409
    assert client.post(f"{CLUSTERS}/web/terminate", auth=ann).status_code == 202
    publish(service, fleet, recorded(replace(CLUSTER, state=IntentState.TERMINATED), IntentState.TERMINATED))
    removed = client.delete(f"{CLUSTERS}/web", params={"reason": "gone"}, auth=ann)
    assert (removed.status_code, file in branch.files()) == (202, False)


def test_a_group_goes_through_its_life_and_each_step_is_seen_at_once(service, sync, branch, monkeypatch):
    monkeypatch.setattr(act_routes, "_LONGEST", PATIENCE)  # a busy service reads a publication later
    ann, client = service.add_user(Role.OPERATOR, "ann"), service.client
    branch.push({"shop.yaml": render_document(GROUP.to_document())})

    def act(verb: str) -> dict[str, object]:
        answer = client.post(f"{SHOP}/{verb}", json={"reason": "a test"}, auth=ann)
        assert answer.status_code == 202, answer.text
        sync()
        job = client.get(f"/api/v1/jobs/{answer.json()['job']}", auth=ann).json()
        assert job["state"] == "processed"
        status: dict[str, object] = client.get(f"{SHOP}/status", auth=ann).json()
        return status

    sync()
    wait_until(lambda: client.get(SHOP, auth=ann).status_code == 200, "the group is published")
    assert client.post(f"{SHOP}/instantiate", auth=ann).status_code == 409
    assert act("approve")["state"] == "Approved"
    assert act("instantiate")["state"] == "Instantiated"
    assert client.put(SHOP, json={"data": group_data({"front": ["/p1/shop/front"]})}, auth=ann).status_code == 409
    assert client.post(f"{SHOP}/approve", json={"reason": "x"}, auth=ann).status_code == 409
    assert client.delete(SHOP, auth=ann).status_code == 409
    ended = act("terminate")
    (listed,) = client.get(f"{SHOP}/status?instance", auth=ann).json()["instances"]
    assert (ended["state"], listed["terminated"] is None) == ("Terminated", False)
    kinds = [event for batch in service.adapters.feed.recent_events().batches for event in batch.events]
    intents = [event.to_json() for event in kinds if event.kind is EventKind.INTENT]
    assert {"id": "p1/store/v1/shop", "former": "Approved", "begun": True} in [
        {key: event[key] for key in ("id", "former", "begun")} for event in intents
    ]
    assert any(event["ended"] for event in intents)


def test_services_that_left_governance_are_listed_and_released(service, sync, branch):
    ann, client = service.add_user(Role.OPERATOR, "ann"), service.client
    ben = service.add_user(Role.OPERATOR, "ben", paths=("/p1/shop/front",))
    victor = service.add_user(Role.VIEWER, "victor")

    def paths_of_left() -> list[str]:
        answer = client.get(LEFT, auth=victor)
        return [one["path"] for one in answer.json()] if answer.status_code == 200 else []

    def release(user: tuple[str, str], *paths: str) -> httpx.Response:
        return client.post("/api/v1/releases", json={"paths": paths, "reason": "they are free"}, auth=user)

    branch.push({"shop.yaml": render_document(GROUP.to_document())})
    sync()
    revision = branch.push({"shop.yaml": None})
    sync()
    wait_until(lambda: paths_of_left() == ["/p1/shop/db", "/p1/shop/front"], "both services left governance")
    assert client.get(LEFT, auth=victor).json()[0] == {
        "path": "/p1/shop/db",
        "target": None,
        "former": "p1/store/v1/shop",
        "revision": revision,
        "deployed": False,
    }
    for user, path, status in (
        (victor, "/p1/shop/front", 403),
        (ann, "p1/shop/front", 400),
        (ben, "/p1/shop/db", 403),
        (ann, "/p1/shop", 404),
        (ann, "/p1/shop/none", 404),
    ):
        answer = release(user, "/p1/shop/front", path)
        assert (answer.status_code, branch.tip()) == (status, revision), answer.text
    released = release(ben, "/p1/shop/front")
    assert (released.status_code, released.json()) == (202, {"job": branch.tip()})
    assert branch.ask("log", "-1", "--format=%an|%s", "main") == "ben|Release /p1/shop/front: they are free"
    assert (release(ben, "/p1/shop/front").status_code, branch.tip()) == (200, released.json()["job"])
    sync()
    assert client.get(f"/api/v1/jobs/{released.json()['job']}", auth=victor).json()["state"] == "processed"
    wait_until(lambda: paths_of_left() == ["/p1/shop/db"], "the front is released")
    assert release(ann, "/p1/shop/front").status_code == 404


def test_deployed_services_are_adopted_with_a_new_document_and_with_the_one_of_the_branch(service, sync, branch):
    ann, client = service.add_user(Role.OPERATOR, "ann"), service.client
    ben = service.add_user(Role.OPERATOR, "ben", paths=("/p1/shop/db",))
    sync()
    wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
    document = {"metadata": {"name": "shop"}, "data": group_data({"front": ["/p1/shop/front"]})}
    refused = client.post(GROUPS, json=document, auth=ann)
    assert (refused.status_code, "would undeploy services" in refused.json()["detail"]) == (409, True)
    adoption = {"adopt": "true", "reason": "it needs approvals"}
    tip = branch.tip()
    assert client.post(GROUPS, json=document, params=adoption, auth=ben).status_code == 403
    assert branch.tip() == tip
    adopted = client.post(GROUPS, json=document, params=adoption, auth=ann)
    assert (adopted.status_code, adopted.json()) == (202, {"job": branch.tip()})
    assert branch.ask("log", "-1", "--format=%an|%s", "main") == "ann|Adopt p1/store/v1/shop: it needs approvals"
    sync()
    wait_until(lambda: client.get(f"{SHOP}/status", auth=ann).status_code == 200, "the group is published")
    assert client.get(f"{SHOP}/status", auth=ann).json()["state"] == "Instantiated"
    again = client.post(f"{SHOP}/adopt", auth=ann)
    assert (again.status_code, "it is instantiated already" in again.json()["detail"]) == (409, True)

    tip = branch.push({"vlan.yaml": render_document(CLUSTER.to_document())})
    assert client.post(f"{CLUSTERS}/web/adopt", auth=ben).status_code == 403
    for unknown in (f"{GROUPS}/none", f"{CLUSTERS}/none"):
        assert client.post(f"{unknown}/adopt", auth=ann).status_code == 404
    assert branch.tip() == tip
    adopted = client.post(f"{CLUSTERS}/web/adopt", json={"reason": "as it is"}, auth=ann)
    assert (adopted.status_code, adopted.json()) == (202, {"job": branch.tip()})
    sync()
    wait_until(
        lambda: client.get(f"{CLUSTERS}/web/status", auth=ann).status_code == 200, "the cluster is published"
    )
    assert client.get(f"{CLUSTERS}/web/status", auth=ann).json()["state"] == "Applied"


def test_a_document_that_is_not_valid_is_refused(service, branch):
    ann = service.add_user(Role.OPERATOR, "ann")
    tip = branch.tip()
    wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
    named, apps = {"metadata": {"name": "x"}}, {"a": ["/p1"]}
    for document, status, detail in (
        ({"data": group_data(apps)}, 422, "metadata.name is missing"),
        ({"metadata": {"name": "a b"}, "data": group_data(apps)}, 422, "a name of at most"),
        ({"metadata": {"name": "x", "project": "p2"}, "data": group_data(apps)}, 400, "is p2: expected p1"),
        (named | {"data": group_data(apps, state="Approved")}, 422, "expected the state Created"),
        (named | {"data": group_data(apps, color="red")}, 422, "data.color"),
        (
            named | {"data": group_data(apps), "schema": "zkdeployment/Cluster/v1"},
            422,
            "expected zkdeployment/Depl",
        ),
        (named | {"data": group_data(apps | {"b": ["/p1/shop"]})}, 422, "/p1 of a overlap"),
    ):
        answer = service.client.post(GROUPS, json=document, auth=ann)
        assert (answer.status_code, branch.tip()) == (status, tip), answer.text
        assert detail in answer.json()["detail"]


def group_data(apps: dict[str, list[str]], **values: str) -> dict[str, object]:
    return {"composite-profile": "p", "apps": apps, **values}


def test_an_operator_with_paths_acts_only_on_intents_below_them(service, fleet, branch):
    ben = service.add_user(Role.OPERATOR, "ben", paths=("/p1/shop/front", "/p1/shop/spare"))
    branch.push({"shop.yaml": render_document(GROUP.to_document())})
    publish(service, fleet, recorded(GROUP, IntentState.CREATED))
    answer = service.client.post(f"{SHOP}/approve", json={"reason": "x"}, auth=ben)
    assert (answer.status_code, "at /p1/shop/db" in answer.json()["detail"]) == (403, True)
    assert service.client.delete(SHOP, auth=ben).status_code == 403
    other = {"metadata": {"name": "mine"}, "data": group_data({"vlan": ["/net/vlan12"]})}
    assert service.client.post(GROUPS, json=other, auth=ben).status_code == 403
    branch.push({"shop.yaml": None})
    mine = {"metadata": {"name": "mine"}, "data": group_data({"front": ["/p1/shop/spare"]})}
    assert service.client.post(GROUPS, json=mine, auth=ben).status_code == 202
