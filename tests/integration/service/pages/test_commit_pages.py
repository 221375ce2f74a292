"""Where a commit is: the front page names the commits that wait, and each commit has a page, with real git."""

import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from support.branches import Branch
from support.builders import make_host
from support.fleets.written import WrittenFleet
from support.metrics import probe_of
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from support.zookeeper import connected
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.publishing.daemon.follower import Follower
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

TREE = "/shop\n  /web : web\n    version = '{}'\n    /deploy\n      /w0\n      /w1\n"
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@dataclass
class Site:
    """A fleet of two hosts that follows a branch, with a service and an operator's browser."""

    address: str
    directory: object
    branch: Branch
    fleet: WrittenFleet
    service: object
    operator: tuple[str, str]

    def push(self, version: str, message: str) -> str:
        return self.branch.push({"a.zk": TREE.format(version)}, message=message)

    def hosts(self, first: str, second: str) -> None:
        """Set the revisions that the two hosts have."""
        self.fleet.register(make_host("w0", first), make_host("w1", second))

    @property
    def reading(self):
        return self.service.adapters.feed.snapshot()

    @contextmanager
    def syncer(self):
        """Run a syncer, which looks at the branch once, and then only when an operator asks."""
        with Session(self.address) as session:
            store, control = ZooKeeperPublications(session), Control(SystemClock())
            source = GitSource(str(self.branch.bare), self.directory / f"tree-{uuid.uuid4().hex[:6]}", gap=0)
            follower = Follower(
                Syncer(source, store, SystemClock()),
                store,
                control,
                connect=session.open,
                notifier=SystemdNotifier({}),
                probe=probe_of(session),
            )
            thread = threading.Thread(target=follower.run, args=(3600.0,))
            thread.start()
            try:
                yield
            finally:
                control.stop()
                thread.join()

    def syncer_reports(self, *waiting: str) -> bool:
        """Whether the service has read a report of the syncer with these waiting commits."""
        syncer = self.reading.reading.syncer
        return syncer is not None and tuple(commit.id for commit in syncer.waiting) == waiting

    @contextmanager
    def page(self, browser, path, **options):
        with logged_in(browser, self.service, self.operator, path, reduced_motion="reduce", **options) as page:
            yield page


@pytest.fixture
def site(zookeeper_server, tmp_path):
    chroot = f"/commits-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(chroot)
    address = f"{zookeeper_server.address}{chroot}"
    branch = Branch(tmp_path)
    with WrittenFleet(address) as fleet, running_service(address, commits=branch.commits()) as service:
        operator = service.add_user(Role.OPERATOR, "ann")
        site = Site(address, tmp_path, branch, fleet, service, operator)
        first = site.push("1.0", "Web 1.0")
        with site.syncer():
            wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
            wait_until(lambda: site.reading.fleet.published == first, "the first commit is published")
        site.hosts(first, first)
        yield site


def test_a_commit_that_waits_is_named_on_the_front_page_and_published_from_there(site, browser):
    second = site.push("1.1", "Web 1.1")
    with site.syncer():
        wait_until(lambda: site.reading.fleet.published == second, "the second commit is published")
    third = site.push("1.2", "Web 1.2")
    with site.syncer():
        wait_until(lambda: site.syncer_reports(third), "the third commit waits for the second one")
        with site.page(browser, "/", viewport=PHONE) as page:
            waiting = page.get_by_role("region", name="Commits that wait")
            expect(waiting).to_contain_text("1 commit waits: Web 1.2 by Tester; published when all hosts have")
            waiting.get_by_role("link", name="Web 1.2").click()
            expect(page.get_by_role("heading", level=1)).to_have_text(
                "Waits: published when all hosts have the present revision"
            )
            form = page.get_by_role("link", name="Publish now").get_attribute("href")
            page.get_by_role("link", name="Publish now").click()
            expect(page.get_by_text("2 hosts without the present revision skip it.")).to_be_visible()
            page.get_by_label("Reason").fill("it cannot wait")
            page.get_by_role("button", name="Publish the tip of the branch").click()
            expect(page).to_have_url(f"{site.service.url}/commits/{third}")
            expect(page.get_by_role("heading", level=1)).to_have_text("Converged on 0 of 2 hosts")
            expect(page.locator("#stages")).to_contain_text("Publishedas publication")
            page.goto(form)
            expect(page.get_by_text("is published already")).to_be_visible()
            expect(page.get_by_role("button", name="Publish the tip of the branch")).to_have_count(0)
    assert site.reading.fleet.published == third
    with site.service.browser(site.operator) as client:
        assert "Web 1.2" not in client.get("/plan").text
    (*_, act) = site.service.adapters.operator.fleet.acts()
    assert (act.what, act.by, act.reason) == ("publish", "ann", "it cannot wait")


@pytest.mark.nightly
def test_the_page_of_a_commit_follows_it_to_the_last_host(site, browser):
    second = site.push("1.1", "Web 1.1")
    with site.syncer():
        wait_until(lambda: site.reading.fleet.published == second, "the second commit is published")
    with site.page(browser, f"/commits/{second[:10]}", viewport=DESK) as page:
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_have_text("Converged on 0 of 2 hosts")
        site.hosts(second, site.branch.ask("rev-parse", "main~1"))
        expect(heading).to_have_text("Converged on 1 of 2 hosts")
        site.hosts(second, second)
        expect(heading).to_have_text("Converged on all hosts")
        expect(page.locator("#verdict")).to_contain_text("Web 1.1")


def test_the_page_of_a_commit_knows_publications_that_are_older_than_all_summaries(site, monkeypatch):
    first = site.reading.fleet.published
    second = site.push("1.1", "Web 1.1")
    with site.syncer():
        wait_until(lambda: site.reading.fleet.published == second, "the second commit is published")
    for place in ("publishing.store.history", "service.api.publications"):
        monkeypatch.setattr(f"zkdeployment.{place}.SUMMARIES", 1)
    with site.service.browser(site.operator) as client:
        text = client.get(f"/commits/{first}").text
    assert "the record of its hosts is gone" not in text
    assert "Published, and replaced since" in text


def test_the_page_of_a_commit_that_waits_needs_no_repository(site):
    site.hosts("r0", "r0")
    waiting = site.push("1.1", "Web 1.1")
    with site.syncer():
        wait_until(lambda: site.syncer_reports(waiting), "the second commit waits for the first one")
    site.branch.bare.rename(site.directory / "away")
    published = site.reading.fleet.published
    with site.service.browser(site.operator) as client:
        assert "Waits: published when all hosts" in client.get(f"/commits/{waiting}").text
        assert "Converged on 0 of 2 hosts" in client.get(f"/commits/{published}").text
        plan = client.get("/plan").text
        assert f'<a href="/plan?revision={waiting}">Web 1.1</a>' in plan
        unknown = client.get(f"/commits/{'f' * 40}")
    assert unknown.status_code == 503
    assert "git repository" in unknown.text


@pytest.mark.nightly
def test_a_refused_commit_shows_the_place_and_the_reason(site, browser):
    broken = site.branch.push({"a.zk": "/shop\n  nonsense\n"}, message="oops")
    with site.syncer():
        wait_until(lambda: site.reading.fleet.refusal is not None, "the commit is refused")
    with site.page(browser, f"/commits/{broken}", viewport=DESK) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("Refused")
        expect(page.locator("#refusal")).to_contain_text("a.zk:2")
        expect(page.get_by_role("link", name="Publish now")).to_have_count(0)
        page.goto("/")
        expect(page.locator("#waiting")).to_be_hidden()
        expect(page.locator("#verdict .wanted").first).to_contain_text("oops")
        expect(page.locator("#verdict progress")).to_be_hidden()
        page.locator("#verdict").get_by_role("link", name=broken[:12]).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Refused")


def test_a_commit_that_the_branch_does_not_have_is_not_found(site):
    with site.service.browser(site.operator) as client:
        assert client.get(f"/commits/{'f' * 40}").status_code == 404
        assert client.get("/commits/zzz").status_code in {404, 422}


@pytest.mark.parametrize("viewport", [PHONE, pytest.param(DESK, marks=pytest.mark.nightly)])
def test_pages_of_commits_are_accessible_and_light(site, browser, axe_source, viewport):
    published = site.branch.tip()
    waiting = site.push("1.1", "Web 1.1 <b>")
    with site.page(browser, "/", viewport=viewport) as page:
        paths = [f"/commits/{published}", f"/commits/{waiting}"]
        assert faults_of_pages(page, axe_source, paths) == []
        assert len(page.request.get(paths[0]).body()) < 20_000


@pytest.mark.nightly
def test_an_open_page_of_a_fleet_as_wanted_learns_of_a_commit_that_the_syncer_does_not_publish(site, browser):
    with Session(site.address) as session, site.page(browser, "/", viewport=PHONE) as page:
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_have_text("All 2 hosts have the wanted revision")
        waiting = CommitSummary("f" * 40, "Ada Byron <ada@x>", "hello 9.9", time.time() - 300)
        syncer = ZooKeeperPublications(session)
        syncer.report("hello 9.9 has no candidate host", 3600, time.time(), (waiting,))
        expect(heading).to_have_text("1 commit waits")
        expect(page.locator("#verdict")).to_contain_text("hello 9.9 has no candidate host. All 2 hosts have")
        expect(page).to_have_title("▸ 1 commit waits · zkdeployment")
        syncer.report("published", 3600, time.time())
        expect(heading).to_have_text("All 2 hosts have the wanted revision")


@pytest.mark.nightly
def test_an_open_page_shows_that_the_syncer_is_silent_when_the_syncer_is_late(site, browser):
    with Session(site.address) as session, site.page(browser, "/locks", viewport=PHONE) as page:
        page.clock.install()
        ZooKeeperPublications(session).report("published", 1.0, time.time() - 50)
        wait_until(lambda: site.reading.reading.syncer.interval == 1.0, "the service has read the report")
        page.goto("/locks")
        state = page.locator("#fleet-state")
        expect(state).to_contain_text("All 2 hosts have the wanted revision")
        wait_until(lambda: time.time() > site.reading.reading.syncer.fetched + 62, "the syncer is late")
        page.clock.fast_forward(20_000)
        expect(state).to_contain_text("Newer commits may wait")
        expect(page).to_have_title("? Locks · zkdeployment")
