"""The pages that read the repository: the plan of a branch, and the changes of a publication, with real git."""

from contextlib import closing, contextmanager

import pytest

from support.builders import make_package
from support.publishing import Publishing
from support.service import running_service
from support.waiting import UNLIMITED, wait_until
from support.web.servers import HangingServer
from zkdeployment.base.host import Identity
from zkdeployment.base.inventory import Inventory, KnownHost
from zkdeployment.config.settings import load
from zkdeployment.publishing.acts.opening import open_commits
from zkdeployment.publishing.sources.git import act_commits
from zkdeployment.publishing.store.hosts import write_inventory
from zkdeployment.sandbox.processes import Deadline
from zkdeployment.service import planner
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

INVENTORY = Inventory(packages={"glibc": (make_package("glibc", "2.34"),)})
TREE = "/demo\n  /hello : hello\n    version = '1.0'\n    note = '<b>'\n    /deploy\n      /h1\n"
CHECKS = """\
schema: zkdeployment/MonitoringSystem/v1
metadata: {name: nagios1}
---
schema: zkdeployment/CheckConfiguration/v1
metadata: {name: ping}
data: {object: /demo, monitoring: nagios1, check: {command: check_ping}}
"""


@pytest.fixture
def publishing(tmp_path, zookeeper, client) -> Publishing:
    """Return a repository of which two revisions were published."""
    made = Publishing(tmp_path, zookeeper, client)
    first = made.push(TREE)
    made.sync()
    made.register("h1", first, "h1.example.com")
    with Session(zookeeper) as session:
        write_inventory(session, KnownHost(Identity("h1", "h1.example.com"), INVENTORY, 5.0))
    second = made.push(TREE.replace("1.0", "1.1"))
    made.sync()
    client.set("/hosts/h1", f'{{"name": "h1.example.com", "version": "{second}"}}'.encode())
    return made


@pytest.fixture
def browser(tmp_path, zookeeper, publishing, paper_repository):
    with serving(tmp_path, zookeeper, publishing, repositories=paper_repository.url) as client:
        yield client


@contextmanager
def serving(tmp_path, zookeeper, publishing, **keys):
    """Yield a viewer's browser of a service with the repository; ``keys`` are more of its section ``[sync]``."""
    config = tmp_path / "service.cfg"
    keys = {"url": publishing.repository.url, "tree-directory": tmp_path / "mirror"} | keys
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    config.write_text(f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]\n{lines}\n")
    settings = load(config, host=False)
    with (
        open_commits(settings) as commits,
        running_service(zookeeper, repository=settings, commits=commits) as made,
    ):
        wait_until(lambda: made.adapters.feed.recent_events().last, "the first reading")
        with made.browser(made.add_user(Role.VIEWER)) as client:
            yield client


def test_the_plan_of_a_branch_is_shown_before_it_is_merged(browser, publishing):
    publishing.push(TREE.replace("1.0", "1.2"), checks_yaml=CHECKS)
    page = browser.get("/plan?revision=main")
    unknown = browser.get("/plan?revision=no-such-branch")
    publishing.push("/demo\n  nonsense\n")
    refused = browser.get("/plan?revision=main")

    assert page.status_code == 200
    assert "1 host would change" in page.text
    assert "deploy /demo/hello 0 (hello 1.2)" in page.text
    assert "~ /demo/hello" in page.text
    assert "<li>check ping: instances: 1 added</li>" in page.text
    assert "This would not be published" in page.text
    assert "1 newly wanted package looked up in the repositories of hosts." in page.text
    assert "no repository has the package hello 1.2" in page.text
    assert (unknown.status_code, "no-such-branch" in unknown.text) == (404, True)
    assert "This would not be published" in refused.text
    assert "a.zk:2" in refused.text


def test_a_publication_shows_its_changes_of_the_tree(browser):
    second, first = browser.get("/api/v1/history", headers={}).json()["publications"]

    page = browser.get(f"/history/{second['sequence']}")
    changes = browser.get(f"/history/{second['sequence']}?changes=yes")
    oldest = browser.get(f"/history/{first['sequence']}?changes=yes")

    assert "Show the changes" in page.text
    assert "/demo/hello change property version from &#39;1.0&#39; to &#39;1.1&#39;" in changes.text
    assert "What it changed" not in oldest.text


def test_while_too_many_plans_are_made_pages_say_so_and_show_the_rest(
    tmp_path, zookeeper, publishing, monkeypatch
):
    monkeypatch.setattr(planner, "_AT_ONCE", 0)
    with serving(tmp_path, zookeeper, publishing) as client:
        (second, _) = client.get("/api/v1/history").json()["publications"]
        page = client.get(f"/history/{second['sequence']}?changes=yes")
        plan = client.get("/api/v1/plan?revision=main")
    assert (page.status_code, "the service is busy with other plans; try again" in page.text) == (200, True)
    assert (plan.status_code, plan.json()["detail"]) == (503, "the service is busy with other plans; try again")
    assert plan.headers["Retry-After"] == "5"


def test_a_refresh_of_the_page_of_a_publication_does_not_compare_trees(browser, monkeypatch):
    (second, _) = browser.get("/api/v1/history").json()["publications"]
    monkeypatch.setattr(planner.RevisionPlanner, "changes", lambda *_: pytest.fail("the trees were compared"))
    path, parts = f"/history/{second['sequence']}?changes=yes", {"X-Page-Parts": "true"}
    assert browser.get(path, headers=parts).status_code == 200


def test_the_plan_of_a_published_commit_is_compared_with_what_happened(browser):
    (second, *_) = browser.get("/api/v1/history").json()["publications"]
    page = browser.get(f"/plan?revision={second['revision']}")
    assert page.status_code == 200
    assert "Compare with what happened" in page.text
    assert f'href="/history/{second["sequence"]}"' in page.text
    assert 'class="plan-map"' in page.text
    assert "Compare with what happened" not in browser.get("/plan?revision=main~9").text


def test_the_plan_opens_with_the_branches_that_are_not_published(browser, publishing, monkeypatch):
    monkeypatch.setattr(act_commits, "_MOMENT", UNLIMITED)
    publishing.repository.git("branch", "merged")
    publishing.repository.git("checkout", "--quiet", "-b", "trial")
    publishing.push(TREE.replace("1.0", "1.3"))

    page = browser.get("/plan")

    assert page.status_code == 200
    assert 'role="alert"' not in page.text
    assert "Show the plan" in page.text
    assert '<a href="/plan?revision=trial">a change</a> <code>trial</code> by ' in page.text
    assert not any(f"<code>{name}</code>" in page.text for name in ("main", "merged"))
    assert "hello 1.3" in browser.get("/plan?revision=trial").text


def test_a_repository_that_never_answers_does_not_delay_the_page(tmp_path, zookeeper, publishing, monkeypatch):
    monkeypatch.setattr(act_commits, "_MOMENT", 5.0)
    hanging = HangingServer()
    url = f"git://127.0.0.1:{hanging.port}/tree.git"
    with closing(hanging), serving(tmp_path, zookeeper, publishing, **{"push-url": url}) as client:
        for seconds in (30.0, 4.0, 4.0):  # only the first page waits for a moment
            deadline = Deadline(seconds)
            page = client.get("/plan")
            assert not deadline.passed
            assert (
                f"Branches are missing here: the repository {url} has not answered for 5 s; try again" in page.text
            )
        assert hanging.accepted == 1


@pytest.mark.usefixtures("publishing")
def test_without_a_repository_the_plan_opens_with_what_is_missing(zookeeper):
    with running_service(zookeeper) as service:
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        with service.browser(service.add_user(Role.VIEWER)) as client:
            page = client.get("/plan")
    assert page.status_code == 200
    assert "set url and tree-directory in [sync]" in page.text
    assert 'role="alert"' not in page.text
