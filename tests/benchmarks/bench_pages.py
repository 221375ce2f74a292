"""Measures the pages of a large fleet during a rollout in a real Chromium, and what they cost ZooKeeper.

The first paint of the login page, which shows no fleet, is measured in the same run. The requests of one client
are the reference for those of many clients.
"""

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import httpx
from kazoo.client import KazooClient
from playwright.sync_api import Page, sync_playwright

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, middle
from screenshots.scenes import NEW, Plot, Scene
from support.fleets.written import WrittenFleet
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.web.browser import FLAGS, find_chromium, log_in
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.traces.exporter import StepRecorder
from zkdeployment.service.users.user import Role

#: The limits: of a page with its style sheets and scripts, in kB, and of its first paint, in seconds.
_MOST_KILOBYTES, _MOST_SECONDS = 60.0, 1.0

_CLIENTS = 20

_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime / 1000"


def measure(scale: Scale) -> Iterator[Result]:
    """Measure the pages of a fleet of the last size."""
    plot = Plot(scale.watchers[-1], Scene.ROLLING, time.time())
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        WrittenFleet(server.address) as fleet,
    ):
        plot.write(fleet)
        steps = plot.steps()
        with (
            running_service(server.address) as service,
            patch.object(StepRecorder, "steps", lambda _recorder, _sequence: steps),
        ):
            wait_until(lambda: _known_hosts(service) == len(plot.hosts()), "the service has read the fleet")
            login = service.add_user(Role.VIEWER)
            pages = _pages(service, plot)
            yield from _seen(service, login, pages, f"{plot.size:,} hosts", scale.rounds)
            alone = _requests(service, login, list(pages.values()), 1)
            many = _requests(service, login, list(pages.values()), _CLIENTS)
    yield Result(
        work="pages: requests to ZooKeeper",
        size=f"{plot.size:,} hosts, {_CLIENTS} clients",
        value=many,
        unit="requests/s",
        against="with 1 client",
        reference=alone,
        at_most=1.5,
    )


def _pages(service: RunningService, plot: Plot) -> dict[str, str]:
    publication = f"/history/{service.adapters.feed.snapshot().reading.sequence}"
    return {
        "fleet": "/",
        "rollout": "/rollout",
        "timeline": f"{publication}/timeline",
        "service": f"/services{plot.service}",
        "commit": f"/commits/{NEW}",
        "history": "/history",
        "publication": publication,
    }


def _known_hosts(service: RunningService) -> int:
    """Return the number of hosts that the service has read."""
    try:
        return len(service.adapters.feed.snapshot().fleet.hosts)
    except UnreachableError:
        return 0


def _seen(
    service: RunningService, login: tuple[str, str], pages: dict[str, str], size: str, rounds: int
) -> Iterator[Result]:
    """Yield the weight and the first paint of each page, as the browser of a first visitor sees them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = browser.new_page(base_url=service.url)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        sizes: list[float] = []
        session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
        _, paint = _visit(page, "/login", sizes, rounds)
        yield Result(work="page login: first paint", size=size, value=paint)
        log_in(page, login)
        page.wait_for_url(f"{service.url}/")
        for name, path in pages.items():
            weight, seconds = _visit(page, path, sizes, rounds)
            yield Result(
                work=f"page {name}: weight",
                size=size,
                value=weight,
                unit="kB",
                against="limit",
                reference=_MOST_KILOBYTES,
                at_most=1.0,
            )
            yield Result(
                work=f"page {name}: first paint",
                size=size,
                value=seconds,
                against="limit",
                reference=_MOST_SECONDS,
                at_most=1.0,
            )
        browser.close()


def _visit(page: Page, path: str, sizes: list[float], rounds: int) -> tuple[float, float]:
    """Return the transferred kB of a page and the seconds until its first paint, the medians of some visits."""
    weights, paints = [], []
    for _ in range(rounds):
        page.goto("about:blank")
        sizes.clear()
        page.goto(path, wait_until="load")
        page.wait_for_function(_PAINT)
        weights.append(sum(sizes) / 1000)
        paints.append(page.evaluate(_PAINT))
    return middle(weights), middle(paints)


def _requests(service: RunningService, login: tuple[str, str], paths: list[str], clients: int) -> float:
    """Return the requests to ZooKeeper a second while clients load all pages together, each page three times."""
    count, send = 0, KazooClient._call

    def counted(client: KazooClient, request: object, result: object) -> object:
        nonlocal count
        count += 1
        return send(client, request, result)

    def load(path: str) -> None:
        httpx.get(f"{service.url}{path}", auth=login, timeout=None).raise_for_status()

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads, patch.object(KazooClient, "_call", counted):
        for path in paths * 3:
            list(threads.map(load, [path] * clients))
    return count / (time.perf_counter() - begun)
