"""The pages of the history in a real Chromium: pictures of the past, and the figures of the delivery."""

import re
import time
import uuid

import pytest
from playwright.sync_api import expect

from support.fleets.written import WrittenFleet
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from support.zookeeper import connected
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.service.users.user import Role

DAY = 86_400.0
HOSTS = ("h1", "h2", "h3")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def tree(number):
    others = "".join(f"  /n{place}\n    v = {number}\n" for place in range(number % 9))
    return f"/shop\n  /web : web\n    version = '{number}'\n    /deploy\n      /h1\n{others}"


def results(at, seconds, failed=()):
    return [
        HostResult(host, f"{host}.example.com", at + seconds * place, 20.0, "boom" if host in failed else None)
        for place, host in enumerate(HOSTS, 1)
    ]


@pytest.fixture(scope="module")
def service(zookeeper_server):
    """A service of a fleet with thirty publications in thirty days, of which two failed on a host."""
    chroot = f"/history-{uuid.uuid4().hex[:12]}"
    with connected(zookeeper_server.address) as client:
        client.create(chroot)
    address = f"{zookeeper_server.address}{chroot}"
    with WrittenFleet(address) as fleet, running_service(address) as running:
        fleet.register(*(Host(Identity(host, f"{host}.example.com")) for host in HOSTS))
        for number in range(30):
            age = (30 - number) * DAY
            failed = ("h2",) if number in {12, 25} else ()
            done = results(time.time() - age, 30 + 70 * (number % 5), failed)
            author = "Ada Byron <ada@x>" if number % 3 else "Bob <bob@x>"
            fleet.publish(
                f"{number:040x}", tree(number), subject=f"Web {number}", author=author, results=done, age=age
            )
        wait_until(lambda: running.adapters.feed.recent_events().last, "the first reading")
        yield running


@pytest.fixture
def viewer(service):
    return service.add_user(Role.VIEWER, f"vic{uuid.uuid4().hex[:6]}")


def test_the_history_shows_the_last_publications_as_a_strip_that_leads_to_each(browser, service, viewer):
    with logged_in(browser, service, viewer, "/history", viewport=DESK) as page:
        bars = page.locator("svg.strip a")
        expect(bars).to_have_count(30)
        failed = page.get_by_role(
            "link",
            name=re.compile(
                "^Web 25, by Ada Byron, failed, 2 of 3 hosts done, took 1 min, .* nodes of the tree changed$"
            ),
        )
        expect(failed.locator("rect.failed")).to_have_count(1)
        failed.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Web 25")


@pytest.mark.nightly
def test_a_day_of_the_calendar_lists_its_publications(browser, service, viewer):
    with logged_in(browser, service, viewer, "/history", viewport=DESK) as page:
        days = page.locator("svg.calendar a")
        expect(days).to_have_count(30)
        days.last.click()
        expect(page.locator("#publications tbody tr")).to_have_count(1)
        expect(page.locator("#publications tbody tr")).to_contain_text("Web 29")
        page.get_by_role("link", name="Show all days").click()
        expect(page.locator("#publications tbody tr")).to_have_count(30)


@pytest.mark.nightly
def test_the_figures_of_the_delivery_have_their_definitions(browser, service, viewer):
    with logged_in(browser, service, viewer, "/history", viewport=DESK) as page:
        figures = page.locator("dl.figures")
        expect(figures).to_contain_text("Deployment frequency6.8 a week")
        expect(figures).to_contain_text("Change failure rate7 %")
        expect(figures).to_contain_text("Time to restore1 d")
        expect(figures).to_contain_text("The share of the publications that failed on at least one host.")


@pytest.mark.parametrize("viewport", [PHONE, pytest.param(DESK, marks=pytest.mark.nightly)])
def test_the_history_is_accessible_and_light(browser, service, viewer, axe_source, viewport):
    with logged_in(browser, service, viewer, "/history", viewport=viewport, reduced_motion="reduce") as page:
        assert faults_of_pages(page, axe_source, ["/history", "/history?day=2020-01-01"]) == []
        assert len(page.request.get("/history").body()) < 60_000
