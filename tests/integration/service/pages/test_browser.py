"""The pages in a real Chromium: logins, acts, live updates, without JavaScript, accessible, idle."""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.fleets.written import WrittenFleet
from support.proxy import Proxy
from support.service import running_service
from support.strategies import group, strategy
from support.waiting import wait_until
from support.web.browser import faults_of_pages, log_in, logged_in, serious_faults
from support.zookeeper import connected
from zkdeployment.base.act import Act
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.host import Host, Identity
from zkdeployment.service.users.user import Role
from zkdeployment.strategies.progress import start
from zkdeployment.strategies.state import RolloutFacts
from zkdeployment.strategies.strategy import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from support.service import RunningService

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
OLD, NEW = "a" * 40, "b" * 40
TREE = """
/shop
  /web : shop-web
    version = '1.3'
    note = '<script>alert(1)</script>'
    /providers
    /deploy
      /web
"""

#: A few more hosts than have tiles, so that the map has blocks.
SIZE = 130


def identity(number: int) -> Identity:
    return Identity(f"h{number:03}", HOSTILE if number == 7 else f"web{number:03}.example.com", "web")


@dataclass
class Stage:
    """A fleet, a service that reads it through a proxy, and a browser."""

    browser: Browser
    service: RunningService
    fleet: WrittenFleet
    proxy: Proxy
    operator: tuple[str, str]

    @contextmanager
    def page(self, path: str = "/", **options: object) -> Iterator[Page]:
        """Yield the page at ``path`` for an operator who has logged in."""
        with logged_in(self.browser, self.service, self.operator, path, **options) as page:
            yield page

    def acts(self) -> list[tuple[str, str, str]]:
        """Return the recorded acts on the fleet: author, act and reason."""
        return [(act.by, act.what, act.reason) for act in self.service.adapters.operator.fleet.acts()]

    def host(self, number: int, version: str | None = NEW, **fields: object) -> Host:
        """Write the node of a host."""
        host = replace(Host(identity(number), version), **fields)
        self.fleet.register(host)
        return host

    def recover(self) -> None:
        """Repair the remains of a failed test: the network, the hosts, and a stopped fleet."""
        self.proxy.heal()
        wait_until(lambda: self.service.adapters.feed.snapshot().connected, "the service reads the fleet")
        if self.is_whole:
            return
        for number in range(SIZE):
            self.host(number)
        if self.service.adapters.feed.snapshot().fleet.cluster.revision is None:
            self.service.adapters.operator.cluster.resume(Act("tests", "resume", "", 0.0))
        wait_until(lambda: self.is_whole, "the fleet is as before")

    @property
    def is_whole(self) -> bool:
        """Whether the fleet runs, and all hosts have the wanted revision."""
        fleet = self.service.adapters.feed.snapshot().fleet
        converged = [host for host in fleet.hosts if (host.version, host.error, host.step) == (NEW, None, None)]
        return fleet.cluster.revision == NEW and len(converged) == SIZE


@pytest.fixture
def stage(running_stage):
    """The stage, with a fleet that runs and is converged."""
    running_stage.recover()
    return running_stage


@pytest.fixture(scope="module")
def running_stage(browser, zookeeper_server):
    chroot = f"/browser-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(chroot)
    with (
        Proxy("127.0.0.1", zookeeper_server.port) as proxy,
        WrittenFleet(f"{zookeeper_server.address}{chroot}") as fleet,
        running_service(f"{proxy.address}{chroot}") as service,
    ):
        write(fleet)
        wait_until(lambda: known_hosts(service) == SIZE, "the service has read the fleet")
        yield Stage(browser, service, fleet, proxy, service.add_user(Role.OPERATOR, "ann"))


def write(fleet: WrittenFleet) -> None:
    hosts = [Host(identity(number), OLD) for number in range(SIZE)]
    fleet.register(*hosts)
    results = [HostResult(host.identity.id, host.identity.name, 1.0, 2.0, HOSTILE) for host in hosts[:3]]
    fleet.publish(OLD, TREE.replace("1.3", "1.2"), subject="Web 1.2", results=results, age=600)
    fleet.report(*(host.identity for host in hosts))
    fleet.register(*(replace(host, version=NEW) for host in hosts))
    manual = replace(group("others"), pace=Pace(manual=True))
    plan = strategy(manual)
    sequence = fleet.publish(NEW, TREE, subject=f"Web 1.3 {HOSTILE}", strategy=plan, age=60)
    present = {host.identity.id: host.facts for host in hosts}
    facts = RolloutFacts(now=1.0, present=present)
    fleet.begin_rollout(start(plan, facts, sequence=sequence, attempt=1, revision=NEW))
    fleet.hold_lock("/shop/web", hosts[0].identity, hosts[7].identity, step="deploy /shop/web 0")


def known_hosts(service: RunningService) -> int:
    try:
        cached = service.adapters.feed.snapshot()
    except UnreachableError:
        return 0
    return len(cached.fleet.hosts) if cached.fleet.rollout is not None else 0


def headline(page: Page) -> str:
    return page.locator("h1").inner_text()


def test_a_person_logs_in_lands_where_they_wanted_and_logs_out(stage):
    context = stage.browser.new_context(base_url=stage.service.url)
    page = context.new_page()

    page.goto("/locks")
    log_in(page, ("ann", "not-the-key"))
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    log_in(page, stage.operator)
    expect(page.get_by_role("heading", name="Locks")).to_be_visible()
    (cookie,) = [cookie for cookie in context.cookies() if cookie["name"] == "session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")

    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto("/locks")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    context.close()


#: The pages that are checked in every commit, and further states of them.
PAGES = (
    "/",
    "/?map=role",
    "/hosts/h007",
    "/services",
    "/services/shop/web",
    "/intents",
    "/checks",
    "/pools",
    "/rollout",
    "/fleets",
    "/history",
    "/history/{sequence}",
    "/history/{sequence}/timeline",
    f"/commits/{NEW}",
    "/locks",
    "/plan?revision=main",
    "/audit",
    "/find",
    "/acts/stop",
    "/login",
    "/hosts/nobody",
)
STATES = (
    "/?state=converged&text=web&sort=-since&page=2",
    "/?text=nothing",
    "/?map=role&part=web&state=converged",
    "/history/{sequence}/timeline?group=all+hosts",
    "/history/{sequence}?state=failed",
    "/find?text=web",
    "/acts/release?lock=/shop/web",
)


@pytest.mark.parametrize(
    "paths", [PAGES, pytest.param(STATES, marks=pytest.mark.nightly)], ids=["pages", "states"]
)
def test_every_page_is_accessible_and_shows_hostile_texts_as_text(stage, axe_source, paths):
    sequence = stage.service.adapters.feed.snapshot().reading.sequence
    messages = []
    with stage.page(reduced_motion="reduce", viewport={"width": 360, "height": 740}) as page:
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: (messages.append("a dialog"), dialog.dismiss()))
        faults = faults_of_pages(page, axe_source, [path.format(sequence=sequence) for path in paths])
        page.goto("/hosts/h007")
        assert headline(page).startswith("<img src=x onerror=alert(1)>\\u202e")

    assert faults == []
    # A page that does not exist is the only message; a violation of the content security policy would be one, too.
    assert [text for text in messages if "404" not in text] == []


def test_the_page_follows_the_fleet_without_being_loaded_again(stage):
    with stage.page() as page:
        expect(page.locator("h1")).to_have_text("130 of 130 hosts have the wanted revision")
        page.evaluate("window.loadedOnce = true")
        page.locator("#text").fill("web00")
        expect(page.locator("#list tbody tr")).to_have_count(9)

        stage.host(3, error="disk full")

        expect(page.locator("h1")).to_have_text("1 host failed")
        expect(page).to_have_title("✕ 1 host failed · zkdeployment")
        expect(page.locator("#problems")).to_contain_text("disk full")
        expect(page.locator("#list tbody tr").first).to_contain_text("web003.example.com")
        expect(page.locator("#block-0 path.failed")).to_have_count(1)
        assert page.locator("#text").input_value() == "web00"
        assert page.url.endswith("/?text=web00")
        stage.host(3)
        expect(page.locator("#problems")).to_be_hidden()
        assert page.evaluate("window.loadedOnce") is True


def test_the_page_of_a_host_that_is_gone_says_so(stage):
    stage.host(SIZE)
    wait_until(lambda: stage.service.adapters.feed.snapshot().fleet.find_host(identity(SIZE).id), "the host")
    with stage.page(f"/hosts/{identity(SIZE).id}") as page:
        expect(page.locator("h1")).to_have_text(identity(SIZE).name)
        stage.fleet.leave(identity(SIZE).id)
        expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
        expect(page.locator("main")).to_contain_text("no host with the id or name")


@pytest.mark.nightly
def test_an_event_does_not_take_back_a_filter_whose_answer_is_on_its_way(stage):
    with stage.page() as page:
        expect(page.locator("h1")).to_be_visible()
        answers = []
        page.route(lambda url: url.endswith("/?text=web00"), lambda route: answers.append(route))  # noqa: PLW0108  Playwright needs a function
        with page.expect_request(lambda request: request.url.endswith("/?text=web00")):
            page.locator("#text").fill("web00")
        page.wait_for_function("typed => performance.now() > typed + 1000", arg=page.evaluate("performance.now()"))
        (answer,) = answers
        stage.host(3, error="disk full")
        # The page gathers events for less than two seconds before it fetches what they concern.
        page.wait_for_function("sent => performance.now() > sent + 3000", arg=page.evaluate("performance.now()"))
        answer.continue_()
        expect(page.locator("#list tbody tr")).to_have_count(9)
        expect(page.locator("h1")).to_have_text("1 host failed")
        stage.host(3)


def test_filters_survive_acts_reloads_and_the_history_of_the_browser(stage):
    with stage.page() as page:
        page.get_by_role("link", name="130 converged").click()
        expect(page.locator("#states a.filter[aria-current]")).to_have_count(1)
        page.get_by_role("link", name="Next").click()
        expect(page.locator("#list")).to_contain_text("51 to 100 of 130 hosts")
        view = page.url
        page.reload()
        assert (page.url, "51 to 100" in page.locator("#list").inner_text()) == (view, True)

        page.get_by_role("link", name="Stop").click()
        page.get_by_label("Reason").fill("web loses sessions")
        page.get_by_role("button", name="Stop the fleet").click()
        expect(page.locator("h1")).to_have_text("Stopped")
        assert page.url == view
        expect(page.locator("#problems")).to_contain_text("Stopped by ann")
        page.get_by_role("link", name="Resume").click()
        page.get_by_role("button", name="Resume the fleet").click()
        expect(page.locator("h1")).to_have_text("130 of 130 hosts have the wanted revision")

        page.go_back()
        page.goto(view)
        page.get_by_role("link", name="Previous").click()
        expect(page.locator("#list")).to_contain_text("1 to 50 of 130 hosts")
        page.go_back()
        expect(page.locator("#list")).to_contain_text("51 to 100 of 130 hosts")
    assert ("ann", "stop", "web loses sessions") in stage.acts()
    assert ("ann", "resume", "") in stage.acts()


@pytest.mark.nightly
def test_acts_on_the_rollout_and_on_locks(stage):
    with stage.page("/rollout") as page:
        for link, button, reason in (
            ("Promote", "Promote the group", "the canaries look good"),
            ("Pause the rollout", "Pause the rollout", "latency is up"),
            ("Abort the rollout", "Abort the rollout", "web loses sessions"),
        ):
            page.get_by_role("link", name=link, exact=True).click()
            page.get_by_label("Reason").fill(reason)
            page.get_by_role("button", name=button).click()
            expect(page).to_have_url(f"{stage.service.url}/rollout")
        page.goto("/locks")
        page.get_by_role("link", name="Release").click()
        page.get_by_label("Reason").fill("the host burnt down")
        page.get_by_role("button", name="Release the lock").click()
        expect(page.get_by_role("alert")).to_contain_text("has worked under the lock")
        page.get_by_label("Release it although").check()
        page.get_by_role("button", name="Release the lock").click()
        expect(page.locator("tbody tr")).to_contain_text(HOSTILE[:-1])

    acts = stage.acts()
    assert ("ann", "rollout promote others", "the canaries look good") in acts
    assert ("ann", "rollout pause", "latency is up") in acts
    assert ("ann", "rollout abort", "web loses sessions") in acts
    assert any(what.startswith("release the lock of /shop/web") for _, what, _ in acts)


@pytest.mark.nightly
def test_everything_works_without_javascript(stage):
    with stage.page(java_script_enabled=False) as page:
        page.get_by_label("Find a host").fill("web00")
        page.get_by_role("button", name="Find").click()
        expect(page.locator("#list tbody tr")).to_have_count(9)
        page.get_by_role("link", name="Host", exact=True).click()
        expect(page.locator("#list tbody tr").first).to_contain_text("web000")
        page.locator("#block-1").click()
        expect(page.locator("#list")).to_contain_text("web100.example.com")
        page.get_by_role("link", name="Hold").click()
        page.get_by_label("Reason").fill("the switch is replaced")
        page.get_by_role("button", name="Hold the fleet").click()
        expect(page.locator("h1")).to_have_text("Held")
        page.get_by_role("link", name="Resume").click()
        page.get_by_role("button", name="Resume the fleet").click()
        expect(page.locator("h1")).to_have_text("130 of 130 hosts have the wanted revision")
        page.get_by_role("link", name="web100.example.com", exact=True).click()
        expect(page.get_by_role("heading", name="Why")).to_be_visible()


@pytest.mark.nightly
def test_the_map_answers_to_a_pointer_that_rests_there_while_the_fleet_changes(stage):
    with stage.page() as page:
        box = page.locator("#block-1 svg").bounding_box()
        assert box is not None
        place = box["x"] + box["width"] * 0.35, box["y"] + box["width"] * 0.15
        page.mouse.move(*place)
        tip = page.locator(".tip")
        expect(tip).to_have_text("web113.example.com: converged")
        stage.host(113, step="deploy /shop/web 0", version=OLD)
        expect(tip).to_have_text("web113.example.com: behind: deploy /shop/web 0")
        stage.host(113)
        expect(tip).to_have_text("web113.example.com: converged")

        page.mouse.move(0, 0)
        expect(tip).to_have_count(0)
        page.route("**/map/113*", lambda route: route.abort())
        with page.expect_event("requestfailed"):
            page.mouse.move(*place)
        page.unroute("**/map/113*")
        page.mouse.move(place[0] + 1, place[1])
        expect(tip).to_have_text("web113.example.com: converged")
        page.mouse.click(*place)
        expect(page.locator("h1")).to_have_text("web113.example.com")


@pytest.mark.nightly
@pytest.mark.parametrize("java_script_enabled", [True, False])
def test_the_arrangement_of_the_map_is_remembered_and_a_filter_dims_the_other_hosts(stage, java_script_enabled):
    stage.host(5, version=OLD, error="the script failed")
    wait_until(lambda: not stage.is_whole, "the service knows of the failure")
    with stage.page(java_script_enabled=java_script_enabled) as page:
        page.locator("#map-by").get_by_role("link", name="Role").click()
        expect(page.locator("#part-0")).to_have_text("web 130 hosts, 1 failed")
        page.goto("/")
        expect(page.locator("#map-by").get_by_role("link", name="Role")).to_have_attribute("aria-current", "true")
        page.locator("#states").get_by_role("link", name="failed").click()
        expect(page.locator("#block-0 path.dim")).to_have_attribute("class", "converged dim")
        expect(page.locator("#block-0 path:not(.dim)")).to_have_attribute("class", "failed")
        page.locator("#part-0").get_by_role("link", name="web").click()
        expect(page.locator("#list tbody tr")).to_have_count(1)
        expect(page.locator("#list .pages")).to_contain_text("only web")


def test_the_page_of_a_service_shows_its_versions_the_queue_of_its_lock_and_its_hosts(stage):
    stage.fleet.hold_lock("/shop/web", identity(3), identity(4), step="deploy /shop/web 0")
    with stage.page("/services/shop/web") as page:
        expect(page.locator("#service-versions tbody th")).to_have_text(["1.3", "1.2"])
        expect(page.locator("#service-versions")).to_contain_text("Web 1.2")
        expect(page.locator("#service-queue .holder")).to_contain_text("holds it")
        expect(page.locator("#service-queue li").nth(1)).to_contain_text("waits")
        expect(page.locator("#service-hosts tbody tr").first).to_contain_text("converged")


@pytest.mark.nightly
def test_the_page_of_a_service_is_renewed_after_changes_of_its_own_checks_only(stage):
    with stage.page("/services/shop/web") as page:
        requests = []
        page.on("request", lambda request: requests.append(request.url))

        def is_quiet() -> bool:
            requests.clear()
            page.wait_for_timeout(1500)
            return not requests

        while not is_quiet():  # until nothing is left of the start
            pass
        stage.fleet.change_check("/shop/db", "h003")
        assert is_quiet()
        with page.expect_request("**/services/shop/web"):
            stage.fleet.change_check("/shop/web", "h003")


@pytest.mark.nightly
def test_an_old_map_is_grey(stage):
    with stage.page() as page:
        expect(page.locator("#map.stale")).to_have_count(0)
        stage.proxy.cut()
        expect(page.locator("#map.stale")).to_be_visible()
        stage.proxy.heal()
        expect(page.locator("#map.stale")).to_have_count(0)


@pytest.mark.nightly
def test_text_typed_before_the_scripts_were_loaded_is_found(stage):
    with stage.page() as page:
        held = []
        page.route("**/static/live.js*", lambda route: held.append(route))  # noqa: PLW0108  Playwright needs a function
        with page.expect_request("**/static/live.js*"):
            page.goto("/?page=2", wait_until="commit")
        page.locator("#text").fill("web00")
        expect(page.locator("#list")).to_contain_text("51 to 100 of 130 hosts")
        (script,) = held
        script.continue_()
        expect(page.locator("#list tbody tr")).to_have_count(9)


@pytest.mark.nightly
def test_an_idle_page_sends_no_requests_and_uses_no_processor_time(stage):
    feed = stage.service.adapters.feed
    wait_until(lambda: not feed.recent_events().since(feed.snapshot().zxid), "the page repeats no event")
    with stage.page() as page:
        page.reload()
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})  # the time of this thread alone
        page.wait_for_timeout(3000)  # a page that may have missed events fetches everything at its start
        before = task_seconds(session)
        page.wait_for_timeout(3000)

        assert [url for url in requests if "/static/" not in url and "/events?after=" not in url] == []
        assert task_seconds(session) - before < 0.1


@pytest.mark.nightly
def test_a_click_is_not_lost_when_a_change_moves_the_link_under_the_pointer(stage):
    with stage.page() as page:
        link = page.get_by_role("link", name="130 converged")
        box = link.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.down()
        with page.expect_response(lambda response: response.request.headers.get("x-page-parts") == "true"):
            stage.host(3, error="disk full")
        page.wait_for_timeout(500)  # the page has its answer, but the link is still pressed
        assert link.bounding_box() == box
        page.mouse.up()
        expect(page).to_have_url(re.compile(r"/\?state=converged"))
        expect(page.locator("#problems")).to_contain_text("disk full")
        assert page.get_by_role("link", name="129 converged").bounding_box()["y"] > box["y"] + box["height"]
        stage.host(3)


def task_seconds(session) -> float:
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return metrics["TaskDuration"]


def test_without_zookeeper_the_page_shows_its_age_and_recovers(stage):
    with stage.page() as page:
        stage.proxy.cut()
        try:
            expect(page.locator("#freshness")).to_contain_text("ZooKeeper is unreachable")
            expect(page.locator("#freshness time[data-age]")).to_have_count(1)
            expect(page.locator("h1")).to_contain_text("Last known: 130 of 130 hosts")
            expect(page.get_by_role("link", name="Stop")).to_have_count(0)
            page.goto("/hosts/h003")
            expect(page.locator("#freshness")).to_contain_text("This page shows the fleet as it was")
        finally:
            stage.proxy.heal()
        page.goto("/")
        expect(page.locator("#freshness")).to_be_empty()
        expect(page.locator("h1")).to_have_text("130 of 130 hosts have the wanted revision")


@pytest.mark.nightly
def test_without_zookeeper_the_last_known_history_is_shown(stage):
    sequence = stage.service.adapters.feed.snapshot().reading.sequence
    commit = stage.service.adapters.feed.snapshot().fleet.published
    paths = ["/history", f"/history/{sequence}", f"/history/{sequence}/timeline", f"/commits/{commit}"]
    with stage.page() as page:
        before = [page.request.get(path).status for path in paths]
        stage.proxy.cut()
        try:
            expect(page.locator("#freshness")).to_contain_text("ZooKeeper is unreachable")
            assert [page.request.get(path).status for path in paths] == before == [200] * 4
            assert page.request.get(f"/history/{sequence - 1}").status == 503
        finally:
            stage.proxy.heal()


@pytest.mark.nightly
def test_an_open_page_without_known_data_says_that_zookeeper_is_away(stage):
    newest, former = (each.sequence for each in stage.service.adapters.feed.summaries()[:2])
    with stage.page(f"/history/{former}") as page:
        page.request.get(f"/history/{newest}")
        stage.proxy.cut()
        try:
            expect(page.locator("#freshness")).to_contain_text("ZooKeeper is unreachable")
            expect(page.locator("#connection")).to_be_hidden()
        finally:
            stage.proxy.heal()
        expect(page.locator("#freshness")).to_be_empty()


@pytest.mark.nightly
def test_a_lost_connection_to_the_service_is_shown_until_it_is_back(stage):
    with stage.page() as page:
        page.context.set_offline(True)
        page.get_by_role("region", name="List of hosts").get_by_role("link", name="Role").click()
        expect(page.locator("#connection")).to_be_visible()
        page.context.set_offline(False)
        expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.nightly
def test_every_page_shows_the_state_of_the_fleet_in_its_frame_and_in_its_tab(stage):
    with stage.page("/locks") as page:
        state = page.locator("#fleet-state")
        expect(state).to_contain_text("130 of 130 hosts have the wanted revision")
        stage.host(3, error="disk full")
        expect(state).to_contain_text("1 host failed")
        expect(state).to_contain_text("1 failed")
        expect(page).to_have_title("✕ Locks · zkdeployment")
        assert "icon-bad.svg" in page.locator("link[rel=icon]").get_attribute("href")
        page.get_by_role("link", name="Stop").click()
        page.get_by_label("Reason").fill("web loses sessions")
        stage.host(3)
        expect(state).not_to_contain_text("failed")
        expect(state.get_by_role("link", name="Stop")).to_have_count(0)
        assert page.get_by_label("Reason").input_value() == "web loses sessions"
        page.get_by_role("button", name="Stop the fleet").click()
        expect(page).to_have_url(f"{stage.service.url}/locks")
        expect(state).to_contain_text("Stopped")


def test_the_keyboard_opens_and_closes_the_tabs_of_what_the_fleet_does_not_use(stage, axe_source):
    with stage.page("/locks") as page:
        more, pools = page.locator("#more summary"), page.get_by_role("link", name="Pools")
        expect(pools).to_be_hidden()
        more.focus()
        page.keyboard.press("Enter")
        expect(pools).to_be_visible()
        assert serious_faults(page, axe_source) == []
        page.keyboard.press("Escape")
        expect(pools).to_be_hidden()
        expect(more).to_be_focused()
        page.keyboard.press("g")
        page.keyboard.press("p")
        expect(page.locator("nav [aria-current=page]")).to_have_text("Pools")


def test_a_tab_leaves_and_joins_more_while_the_page_is_open(browser, zookeeper):
    with WrittenFleet(zookeeper) as fleet, running_service(zookeeper) as service:
        fleet.register(Host(identity(1), NEW))
        fleet.publish(NEW, TREE)
        wait_until(lambda: service.adapters.feed.recent_events().last, "the first reading")
        with logged_in(browser, service, service.add_user(Role.OPERATOR, "ann"), "/history") as page:
            rollout, more = page.get_by_role("link", name="Rollout", exact=True), page.locator("#more")
            page.locator("#more summary").click()
            expect(more.locator("#tab-r")).to_be_visible()
            page.locator("#tab-l a").focus()
            fleet.publish(OLD, TREE, strategy=strategy(group("others")))
            expect(page.locator("#tabs > #tab-r")).to_be_visible()
            expect(more.locator("#tab-r")).to_have_count(0)
            expect(page.locator("#tab-l a")).to_be_focused()
            expect(more).to_have_attribute("open", "")
            expect(page.locator("nav [aria-current=page]")).to_have_text("History")
            fleet.publish(NEW, TREE)
            expect(more.locator("#tab-r")).to_be_visible()
            expect(rollout).to_have_count(1)
            page.keyboard.press("Escape")
            expect(rollout).to_be_hidden()


def test_keys_reach_pages_rows_the_palette_and_the_stop(stage):
    with stage.page("/locks") as page:
        page.keyboard.press("g")
        page.keyboard.press("h")
        expect(page.locator("#list")).to_be_visible()
        page.wait_for_load_state()  # only then do the scripts of the next page hear keys
        for key in "jjjk":
            page.keyboard.press(key)
        expect(page.locator(":focus")).to_have_text("web000.example.com")
        page.keyboard.press("/")
        expect(page.locator("#text")).to_be_focused()
        page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog", name="Find")
        expect(palette).to_contain_text("Stop")
        palette.get_by_label("Find").fill("web12")
        expect(palette.get_by_role("link").first).to_have_text("web120.example.com")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("web120.example.com")
        page.wait_for_load_state()
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keys")
        expect(keys).to_contain_text("stop the fleet")
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()  # an open dialog takes the next key
        page.keyboard.press("!")
        expect(page.get_by_label("Reason")).to_be_focused()
        expect(page.get_by_role("button", name="Stop the fleet")).to_be_visible()


def test_on_a_telephone_hosts_take_one_line_and_the_acts_stay_in_reach(stage):
    with stage.page(viewport={"width": 390, "height": 844}) as page:
        expect(page.get_by_role("link", name="Services")).to_be_hidden()
        assert page.locator("#list tbody tr").first.bounding_box()["height"] < 50
        stop = page.get_by_role("link", name="Stop").bounding_box()
        assert stop["y"] + stop["height"] <= 844
        page.locator("label[for=menu]").click()
        page.get_by_role("link", name="Locks").click()
        expect(page.get_by_role("heading", name="Locks")).to_be_visible()
        assert page.get_by_role("link", name="Stop").bounding_box()["y"] > 700


@pytest.mark.nightly
def test_errors_keep_the_frame_and_offer_a_search(stage):
    with stage.page("/no/such/page") as page:
        expect(page.get_by_role("heading", name="Not Found")).to_be_visible()
        page.get_by_label("Find").fill("web129")
        page.get_by_role("button", name="Find").click()
        page.get_by_role("link", name="web129.example.com").click()
        expect(page.locator("h1")).to_have_text("web129.example.com")
        stage.proxy.cut()
        try:
            expect(page.locator("#freshness")).to_contain_text("ZooKeeper is unreachable")
            page.goto("/acts/stop")
            expect(page.get_by_role("heading", name="Service Unavailable")).to_be_visible()
            expect(page.get_by_role("link", name="Fleet", exact=True)).to_be_visible()
            page.goto("/audit")
            expect(page.get_by_role("heading", name="Acts")).to_be_visible()
        finally:
            stage.proxy.heal()


@pytest.mark.nightly
@pytest.mark.parametrize(("path", "title"), [("/locks", "Locks"), ("/", "1 host failed")])
def test_a_hidden_tab_keeps_its_title_and_its_icon_current(stage, path, title):
    with stage.page(path) as page:
        page.clock.install()
        page.reload()
        page.evaluate('Object.defineProperty(document, "hidden", {get: () => true})')
        page.evaluate('dispatchEvent(new Event("visibilitychange"))')
        stage.host(3, error="disk full")
        wait_until(lambda: not stage.is_whole, "the service has read the failure")
        page.clock.fast_forward(61_000)
        expect(page).to_have_title(f"✕ {title} · zkdeployment")
        assert "icon-bad.svg" in page.locator("link[rel=icon]").get_attribute("href")
        stage.host(3)
