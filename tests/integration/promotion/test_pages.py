"""The page of all fleets, its forms and its events, with a real promoter, over HTTP and in Chromium."""

import time

import pytest
from playwright.sync_api import expect

from screenshots.fleets import FleetsPlot, FleetsScene
from support.fleets.staged import staged_fleets
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from support.web.forms import follow, submit
from zkdeployment.fleet.events.event import EventKind
from zkdeployment.fleet.store.audit import read_acts
from zkdeployment.promotion.feed import PROMOTION_PART
from zkdeployment.promotion.records import FleetState
from zkdeployment.promotion.store import read_standings
from zkdeployment.service.users.user import Role

HOSTILE = "<img src=x onerror=alert(1)>"
CANARY = {
    "name": "canary",
    "critical": True,
    "depends_on": [],
    "selectors": [{"node_tags": ["eu"]}],
    "success_criteria": {"percent_successful_nodes": 100},
}
MANUAL = CANARY | {"name": "rest", "depends_on": ["canary"], "selectors": [], "manual": True}


@pytest.fixture
def fleets(tmp_path, zookeeper, session):
    with staged_fleets(tmp_path, zookeeper, session, "eu-1", "us-1", "us-2") as staged:
        yield staged


@pytest.fixture
def service(zookeeper):
    with running_service(zookeeper) as service:
        yield service


def reading_of(service):
    return service.adapters.feed.snapshot().reading.of(PROMOTION_PART)


def seen_by(service, running, condition, awaited):
    """Run the promoter until the reading of the service satisfies a condition."""
    wait_until(service.has_read, "the service has read the fleet")
    running.until(lambda: condition(reading_of(service)), awaited)


def shown(browser, text):
    """Return when the page shows an act that was done."""
    wait_until(lambda: text in browser.get("/fleets").text, text)


def canary_is_through(service, running):
    """Wait until the service has read that the canary succeeded, and the standings after that."""

    def is_through(reading):
        if reading.state is None or reading.state.rollout.progress["canary"].verdict is None:
            return False
        canary = reading.standings.get("eu-1")
        return canary is not None and (canary.tip, canary.behind) == (reading.state.revision, 0)

    seen_by(service, running, is_through, "the canary is through")


def test_operators_direct_the_promotion_from_the_page_without_javascript(service, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        canary_is_through(service, running)
        with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
            page = browser.get("/fleets")
            assert "The promotion waits for a decision" in page.text
            assert f'href="{fleets.url}/us-1" rel="noreferrer">us-1</a>' in page.text
            form = follow(browser, page, "Withhold", of="us-2")
            assert "Promotions neither wait for the fleet" in form.text
            assert submit(browser, form, "Withhold", {"reason": "it moves"}).status_code == 303
            form = follow(browser, browser.get("/fleets"), "Pin", of="eu-1")
            refused = submit(browser, form, "Pin", {"reason": "x", "revision": "abcdef", "until": ""})
            assert (refused.status_code, "does not contain abcdef" in refused.text) == (409, True)
            values = {"reason": "an audit", "revision": commit[:9], "until": "2h"}
            assert submit(browser, form, "Pin", values).status_code == 303
            shown(browser, f"Pinned to {commit[:12]} until ")
            form = follow(browser, browser.get("/fleets"), "Unpin", of="eu-1")
            assert submit(browser, form, "Unpin", {"reason": "it is over"}).status_code == 303
            shown(browser, 'aria-label="Promotion of')
            form = follow(browser, browser.get("/fleets"), "Promote", of=commit[:12])
            assert f"The commit is {commit[:12]} by " in form.text
            assert submit(browser, form, "Promote this commit", {"reason": "stay"}).status_code == 303
            shown(browser, f"Promotions run from {commit[:12]}, chosen by ann: stay; newer commits wait until")
            assert browser.get("/api/v1/fleets").json()["choice"]["revision"] == commit
            form = follow(browser, browser.get("/fleets"), "Follow the main branch")
            assert submit(browser, form, "Follow the main branch", {"reason": "go on"}).status_code == 303
            wait_until(lambda: "Promotions run from" not in browser.get("/fleets").text, "the choice is gone")
            early = follow(browser, browser.get("/fleets"), "Promote", of="rest")
            form = follow(browser, browser.get("/fleets"), "Pause the promotion")
            assert submit(browser, form, "Pause the promotion", {"reason": "look"}).status_code == 303
            seen_by(service, running, lambda reading: reading.state.paused is not None, "the promotion is paused")
            refused = submit(browser, early, "Promote the group", {"reason": "good"})
            assert (refused.status_code, "is paused (promotion pause by ann" in refused.text) == (409, True)
            form = follow(browser, browser.get("/fleets"), "Resume the promotion")
            assert submit(browser, form, "Resume the promotion", {"reason": "fine"}).status_code == 303
            seen_by(service, running, lambda reading: reading.state.paused is None, "the promotion continues")
            form = follow(browser, browser.get("/fleets"), "Promote", of="rest")
            assert submit(browser, form, "Promote the group", {"reason": "good"}).status_code == 303
            seen_by(service, running, lambda reading: reading.state.ended is not None, "the promotion has ended")
            form = follow(browser, browser.get("/fleets"), "Release", of="us-2")
            assert submit(browser, form, "Release", {"reason": "it has moved"}).status_code == 303
            refused = browser.get("/acts/promotion-abort")
            assert "the promotion 1-1 is over: success" in refused.text
            assert browser.get("/acts/promotion-withhold?fleet=eu-9").text.count("There is no fleet eu-9.") == 1
    assert [act.what for act in read_acts(fleets.session) if act.by == "ann"] == [
        "withhold fleet us-2",
        f"pin fleet eu-1 {commit[:9]} until 2h",
        "unpin fleet eu-1",
        f"run promotions from {commit}",
        "follow the main branch with promotions",
        "promotion pause",
        "promotion resume",
        "promotion promote rest",
        "release fleet us-2",
    ]


def test_a_viewer_sees_the_fleets_and_is_offered_no_act(service, fleets):
    fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        canary_is_through(service, running)
        with service.browser(service.add_user(Role.VIEWER)) as browser:
            page = browser.get("/fleets").text
            assert "eu-1" in page
            assert "/acts/promotion" not in page
            assert browser.get("/fleets/promotions/1-1").status_code == 200
            assert browser.get("/fleets/promotions/9-9").status_code == 404


def test_fleets_are_read_over_the_api(service, fleets):
    commit = fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        canary_is_through(service, running)
        with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
            body = {}

            def worst_first():
                body.update(browser.get("/api/v1/fleets").json())
                return [fleet["name"] for fleet in body["fleets"]] == ["us-1", "us-2", "eu-1"]

            running.until(worst_first, "the fleets that lack the commit come first")
            assert (body["schema"], body["main"]) == ("zkdeployment/fleets/v1", commit)
            history = browser.get("/api/v1/promotions").json()
            assert history["promotions"][0]["reached"].keys() == {"eu-1"}


def test_changes_of_fleets_and_promotions_are_events(service, fleets):
    fleets.push(CANARY, MANUAL)
    with fleets.promoter() as running:
        canary_is_through(service, running)
        running.cycles()
        wait_until(
            lambda: reading_of(service).standings == read_standings(fleets.session), "the service has read them"
        )
        before = service.adapters.feed.recent_events().last
        running.cycles(20)  # every report is read again, and nothing else changes
        # The service of the fleet may answer in between: the state, which is waited for, comes last.
        fleets.fleets["us-1"].problem = "disk full"
        fleets.fleets["us-1"].state = FleetState.STOPPED
        seen_by(
            service,
            running,
            lambda reading: reading.standings["us-1"].state is FleetState.STOPPED,
            "the fleet is stopped",
        )
        batches = service.adapters.feed.recent_events().after(before)
    events = [event for batch in batches for event in batch.events if event.kind is EventKind.FLEET]
    stopped = [event.to_json() for event in events if event.subject == "us-1"][-1]
    assert (stopped["id"], stopped["state"]) == ("us-1", "stopped")
    assert stopped["words"].endswith("disk full")
    assert {event.subject for event in events} == {"us-1"}
    first = service.adapters.feed.recent_events().batches
    assert any(event.kind is EventKind.PROMOTION for batch in first for event in batch.events)


def test_the_page_is_accessible_follows_the_fleets_and_fits_a_telephone(service, fleets, browser, axe_source):
    commit = fleets.push(CANARY, MANUAL, message=f"Web 1.3 {HOSTILE}")
    ann = service.add_user(Role.OPERATOR, "ann")
    with fleets.promoter() as running:
        canary_is_through(service, running)
        options = {"reduced_motion": "reduce", "viewport": {"width": 390, "height": 844}}
        with logged_in(browser, service, ann, "/fleets", **options) as page:
            expect(page.locator("h1")).to_have_text("The promotion waits for a decision")
            expect(page.locator("#fleets li h3")).to_have_text(["us-1", "us-2", "eu-1"])
            expect(page.locator("svg.rollout a")).to_have_count(2)
            page.evaluate("window.loadedOnce = true")
            fleets.fleets["us-2"].problem = HOSTILE
            fleets.fleets["us-2"].state = FleetState.STOPPED
            running.until(lambda: fleets.records.standings["us-2"].state is FleetState.STOPPED, "us-2 is stopped")
            expect(page.locator("h1")).to_have_text("1 fleet of 3 cannot follow")
            expect(page.locator("#fleets li h3").first).to_have_text("us-2")
            expect(page.locator("#fleets li").first).to_contain_text(HOSTILE)
            assert page.evaluate("window.loadedOnce") is True
            assert faults_of_pages(page, axe_source, ["/fleets", "/fleets/promotions/1-1"]) == []
            expect(page.locator("h1")).to_contain_text(commit[:12])
            expect(page.locator("#reached tbody tr")).to_have_count(1)
        with logged_in(browser, service, ann, "/fleets", reduced_motion="reduce") as page:
            assert faults_of_pages(page, axe_source, ["/fleets", "/fleets/promotions/1-1"]) == []


@pytest.mark.nightly
def test_a_hundred_fleets_are_accessible_fit_a_telephone_and_weigh_little(service, session, browser, axe_source):
    FleetsPlot(100, FleetsScene.DIVERGED, time.time()).write(session)
    ann = service.add_user(Role.OPERATOR, "ann")
    wait_until(lambda: reading_of(service).report is not None, "the service has read the fleets")
    options = {"reduced_motion": "reduce", "viewport": {"width": 360, "height": 740}}
    with logged_in(browser, service, ann, "/fleets", **options) as page:
        assert faults_of_pages(page, axe_source, ["/fleets", "/fleets/promotions/4-1"]) == []
        page.goto("/fleets")
        assert page.locator("#ways tbody tr").count() == 4
        assert page.locator("#fleets li").count() == 100
        assert len(page.content()) < 66_000
        page.set_viewport_size({"width": 1280, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_without_fleets_the_page_says_so(service):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        assert "No fleets are under promotion" in browser.get("/fleets").text
