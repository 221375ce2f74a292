"""Rollbacks through the API and the page of a publication, with a real repository."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from support.branches import Branch
from support.service import running_service
from support.waiting import wait_until
from support.web.forms import follow, submit
from zkdeployment.base.errors import TreeError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import SyncOptions
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store import history
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.api import publications as api_commits
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from pathlib import Path

TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /h1\n"


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    return Branch(tmp_path)


@pytest.fixture
def revisions(branch: Branch, tmp_path: Path, zookeeper: str) -> tuple[str, str]:
    """Two published revisions."""
    source = GitSource(str(branch.bare), tmp_path / "syncer" / "tree", gap=0)
    with Session(zookeeper) as session:
        syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())
        first = branch.push({"a.zk": TREE.format("1.0")}, message="web 1.0")
        syncer.sync(SyncOptions(force=True))
        second = branch.push({"a.zk": TREE.format("1.1")}, message="web 1.1 <script>")
        syncer.sync(SyncOptions(force=True))
    return first, second


def test_a_rollback_through_the_api_is_a_commit_of_the_user(
    branch: Branch, zookeeper: str, revisions: tuple[str, str]
) -> None:
    first, second = revisions
    with running_service(zookeeper, commits=branch.commits()) as service:
        ann, victor = service.add_user(Role.OPERATOR, "ann"), service.add_user(Role.VIEWER, "victor")
        post = service.client.post
        asked = {"reason": "web 1.1 loses sessions"}
        assert post("/api/v1/rollback", json=asked, auth=victor).status_code == 403
        assert post("/api/v1/rollback", json={"reason": "x", "revision": "--all"}, auth=ann).status_code == 422
        unknown = post("/api/v1/rollback", json={"reason": "x", "revision": "0" * 40}, auth=ann)
        assert (unknown.status_code, branch.tip()) == (409, second)
        shown = post("/api/v1/rollback", json=asked | {"dry_run": True}, auth=ann)
        assert (shown.status_code, shown.json()["job"], branch.tip()) == (200, None, second)
        assert "+    version = '1.0'" in shown.json()["diff"]
        assert shown.json()["strategy"].startswith("no strategy governs the rollback: all hosts")
        done = post("/api/v1/rollback", json=asked | {"quarantine": True}, auth=ann)
        assert (done.status_code, done.json()["job"]) == (202, branch.tip())
        assert [commit["revision"] for commit in done.json()["undone"]] == [second]
        assert done.json()["obstacles"] == []
        assert branch.ask("log", "-1", "--format=%an|%ae|%s", "main") == (
            f"ann|ann@server|Roll back to {first[:12]}: web 1.1 loses sessions"
        )
        assert set(branch.files()) == {"a.zk", "quarantine-web-1.1.yaml"}
        recorded = f"rollback to {first[:12]} (commit {branch.tip()[:12]})"
        (act,) = service.client.get("/api/v1/audit", params={"who": "ann"}, auth=ann).json()["acts"]
        assert (act["what"], act["reason"]) == (recorded, "web 1.1 loses sessions")
        again = post("/api/v1/rollback", json={"reason": "x", "revision": first}, auth=ann)
        assert (again.status_code, again.json()["job"], again.json()["changed"]) == (200, branch.tip(), False)


def test_the_job_of_a_commit_shows_its_outcome(
    branch: Branch, zookeeper: str, revisions: tuple[str, str], tmp_path: Path
) -> None:
    source = GitSource(str(branch.bare), tmp_path / "second" / "tree", gap=0)
    with running_service(zookeeper, commits=branch.commits()) as service, Session(zookeeper) as session:
        ann, victor = service.add_user(Role.OPERATOR, "ann"), service.add_user(Role.VIEWER, "victor")
        syncer = Syncer(source, ZooKeeperPublications(session), SystemClock())

        def job(name: str) -> dict[str, object]:
            found: dict[str, object] = service.client.get(f"/api/v1/jobs/{name}", auth=victor).json()
            return found

        wish = {"reason": "back", "revision": revisions[0]}
        commit = service.client.post("/api/v1/rollback", json=wish, auth=ann).json()["job"]
        pending = {"job": commit, "state": "pending", "sequence": None, "problems": [], "refused": None}
        assert job(commit) == pending
        now = service.client.post("/api/v1/rollback", json=wish | {"now": True, "timeout": 0.1}, auth=ann)
        assert (now.status_code, now.json()["job"]) == (200, commit)
        assert now.json()["obstacles"][0].startswith("no syncer published within 0.1 s")
        syncer.sync(SyncOptions(force=True))
        processed = job(commit[:10])
        assert (processed["job"], processed["state"]) == (commit, "processed")
        assert processed["sequence"] == service.adapters.operator.fleet.history(1)[0].sequence
        bad = branch.push({"a.zk": "/shop\n  y z\n"})
        with pytest.raises(TreeError):
            syncer.sync(SyncOptions())
        assert (job(bad)["state"], "a.zk:2" in str(job(bad)["problems"])) == ("failed", True)
        assert service.client.get("/api/v1/jobs/" + "0" * 40, auth=victor).status_code == 404
        assert service.client.get("/api/v1/jobs/--all", auth=victor).status_code == 422


def test_a_job_names_the_first_publication_of_a_long_history(
    branch: Branch, zookeeper: str, revisions: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "SUMMARIES", 1)
    monkeypatch.setattr(api_commits, "SUMMARIES", 1)
    with running_service(zookeeper, commits=branch.commits()) as service:
        victor = service.add_user(Role.VIEWER, "victor")
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        jobs = [service.client.get(f"/api/v1/jobs/{each}", auth=victor).json() for each in revisions]
        recorded = service.adapters.operator.fleet.history()
    assert [job["sequence"] for job in jobs] == [record.sequence for record in reversed(recorded)]


def test_a_commit_that_no_syncer_publishes_in_time_is_still_named(
    branch: Branch, zookeeper: str, revisions: tuple[str, str]
) -> None:
    with running_service(zookeeper, commits=branch.commits()) as service:
        ann = service.add_user(Role.OPERATOR, "ann")
        asked = {"reason": "back", "now": True, "timeout": 0.2}
        done = service.client.post("/api/v1/rollback", json=asked, auth=ann)
        assert (done.status_code, done.json()["job"]) == (202, branch.tip())
        assert "no syncer published within 0.2 s" in done.json()["obstacles"][0]
        dry = service.client.post(
            "/api/v1/rollback", json=asked | {"revision": revisions[0], "dry_run": True}, auth=ann
        )
        assert (dry.status_code, dry.json()["obstacles"]) == (200, [])


def test_two_rollbacks_at_the_same_time_make_one_change(
    branch: Branch, zookeeper: str, revisions: tuple[str, str]
) -> None:
    with running_service(zookeeper, commits=branch.commits()) as service:
        ann = service.add_user(Role.OPERATOR, "ann")
        jobs: list[str] = []

        def roll_back() -> None:
            asked = {"reason": "both", "revision": revisions[0]}
            jobs.append(service.client.post("/api/v1/rollback", json=asked, auth=ann).json()["job"])

        threads = [threading.Thread(target=roll_back) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert jobs == [branch.tip()] * 2


def test_the_page_of_a_publication_offers_the_way_back(
    branch: Branch, zookeeper: str, revisions: tuple[str, str]
) -> None:
    with running_service(zookeeper, commits=branch.commits()) as service:
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        sequence = service.adapters.feed.history(9)[-1].sequence
        victor = service.add_user(Role.VIEWER, "victor")
        with service.browser(victor) as page:
            assert "Roll back to this" not in page.get(f"/history/{sequence}").text
        with service.browser(service.add_user(Role.OPERATOR, "ann")) as page:
            form = follow(page, page.get(f"/history/{sequence}"), "Roll back to this")
            assert submit(page, form, "Roll back", {"reason": "back"}).status_code == 303
            assert branch.files() == branch.files(revisions[0])
            assert page.get("/acts/rollback", params={"sequence": "9" * 400}).status_code == 404


def test_without_a_repository_nothing_can_be_committed(zookeeper: str) -> None:
    with running_service(zookeeper) as service:
        ann = service.add_user(Role.OPERATOR, "ann")
        refused = service.client.post("/api/v1/rollback", json={"reason": "x"}, auth=ann)
        assert refused.status_code == 409
        assert "the service cannot commit" in refused.json()["detail"]
