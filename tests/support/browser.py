"""A real Chromium, driven by Playwright, and the rules of axe-core for accessible pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

#: The directory into which ``scripts/test`` installs axe-core.
_AXE = Path(__file__).resolve().parents[2] / "build/axe/node_modules/axe-core/axe.min.js"

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

#: The rules run in the page, and only what disturbs users seriously is returned.
_SERIOUS_FAULTS = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations
        .filter(rule => ["serious", "critical"].includes(rule.impact))
        .flatMap(rule => rule.nodes.map(node => `${rule.id}: ${rule.help}: ${node.html}`));
}"""


def find_chromium() -> str:
    """Return the path of the distribution's Chromium; fail the test if there is none."""
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
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def axe_source() -> str:
    """Return the source of axe-core; fail the test if it is not installed."""
    if not _AXE.exists():
        pytest.fail(f"expected axe-core in {_AXE}, and found no file; run scripts/test")
    return _AXE.read_text(encoding="utf-8")


def serious_faults(page: Page, axe_source: str) -> list[str]:
    """Return what axe-core finds serious or critical in the page, one text for each element."""
    page.evaluate(axe_source)
    faults: list[str] = page.evaluate(_SERIOUS_FAULTS)
    return faults
