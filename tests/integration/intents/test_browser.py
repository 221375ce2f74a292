"""The pages of intents in a real Chromium: the list, the matrix, acts, live updates, without JavaScript."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, Page, expect

from support.branches import Branch
from support.fleets.written import WrittenFleet
from support.intents import APPROVAL, CHANGED, CLUSTER, CONTENT, GROUP, TREE, begun, recorded
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from support.zookeeper import connected
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.publication import LeftService
from zkdeployment.documents.edits import render_document
from zkdeployment.intents.documents import IntentState
from zkdeployment.intents.feed import records_of
from zkdeployment.intents.rules.instances import IntentRecord
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PAGE = "/intents/p1/store/v1/shop"
HOSTILE = "<b>jane</b>\u202e"

#: The published intents: one that is deployed, one that changed since its approval, one that waits, and a cluster.
SHOP = recorded(
    replace(GROUP, state=IntentState.INSTANTIATED, approval=APPROVAL),
    IntentState.INSTANTIATED,
    replace(begun(5), terminated=900.0, final=()),
    begun(),
)
NEWS = replace(GROUP, name="news", state=IntentState.APPROVED, approval=replace(APPROVAL, by=HOSTILE))
CHANGED_NEWS = IntentRecord(NEWS, IntentState.CREATED, (), CHANGED, CONTENT)
RECORDS = (SHOP, CHANGED_NEWS, recorded(CLUSTER, IntentState.CREATED))


@dataclass
class Stage:
    """A fleet with intents, a service with a repository, and a browser."""

    browser: Browser
    service: RunningService
    fleet: WrittenFleet
    branch: Branch
    operator: tuple[str, str]

    @contextmanager
    def page(self, path: str, **options: object) -> Iterator[Page]:
        """Yield the page at ``path`` for an operator who has logged in."""
        with logged_in(self.browser, self.service, self.operator, path, **options) as page:
            yield page


@pytest.fixture(scope="module")
def stage(browser: Browser, zookeeper_server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    chroot = f"/browser-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(chroot)
    directory: Path = tmp_path_factory.mktemp("branch")
    branch, address = Branch(directory), f"{zookeeper_server.address}{chroot}"
    branch.push({"a.zk": TREE.format("1.3"), "cluster.yaml": render_document(CLUSTER.to_document())})
    with WrittenFleet(address) as fleet, running_service(address, commits=branch.commits()) as service:
        hosts = [Host(Identity(f"w{n}", f"web{n}.example.com", "web"), "r1") for n in range(3)]
        fleet.register(*hosts)
        fleet.publish("r1", TREE.format("1.3"))
        fleet.report(*(host.identity for host in hosts[:2]))
        left = LeftService("/p1/shop/front", None, ("p1", "store", "v1", HOSTILE), "a" * 40)
        fleet.record(*RECORDS, withheld={("/net/vlan12", "web")}, left=[left])

        def is_read() -> bool:
            try:
                return len(records_of(service.adapters.feed)) == len(RECORDS)
            except UnreachableError:
                return False

        wait_until(is_read, "the service has read the intents")
        yield Stage(browser, service, fleet, branch, service.add_user(Role.OPERATOR, "ann"))


#: The pages that are checked in every commit, and further states of them.
PAGES = (
    "/intents",
    PAGE,
    "/intents/p1/store/v1/news",
    "/services/net/vlan12",
    "/acts/intent-approve?subject=p1/store/v1/news",
)
STATES = (
    "/intents?state=Created&sort=-since",
    "/intents?text=nothing",
    f"{PAGE}?app=front&cluster=web",
    f"{PAGE}?text=nothing",
    f"{PAGE}?instance=5",
    "/intents/ams/web",
    "/hosts/w0",
    "/acts/intent-terminate?subject=p1/store/v1/shop",
    "/acts/intent-approve?subject=p1/store/v1/shop",
    "/acts/intent-adopt?subject=p1/store/v1/other&apps=front=/p1/shop/front",
    "/acts/intent-release?path=/p1/shop/front",
)


@pytest.mark.parametrize(
    "paths", [PAGES, pytest.param(STATES, marks=pytest.mark.nightly)], ids=["pages", "states"]
)
def test_the_pages_are_accessible_and_show_hostile_texts_as_text(
    stage: Stage, axe_source: str, paths: tuple[str, ...]
):
    messages = []
    with stage.page("/intents", reduced_motion="reduce", viewport={"width": 390, "height": 844}) as page:
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        faults = faults_of_pages(page, axe_source, paths)
        page.goto("/intents/p1/store/v1/news")
        expect(page.locator("#intent")).to_contain_text("has changed since it was approved by <b>jane</b>\\u202e")
        expect(page.locator("#changes pre")).to_have_text("/p1/shop/db change property version from '1' to '2'")
    assert (faults, messages) == ([], [])


def test_a_cell_of_the_matrix_opens_without_loading_the_page_again(stage: Stage):
    with stage.page("/intents") as page:
        row = page.get_by_role("row", name="store/v1/shop")
        expect(row).to_contain_text("4 Present")
        row.get_by_role("link").click()
        expect(page.locator("#matrix")).to_contain_text("6 Pending")
        page.wait_for_load_state("load")
        page.evaluate("window.loadedOnce = true")
        page.locator("#matrix a.cell").click()
        expect(page.locator("#cell h2")).to_have_text("front on web")
        expect(page.locator("#cell tbody tr")).to_have_count(6)
        assert page.url.endswith(f"{PAGE}?app=front&cluster=web")
        page.locator("#matrix a.filter", has_text="2 Unknown").click()
        expect(page.locator("#matrix .cell")).to_contain_text("2 Pending")
        page.go_back()
        expect(page.locator("#cell tbody tr")).to_have_count(6)
        page.locator("#text").fill("nothing")
        expect(page.locator("#matrix")).to_contain_text("No resource matches")
        assert page.evaluate("window.loadedOnce") is True


@pytest.mark.nightly
def test_everything_works_without_javascript(stage: Stage):
    with stage.page("/intents", java_script_enabled=False) as page:
        page.get_by_role("link", name="Created").click()
        expect(page.locator("#list tbody tr")).to_have_count(2)
        page.goto(PAGE)
        page.locator("#matrix a.cell").click()
        expect(page.locator("#cell tbody tr")).to_have_count(6)
        page.locator("#cell").get_by_role("link", name="Close").click()
        expect(page.locator("#cell")).to_be_hidden()
        page.get_by_label("Find an app or a cluster").fill("front")
        page.get_by_role("button", name="Find").click()
        expect(page.locator("#matrix tbody tr")).to_have_count(1)


def test_an_operator_acts_with_a_reason_and_sees_the_outcome_of_the_act(stage: Stage):
    with stage.page("/intents/ams/web") as page:
        expect(page.locator("#intent-details")).to_contain_text("nothing of it is deployed")
        page.get_by_role("link", name="Apply").click()
        page.get_by_label("Reason").fill("the switch is ready")
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#intent .job")).to_contain_text("The syncer has not published it yet")
        assert "state: Applied" in stage.branch.files()["cluster.yaml"]
        assert stage.branch.ask("log", "-1", "--format=%an|%s", "main") == (
            "ann|Apply ams/web: the switch is ready"
        )
        page.evaluate("window.loadedOnce = true")
        applied = replace(CLUSTER, state=IntentState.APPLIED)
        instance = replace(begun(9), target="web", apps=CLUSTER.apps, services=())
        stage.fleet.record(*RECORDS[:2], recorded(applied, IntentState.APPLIED, instance))
        expect(page.locator("h1")).to_have_text("ams/web is Applied")
        expect(page.locator("#instances tbody tr")).to_have_count(1)
        expect(page).to_have_title("Ⅱ ams/web is Applied · zkdeployment")  # some targets match no host
        assert page.evaluate("window.loadedOnce") is True


@pytest.mark.nightly
def test_pages_of_services_and_hosts_show_withheld_services(stage: Stage):
    stage.fleet.record(*RECORDS, withheld={("/net/vlan12", "web"), ("/p1/gone", "web")})
    with stage.page("/services") as page:
        note = "/net/vlan12 for web is withheld until ams/web is applied"
        for path in ("/services", "/services/net/vlan12"):
            page.goto(path)
            expect(page.locator("#withheld li").first).to_have_text(note)
        page.goto("/hosts/w0")
        expect(page.locator("#withheld li").first).to_have_text(note.replace(" for web", ""))
        expect(page.get_by_text("is withheld")).to_have_count(1)
        expect(page.locator("#details")).to_contain_text("/p1/gone is not deployed to web")
        expect(page.locator("#details")).not_to_contain_text("/net/vlan12")
        page.locator("#withheld").get_by_role("link", name="ams/web").click()
        expect(page.locator("h1")).to_contain_text("ams/web is")
        page.goto("/services/p1/shop/front")
        expect(page.locator("#withheld")).to_be_hidden()


@pytest.mark.nightly
def test_a_viewer_sees_no_acts_and_an_unknown_intent_is_not_found(stage: Stage):
    with stage.service.browser(stage.service.add_user(Role.VIEWER)) as browser:
        page = browser.get(PAGE)
        assert (page.status_code, "/acts/intent-" in page.text) == (200, False)
        for path in ("/intents/p1/store/v1/none", "/intents/none", f"{PAGE}?instance=99"):
            assert browser.get(path).status_code == 404
        assert browser.get("/acts/intent-apply?subject=ams/web").status_code == 403
