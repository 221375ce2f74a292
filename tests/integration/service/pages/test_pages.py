"""Every page in a browser without JavaScript, by real requests; hostile texts appear as text."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain, repeat
from xml.etree import ElementTree as ET

import pytest

from support.builders import make_host
from support.fleets.written import WrittenFleet
from support.service import form_token, running_service
from support.waiting import wait_until
from support.web.forms import follow, submit
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.host import Host, Identity
from zkdeployment.checks.ports import CheckAdapters
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.service.users.user import Role

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
TREE = """
/shop
  /web : shop-web
    version = '1.3'
    note = '<b>&"'
    /providers
    /deploy
      /h1
      /h2
  /batch : shop-batch
    version = '1.0'
    /deploy
      /h1
"""


@pytest.fixture
def fleet(zookeeper):
    with WrittenFleet(zookeeper) as written:
        written.register(make_host("h1"), Host(Identity("h2", HOSTILE)))
        results = [HostResult("h1", "h1.example.com", 1.0, 2.0, f"boom {HOSTILE}")]
        written.publish("r2", TREE, subject=f"Web 1.3 {HOSTILE}", author=f"{HOSTILE} <x>", results=results)
        written.report(Identity("h1", "h1.example.com"))
        written.register(make_host("h1", "r2"))
        written.register(
            Host(Identity("h2", HOSTILE), "r1", deploying="r2", step=f"deploy {HOSTILE}", steps=(1, 2))
        )
        yield written


@pytest.fixture
def service(zookeeper, fleet):
    assert fleet
    with running_service(zookeeper) as running:
        wait_until(lambda: _hosts(running) == 2, "the service has read the fleet")
        yield running


def _hosts(running):
    try:
        return len(running.adapters.feed.snapshot().fleet.hosts)
    except Exception:  # noqa: BLE001  not read yet
        return 0


def test_every_page_shows_hostile_texts_as_text(service):
    sequence = service.adapters.feed.snapshot().reading.sequence
    with service.browser(service.add_user(Role.OPERATOR)) as browser:
        pages = {
            path: browser.get(path)
            for path in (
                "/",
                "/?state=converged&text=example&sort=-name&page=9",
                "/hosts/h1",
                "/hosts/h2",
                "/services",
                "/services?text=web",
                "/services/shop/web",
                "/services/shop/batch",
                "/rollout",
                "/history",
                f"/history/{sequence}",
                f"/history/{sequence}/timeline",
                "/locks",
                "/plan",
                "/acts/stop",
                "/acts/hold?back=/locks",
                "/acts/rollout-pause",
            )
        }

    for path, page in pages.items():
        assert (page.status_code, "zkdeployment" in page.text) == (200, True), path
        assert "<script>alert" not in page.text, path
        assert "\u202e" not in page.text, path
        assert "\x1b" not in page.text, path
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\x1b[31m" in pages["/"].text
    assert "1 of 2 hosts have the wanted revision" in pages["/"].text
    assert "No host matches" not in pages["/?state=converged&text=example&sort=-name&page=9"].text
    assert "shop-web" in pages["/hosts/h1"].text
    assert "No instance has registered" in pages["/services/shop/batch"].text
    assert "note = " in pages["/services/shop/web"].text
    assert "No strategy is published" in pages["/rollout"].text


def test_the_page_of_a_service_names_the_instances_that_are_down(service, client):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        before = browser.get("/services/shop/web").text
        client.create("/shop/web/providers/192.0.2.1:80", ephemeral=True)
        client.delete("/shop/web/providers/192.0.2.1:80")
        sentence = "1 of 1 instance is down: /shop/web 0 on h1.example.com"
        wait_until(lambda: sentence in browser.get("/services/shop/web").text, "the instance is down")
    assert "down" not in before.partition("Properties")[0].partition('id="service"')[2]


def test_the_timeline_shows_steps_waits_and_failures_and_can_be_saved(service, fleet):
    service.adapters.recorder.start()
    sequence = service.adapters.feed.snapshot().reading.sequence
    waiting = Host(
        Identity("h2", HOSTILE), "r1", deploying="r2", step="wait for the lock of /shop/web, held by x (h1)"
    )
    fleet.register(waiting)
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        assert f"/history/{sequence}/timeline" in browser.get(f"/history/{sequence}").text
        page = f"/history/{sequence}/timeline"
        wait_until(lambda: "Longest waits" in browser.get(page).text, "the wait is recorded")
        text = browser.get(page).text
        assert "2 hosts, 1 failed" in text
        assert "wait for the lock of /shop/web" in text
        assert 'class="lock"' in text
        zoomed = browser.get(f"{page}?begin=0&end=1&group=all+hosts").text
        assert "all hosts: 2 hosts, 1 failed" in zoomed
        saved = browser.get(f"{page}.svg")
        assert saved.headers["Content-Disposition"] == f'attachment; filename="timeline-{sequence}.svg"'
        assert ET.fromstring(saved.text).tag == "{http://www.w3.org/2000/svg}svg"
        assert browser.get("/history/1/timeline").status_code == 404
        assert browser.get(f"{page}?begin=nan").status_code == 422


def test_the_page_of_a_failed_host_shows_the_end_of_its_scripts_output(service, fleet):
    failed = make_host("h1", None, error="boom", step="deploy /shop/web 0")
    fleet.fail(failed, "deploy /shop/web 0", "boom", "r2", output=f"first line\nbind() failed {HOSTILE}\n")
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        wait_until(lambda: "Output of the failed script" in browser.get("/hosts/h1").text, "the output is shown")
        page = browser.get("/hosts/h1").text
        assert "first line\nbind() failed &lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "Output of the failed script" not in browser.get("/hosts/h2").text


@pytest.mark.parametrize(
    "path",
    ["/hosts/none", "/services/none", "/history/12", "/map/99", "/acts/explode", "/acts/release?lock=none"],
)
def test_a_missing_subject_has_a_page_of_its_own(service, path):
    with service.browser(service.add_user(Role.OPERATOR)) as browser:
        page = browser.get(path)

    assert page.status_code == 404
    assert "Go to the fleet" in page.text


def test_a_viewer_sees_no_acts_and_may_not_act(service):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        assert "/acts/" not in browser.get("/").text
        assert browser.get("/acts/stop").status_code == 403
        assert browser.post("/acts/stop", data={"reason": "because"}).status_code == 403


def test_an_operator_with_paths_sees_only_the_acts_that_it_may_do(service, client):
    for contender in ("agent-locks/shop,web/a__lock__0000000001", "role-locks/web/lr-0000000001"):
        client.create(f"/{contender}", b'{"requestor": "h9", "hostname": "h9"}', makepath=True)
    with service.browser(service.add_user(Role.OPERATOR, "bob", ("/shop",))) as browser:
        fleet, locks = browser.get("/").text, browser.get("/locks").text
        assert "/acts/stop" in fleet
        assert "/acts/hold" not in fleet
        assert locks.count("/acts/release") == 1
        assert "/acts/release?lock=%2Fagent-locks%2Fshop%2Cweb" in locks
        form = browser.get("/acts/release?lock=/shop/web")
        token = {"csrf_token": form_token(form.text), "reason": "because"}
        refused = (
            browser.get("/acts/hold"),
            browser.get("/acts/release?lock=web"),
            browser.post("/acts/hold", data=token),
            browser.post("/acts/resume", data=token),
            browser.post("/acts/rollout-abort", data=token),
            browser.post("/acts/release", data={**token, "lock": "web"}),
        )
        for page in refused:
            assert page.status_code == 403
            assert "this user may act only at and below /shop (and stop the fleet)" in page.text
        assert submit(browser, form, "Release the lock", {"reason": "because"}).status_code == 303
        stop = follow(browser, browser.get("/"), "Stop")
        assert submit(browser, stop, "Stop the fleet", {"reason": "because"}).status_code == 303
        wait_until(lambda: "/acts/" not in browser.get("/").text, "the page shows the stop")
    assert client.get_children("/role-locks/web") == ["lr-0000000001"]
    assert client.get_children("/agent-locks/shop,web") == []


def test_a_page_asks_only_for_the_parts_that_changed(service):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        mark = re.search('data-mark="([^"]+)"', browser.get("/").text)
        assert mark is not None
        headers = {"X-Page-Parts": "true", "X-Map-Mark": mark[1], "X-Changed-Hosts": "h1"}
        part = browser.get("/", headers=headers).text
        place = browser.get("/map/1", headers={"X-Page-Parts": "true"}).text

    assert "<html" not in part
    assert re.search('id="verdict"[^>]* data-renewed', part)
    assert 'id="search"' not in part
    assert place == "h1.example.com: converged"


def test_the_frame_that_a_page_asks_for_is_that_of_the_page(service):
    with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:

        def frame(page):
            return browser.get("/frame", params={"page": page}, headers={"X-Page-Parts": "true"}).text

        assert "/acts/stop?back=%2Flocks%3Fa%3D1" in frame("/locks?a=1")
        assert "/acts/" not in frame("/acts/stop?back=/locks")
        assert re.search('id="fleet-state"[^>]* hidden', frame("/"))
        assert "evil" not in frame("//evil.example.com")
        person = browser.get("/frame?page=/locks%3Fa=1", follow_redirects=False)

    assert (person.status_code, person.headers["location"]) == (303, "/locks?a=1")


@pytest.mark.parametrize("path", ["/hosts/h2", "/locks", "/services", "/services/shop/web", "/rollout", "/plan"])
def test_all_parts_of_a_page_show_the_fleet_of_one_moment(service, monkeypatch, path):
    feed = service.adapters.feed
    first = feed.snapshot()
    with service.browser(service.add_user(Role.OPERATOR)) as browser:
        # The first one has the event from which the page resumes the stream.
        moments = chain(repeat(first, 2), repeat(replace(first, reading=FleetReading())))
        monkeypatch.setattr(feed, "snapshot", moments.__next__)
        page = browser.get(path)
    assert page.status_code == 200
    assert "Nothing is published yet" not in page.text


def test_clients_share_the_checks_on_the_page_of_a_service(service, monkeypatch):
    monkeypatch.setattr(service.adapters.feed._shared, "_max_age", 60.0)
    found = []
    monkeypatch.setattr(
        CheckAdapters, "findings", lambda _self, hosts, _now, path: found.append((hosts, path)) or ()
    )
    login = service.add_user(Role.VIEWER)
    with service.browser(login) as first, service.browser(login) as second:
        statuses = [browser.get("/services/shop/web").status_code for browser in (first, second)]
    assert (statuses, found) == ([200, 200], [(["h2", "h1"], "/shop/web")])


def test_the_chosen_map_is_kept_while_the_fleet_has_no_such_map(service):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        page = browser.get("/?map=rack&part=r7").text
        assert browser.cookies["map"] == "rack"

    assert "only r7" not in page
    assert "2 hosts" in page


def test_an_act_returns_to_its_view_and_the_page_shows_it(service):
    with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
        form = follow(browser, browser.get("/?state=failed"), "Stop")
        done = submit(browser, form, "Stop the fleet", {"reason": "web loses <sessions>"})
        wait_until(lambda: "ann stopped the fleet" in browser.get("/").text, "the page shows the stop")
        page = browser.get("/")
        away = submit(browser, browser.get("/acts/resume?back=//evil.example.com"), "Resume the fleet")

    assert (done.status_code, done.headers["location"]) == (303, "/?state=failed")
    assert "web loses &lt;sessions&gt;" in page.text
    assert away.headers["location"] == "/"


def test_an_impossible_act_is_refused_with_a_reason(service):
    with service.browser(service.add_user(Role.OPERATOR, "ann")) as browser:
        form = browser.get("/acts/stop")
        answer = browser.post("/acts/resume", data={"csrf_token": form_token(form.text), "reason": "x"})

    assert answer.status_code == 409
    assert "neither stopped nor held" in answer.text


def test_static_files_are_kept_by_browsers_and_nothing_else_is_served(service):
    page = service.client.get("/login").text
    address = page.partition('rel="stylesheet" href="')[2].partition('"')[0]

    style = service.client.get(address)

    assert (style.status_code, "immutable" in style.headers["cache-control"]) == (200, True)
    assert style.headers["content-type"].startswith("text/css")
    assert service.client.get("/static/..%2fapplication.py").status_code == 404


def test_an_address_that_no_page_can_have_is_not_found(service):
    with service.browser(service.add_user(Role.VIEWER)) as browser:
        for path in ("/commits/abc", "/history/-1", "/history/x/timeline"):
            page = browser.get(path)
            assert (page.status_code, f"there is no page {path}" in page.text) == (404, True), path
            assert browser.get("/api/v1/history/x").status_code == 422
