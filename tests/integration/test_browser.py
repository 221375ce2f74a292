"""The browser and the rules for accessible pages that other tests rely on."""

import pytest

from support.web.browser import find_chromium, serious_faults
from support.web.servers import web_server

ACCESSIBLE = b"<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1></main></html>"
FAULTY = b"<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1><img src=x><input></main></html>"


def test_the_browser_loads_a_page_and_the_rules_find_its_serious_faults(browser, axe_source):
    with web_server({"/good": (200, ACCESSIBLE), "/bad": (200, FAULTY)}) as url:
        page = browser.new_page()
        page.goto(f"{url}/good")
        assert (page.title(), serious_faults(page, axe_source)) == ("A page", [])
        page.goto(f"{url}/bad")
        assert sorted(fault.partition(":")[0] for fault in serious_faults(page, axe_source)) == [
            "image-alt",
            "label",
        ]
        page.close()


def test_a_missing_browser_is_a_failure_with_an_explanation(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="expected chromium or chromium-browser"):
        find_chromium()
