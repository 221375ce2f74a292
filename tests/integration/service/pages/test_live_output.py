"""The live output of a host's running script in a real Chromium, from a real agent and a real script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.agents import Fleet, put_script
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import faults_of_pages, logged_in
from zkdeployment.fleet.feed import live_outputs
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE = "/zkdeployment/live-output/h1"

SCRIPT = """\
#!/bin/sh
echo "unpacking <img src=x onerror=alert(1)> with --password hunter2"
while [ ! -e "$ZKDEPLOYMENT_ROOT/migrate" ]; do sleep 0.02; done
echo "migrating the database"
while [ ! -e "$ZKDEPLOYMENT_ROOT/end" ]; do sleep 0.02; done
"""


@pytest.fixture
def host(zookeeper, client, tmp_path) -> Iterator[object]:
    host = Fleet(tmp_path, zookeeper, client).host("h1")
    put_script(host.root, "foo", SCRIPT)
    host.fleet.service("/who/myfoo", "foo", "1.0", h1=1)
    host.fleet.set_version("r1")
    with host.process():
        try:
            yield host
        finally:
            for name in ("migrate", "end"):
                (host.root / name).touch()


def test_the_page_of_a_host_shows_the_output_of_its_running_script_until_nobody_looks(
    browser, zookeeper, client, host, axe_source, monkeypatch
):
    monkeypatch.setattr(live_outputs, "LINGER", 5.0)
    with running_service(zookeeper) as service:
        operator = service.add_user(Role.OPERATOR)
        wait_until(lambda: host.node.get("step") == "deploy /who/myfoo 0", "the script runs")
        assert client.exists("/zkdeployment/live-output") is None, "nobody has asked yet"
        with logged_in(browser, service, operator, "/hosts/h1", reduced_motion="reduce") as page:
            output = page.locator("#live-output")
            expect(output).to_contain_text("unpacking <img src=x onerror=alert(1)> with --password ***")
            expect(output).to_contain_text("deploy /who/myfoo 0")
            page.evaluate("document.body.dataset.kept = 'yes'")
            (host.root / "migrate").touch()
            expect(output).to_contain_text("migrating the database")
            assert page.evaluate("document.body.dataset.kept") == "yes", "the page was not loaded again"
            assert faults_of_pages(page, axe_source, ["/hosts/h1"]) == []
            expect(output).to_contain_text("migrating the database")
            wait_until(lambda: client.exists(NODE) is not None, "the page asks for the output")
            with page.expect_request(lambda request: request.url.endswith("/hosts/h1/output")):
                pass
            page.goto("/locks")
            wait_until(lambda: client.exists(NODE) is None, "the request ends after nobody looks")
            page.goto("/hosts/h1")
            expect(output).to_contain_text("migrating the database")
            (host.root / "end").touch()
            expect(output).to_be_hidden()


@pytest.mark.nightly
def test_without_javascript_the_output_is_there_when_the_page_is_loaded_again(browser, zookeeper, host):
    with running_service(zookeeper) as service:
        operator = service.add_user(Role.OPERATOR)
        wait_until(lambda: host.node.get("step") == "deploy /who/myfoo 0", "the script runs")
        with logged_in(browser, service, operator, "/hosts/h1", java_script_enabled=False) as page:
            output = page.locator("#live-output")

            def is_shown() -> bool:
                output.get_by_role("link", name="load this page again").click()
                return "unpacking" in output.inner_text()

            wait_until(is_shown, "the output is on the page")
            page.goto("/hosts/h1.example.com/output")
            expect(page).to_have_url(f"{service.url}/hosts/h1")
