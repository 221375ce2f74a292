"""Starts ZooKeeper, the service and a browser for each scene, and photographs its pages."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from playwright.sync_api import sync_playwright

from screenshots.fleets import FleetsPlot, FleetsScene
from screenshots.pools import DOCUMENT, ended_sessions, pool_change
from screenshots.scenes import NEW, Plot, Scene
from support.branches import Branch
from support.fleets.written import WrittenFleet
from support.pools.builders import add_tenant
from support.proxy import Proxy
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import FLAGS, find_chromium
from support.zookeeper import connected
from zkdeployment.config.settings import load
from zkdeployment.fleet.traces.exporter import StepRecorder
from zkdeployment.pools.feed import pools_of
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Page

    from support.service import RunningService

_PROJECT = Path(__file__).resolve().parents[2]

#: All screenshots, to look at; and those of the manual.
DIRECTORY = _PROJECT / "build/screenshots"
MANUAL = _PROJECT / "etc/manual/screenshots"

SHOWN_IN_MANUAL = (
    "fleet-300-rolling-1280-light",
    "fleet-300-rolling-1280-dark",
    "fleet-300-stopped-390-light",
    "fleet-300-away-1280-light",
    "fleet-10000-stopped-1280-dark",
    "fleet-10000-rolling-2560-light",
    "host-stopped-1280-light",
    "rollout-rolling-1280-light",
    "publication-stopped-1280-light",
    "timeline-rolling-1280-light",
    "commit-rolling-1280-light",
    "palette-rolling-1280-light",
    "history-rolling-1280-light",
    "service-stopped-1280-light",
    "service-rolling-1280-light",
    "locks-rolling-390-light",
    "intents-rolling-1280-light",
    "intent-rolling-1280-light",
    "pools-rolling-1280-light",
    "tenant-rolling-390-dark",
    "stop-rolling-390-dark",
    "plan-converged-1280-light",
    "fleets-100-diverged-1280-light",
    "fleets-3-rolling-390-dark",
)

WIDTHS = {390: 844, 1280: 800, 2560: 1100}
SIZES = (3, 300, 10_000)

#: The pages besides the front page, with what their pictures are called.
PAGES = {
    "host": "/hosts/{host}",
    "services": "/services",
    "service": "/services{service}",
    "rollout": "/rollout",
    "history": "/history",
    "publication": "/history/{sequence}",
    "timeline": "/history/{sequence}/timeline",
    "commit": "/commits/{commit}",
    "locks": "/locks",
    "stop": "/acts/stop",
    "intents": "/intents",
    "intent": "/intents/retail/store/v1/shop?app=search&cluster=shop",
    "changed-intent": "/intents/office/mail/v2/relay",
    "release": "/acts/release?lock=/mail/relay&back=/locks",
}


#: The fleets of fleets that are photographed: their number and their scene.
PROMOTED = tuple((size, scene) for size in (3, 100) for scene in FleetsScene)

#: The pages that grow with the fleet, in all sizes.
GROWING = ("services", "service", "rollout", "history", "publication", "timeline", "commit")


def photograph(sizes: Sequence[int] | None = None) -> None:
    """Photograph the front page in all scenes, the growing pages in all sizes, and the others with 300 hosts."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        server = ZooKeeperServer(find_installation(), Path(directory))
        server.start()
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        try:
            for size in sizes or SIZES:
                for scene in Scene:
                    _photograph_scene(browser, server, Plot(size, scene, time.time()))
            for size, scene in PROMOTED if sizes is None else ():
                _photograph_fleets(browser, server, FleetsPlot(size, scene, time.time()))
        finally:
            browser.close()
            server.kill()
    MANUAL.mkdir(exist_ok=True)
    for name in SHOWN_IN_MANUAL:
        if (DIRECTORY / f"{name}.png").exists():
            shutil.copyfile(DIRECTORY / f"{name}.png", MANUAL / f"{name}.png")


def _photograph_scene(browser: Browser, server: ZooKeeperServer, plot: Plot) -> None:
    chroot = f"/{plot.scene.value}-{plot.size}"
    with connected(server.address) as client:
        client.ensure_path(chroot)
    with Proxy("127.0.0.1", server.port) as proxy, WrittenFleet(f"{server.address}{chroot}") as fleet:
        plot.write(fleet)
        with running_service(f"{proxy.address}{chroot}") as service:
            _wait_for(service, plot)
            login = service.add_user(Role.OPERATOR, "ann")
            for scheme in ("light", "dark"):
                for width, height in WIDTHS.items():
                    with _page(browser, service, login, width, height, scheme) as page:
                        _photograph_pages(page, service, plot, f"{width}-{scheme}")
            if plot.scene is Scene.ROLLING and plot.size == 300:
                _photograph_pools(browser, service, fleet)
            if plot.scene is Scene.CONVERGED and plot.size == 300:
                _photograph_plan(browser, f"{server.address}{chroot}", plot)
            if plot.scene is Scene.AWAY:
                _photograph_outage(browser, service, login, proxy, plot)


def _photograph_pages(page: Page, service: RunningService, plot: Plot, suffix: str) -> None:
    if plot.scene is Scene.AWAY:
        return
    page.goto(f"{service.url}/")
    page.screenshot(path=DIRECTORY / f"fleet-{plot.size}-{plot.scene.value}-{suffix}.png")
    if plot.scene is Scene.CONVERGED:
        return
    cached = service.adapters.feed.snapshot()
    failed = [host for host in cached.status.hosts if host.error or host.step]
    places = {
        "host": failed[0].id,
        "sequence": str(cached.reading.sequence),
        "commit": NEW,
        "service": plot.service,
    }
    size, pages = ("", tuple(PAGES)) if plot.size == 300 else (f"{plot.size}-", GROWING)
    with patch.object(StepRecorder, "steps", lambda *_: plot.steps()):
        for name in pages:
            if name == "release" and plot.scene is not Scene.ROLLING:
                continue
            page.goto(f"{service.url}{PAGES[name].format(**places)}")
            picture = DIRECTORY / f"{name}-{size}{plot.scene.value}-{suffix}.png"
            page.screenshot(path=picture, full_page=width_of(page) < 500)
    page.goto(f"{service.url}/")
    page.keyboard.press("Control+k")
    text = "mail" if plot.size > 10 else "host"
    page.get_by_role("searchbox", name="Find", exact=True).fill(text)
    page.wait_for_selector(f"dialog .plain a:has-text('{text}')")
    page.screenshot(path=DIRECTORY / f"palette-{size}{plot.scene.value}-{suffix}.png")


def _photograph_pools(browser: Browser, service: RunningService, fleet: WrittenFleet) -> None:
    """Photograph the page of pools as an admin and as a tenant see it, and the form of a request."""
    users, now = service.adapters.users, time.time()
    admin = service.add_user(Role.ADMIN, "jo")
    first, second = add_tenant(users, "ci"), add_tenant(users, "release")
    tenants = first.user.id, second.user.id
    fleet.lend(DOCUMENT, pool_change(now, tenants), ended=ended_sessions(now, tenants))
    wait_until(
        lambda: bool(pools_of(service.adapters.feed).snapshot.workers),
        "the service has read the pools",
    )
    tenant = first.user.name, first.key
    shown = (("pools", admin, "/pools"), ("tenant", tenant, "/pools"), ("request", tenant, "/pools/acts/request"))
    for scheme in ("light", "dark"):
        for width, height in WIDTHS.items():
            for name, login, path in shown:
                with _page(browser, service, login, width, height, scheme) as page:
                    page.goto(f"{service.url}{path}")
                    page.screenshot(path=DIRECTORY / f"{name}-rolling-{width}-{scheme}.png")


def _photograph_plan(browser: Browser, zookeeper: str, plot: Plot) -> None:
    """Photograph the plan of a commit that is not published yet."""
    with tempfile.TemporaryDirectory() as directory:
        branch = Branch(Path(directory))
        files = {"a.zk": plot.tree, "strategy.yaml": plot.strategy_document}
        branch.push(files)
        changed = plot.tree.replace("'2.0.4'", "'2.1'").replace("workers = 12", "workers = 16")
        branch.push(files | {"a.zk": changed}, message="Cart 2.1: gift cards")
        config = Path(directory) / "service.cfg"
        sections = f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]\nurl = {branch.bare}\n"
        config.write_text(f"{sections}tree-directory = {directory}/mirror\n")
        with running_service(zookeeper, repository=load(config, host=False)) as service:
            _wait_for(service, plot)
            login = service.add_user(Role.OPERATOR, "sam")
            _photograph_page(browser, service, login, "/plan?revision=main", f"plan-{plot.scene.value}")


def _photograph_fleets(browser: Browser, server: ZooKeeperServer, plot: FleetsPlot) -> None:
    """Photograph the page of the fleets under promotion."""
    address = f"{server.address}/fleets-{plot.scene.value}-{plot.size}"
    with connected(server.address) as client:
        client.ensure_path(address.removeprefix(server.address))
    home = Plot(3, Scene.CONVERGED, plot.now)
    with WrittenFleet(address) as fleet, Session(address, session_timeout=6.0) as session:
        session.open()
        home.write(fleet)
        plot.write(session)
        with running_service(address) as service:
            _wait_for(service, home)
            login = service.add_user(Role.OPERATOR, "ann")
            _photograph_page(browser, service, login, "/fleets", f"fleets-{plot.size}-{plot.scene.value}")


def _photograph_page(
    browser: Browser, service: RunningService, login: tuple[str, str], path: str, name: str
) -> None:
    for scheme in ("light", "dark"):
        for width, height in WIDTHS.items():
            with _page(browser, service, login, width, height, scheme) as page:
                page.goto(f"{service.url}{path}")
                page.screenshot(path=DIRECTORY / f"{name}-{width}-{scheme}.png")


def width_of(page: Page) -> int:
    """Return the width of a page's window."""
    return page.viewport_size["width"] if page.viewport_size else 0


def _photograph_outage(
    browser: Browser, service: RunningService, login: tuple[str, str], proxy: Proxy, plot: Plot
) -> None:
    with _page(browser, service, login, 1280, 900, "light") as page:
        page.goto(f"{service.url}/")
        proxy.cut()
        page.wait_for_selector("#freshness .notice", timeout=30_000)
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=DIRECTORY / f"fleet-{plot.size}-{plot.scene.value}-{width}-light.png")


def _wait_for(service: RunningService, plot: Plot) -> None:
    def is_read() -> bool:
        try:
            return len(service.adapters.feed.snapshot().fleet.hosts) == len(plot.hosts())
        except Exception:  # noqa: BLE001  not read yet
            return False

    wait_until(is_read, "the service has read the fleet", timeout=60)


@contextmanager
def _page(
    browser: Browser, service: RunningService, login: tuple[str, str], width: int, height: int, scheme: str
) -> Iterator[Page]:
    """Yield a page of an operator who has logged in."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    name, key = login
    page = context.new_page()
    page.goto(f"{service.url}/login")
    page.fill("#name", name)
    page.fill("#key", key)
    page.click("button.primary")
    yield page
    context.close()
