"""A real Chromium, driven by Playwright, and the rules of axe-core for accessible pages."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect, sync_playwright

from zkdeployment.sandbox.processes import slowdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from playwright.sync_api import Browser, Page

    from support.service import RunningService

#: The directory into which ``scripts/test`` installs axe-core.
_AXE = Path(__file__).resolve().parents[3] / "build/axe/node_modules/axe-core/axe.min.js"

#: No sandbox, because tests run as root; and no traffic of the browser's own.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: No optimized scripts: each page runs them once, and to optimize them takes more time than they do.
_UNOPTIMIZED = "--js-flags=--no-opt"

#: Seconds until an expectation of a page fails; up to three times as many on a busy machine. A page follows the
#: fleet within a second. A test whose fleet has to deploy first waits for the deployment with ``wait_until``.
_PATIENCE = 30.0

#: The rules run in the page, all or the named ones, and only what disturbs users seriously is returned.
_SERIOUS_FAULTS = """async rules => {
    const options = rules.length ? {runOnly: rules} : {};
    const found = await axe.run(document, {resultTypes: ["violations"], ...options});
    return found.violations
        .filter(rule => ["serious", "critical"].includes(rule.impact))
        .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${rule.help}: ${node.html}`));
}"""

#: The elements that a person has to scroll sideways, without texts in lines of their own, such as files.
_SIDEWAYS = """() => [...document.querySelectorAll("body *:not(pre)")]
    .filter(element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX))
    .filter(element => element.scrollWidth > element.clientWidth + 1)
    .map(element => `${element.tagName} ${element.className} scrolls sideways`)"""

#: The width in pixels up to which a screen is one of a telephone.
_TELEPHONE = 500

#: The rules whose findings depend on the colors.
_COLOR_RULES = ("color-contrast", "link-in-text-block")


def find_chromium() -> str:
    """Return the path of the distribution's Chromium; fail the test if it does not exist."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("expected chromium or chromium-browser on the PATH, and found neither; run scripts/test")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a Chromium for the tests of a module.

    Playwright keeps an event loop in the thread of the tests while it runs. A browser for the whole session would
    break tests in other modules that run a loop of their own.
    """
    with sync_playwright() as playwright:
        expect.set_options(timeout=_patience())
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS, _UNOPTIMIZED])
        yield chromium
        chromium.close()


def _patience() -> float:
    """Return the milliseconds until an expectation fails."""
    return 1000 * _PATIENCE * min(3.0, slowdown())


def log_in(page: Page, login: tuple[str, str]) -> None:
    """Log in with a name and a key at the page of the login, which is open."""
    name, key = login
    page.get_by_label("User name").fill(name)
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()


@contextmanager
def logged_in(
    browser: Browser, service: RunningService, login: tuple[str, str], path: str, **options: Any
) -> Iterator[Page]:
    """Yield the page at ``path`` for a user who has logged in; its scripts listen to the pointer and the keyboard.

    A movement of the pointer or a typed letter has no effect before that, and does not come again.
    """
    context = browser.new_context(base_url=service.url, **options)
    patience = _patience()
    context.set_default_timeout(patience)
    expect.set_options(timeout=patience)
    page = context.new_page()
    page.goto(f"/login?next={path}")
    log_in(page, login)
    page.wait_for_url(lambda url: not url.startswith(f"{service.url}/login"), wait_until="load")
    yield page
    context.close()


@pytest.fixture(scope="session")
def axe_source() -> str:
    """Return the source of axe-core; fail the test if it is not installed."""
    if not _AXE.exists():
        pytest.fail(f"expected axe-core in {_AXE}, and found no file; run scripts/test")
    return _AXE.read_text(encoding="utf-8")


def serious_faults(page: Page, axe_source: str) -> list[str]:
    """Return the serious and critical findings of axe-core in the page, one text for each element."""
    page.evaluate(axe_source)
    return _run_rules(page)


def faults_of_pages(page: Page, axe_source: str, paths: Iterable[str]) -> list[str]:
    """Return the findings of axe-core in pages with light and with dark colors, and what is too wide.

    Without ``reduced_motion``, the colors of a page would change slowly.
    """
    faults = []
    for path in paths:
        page.emulate_media(color_scheme="light")
        page.goto(path)
        found = serious_faults(page, axe_source)
        page.emulate_media(color_scheme="dark")
        found += [f"dark: {fault}" for fault in _run_rules(page, _COLOR_RULES)]
        too_wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if too_wide > 0:
            found.append(f"{too_wide} pixels too wide")
        if page.evaluate("innerWidth") < _TELEPHONE:
            found += page.evaluate(_SIDEWAYS)
        faults += [f"{path}: {fault}" for fault in found]
    return faults


def _run_rules(page: Page, rules: Iterable[str] = ()) -> list[str]:
    faults: list[str] = page.evaluate(_SERIOUS_FAULTS, list(rules))
    return faults
