"""The questions that a person has to answer in five seconds, on the text that is visible without scrolling.

What is wrong, since when, who is affected, what can I do, and is it getting better?
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from support.builders import make_host
from support.fleets.written import WrittenFleet
from support.proxy import Proxy
from support.service import running_service
from support.waiting import wait_until
from support.web.browser import logged_in
from zkdeployment.base.act import Act
from zkdeployment.publishing.records import Refusal
from zkdeployment.publishing.store.requests import write_refusal
from zkdeployment.service.users.user import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from support.service import RunningService

OLD, NEW = "a" * 40, "b" * 40
TREE = "/shop\n  /web : shop-web\n    version = '1.3'\n    /deploy\n      /web\n"
HOSTS = tuple(f"web{number:02}" for number in range(40))
ERROR = "exit status 1: bind 0.0.0.0 port 80: Address already in use"

#: The text of the page that is visible without scrolling.
VISIBLE = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    if (box.width && box.top >= 0 && box.bottom <= innerHeight) texts.push(walker.currentNode.textContent.trim());
  }
  return texts.filter(Boolean).join(" ").replaceAll(/\\s+/g, " ");
}"""


@dataclass
class Scene:
    """A fleet that a test brings into a state, and the service that shows it."""

    fleet: WrittenFleet
    service: RunningService
    proxy: Proxy

    def deploy(self, done: int) -> None:
        """Let the first hosts have the new revision, and the others wait."""
        hosts = [make_host(name, NEW if place < done else OLD) for place, name in enumerate(HOSTS)]
        self.fleet.register(*hosts)
        wait_until(lambda: self._versions() == done, "the service has read the hosts")

    def fail(self, *, stops: bool) -> None:
        """Let the second host fail, which stops the fleet if ``stops``."""
        failed = make_host(HOSTS[1], None, former=OLD, error=ERROR, output="migrating\nno such table: carts")
        if stops:
            self.fleet.fail(failed, "deploy /shop/web 0", ERROR, NEW)
        else:
            self.fleet.register(failed)

    def act(self, what: str) -> None:
        """Stop, hold or resume the fleet as an operator."""
        getattr(self.service.adapters.operator.cluster, what)(
            Act("ann", what, "the switch is replaced", time.time())
        )

    def refuse(self, refusal: Refusal | None) -> None:
        """Record that the syncer refuses the tip of the branch, or that it does not."""
        write_refusal(self.service.adapters.operator.session, refusal)

    def _versions(self) -> int:
        return sum(host.version == NEW for host in self.service.adapters.feed.snapshot().status.hosts)


@pytest.fixture
def scene(zookeeper: str) -> Iterator[Scene]:
    host, _, rest = zookeeper.partition(":")
    port, slash, chroot = rest.partition("/")
    with Proxy(host, int(port)) as proxy, WrittenFleet(zookeeper) as fleet:
        fleet.register(*(make_host(name, OLD) for name in HOSTS))
        fleet.publish(NEW, TREE, subject="Web 1.3", hosts=len(HOSTS))
        with running_service(f"{proxy.address}{slash}{chroot}") as service:
            wait_until(lambda: _is_read(service), "the service has read the fleet")
            yield Scene(fleet, service, proxy)


def _is_read(service: RunningService) -> bool:
    try:
        return len(service.adapters.feed.snapshot().fleet.hosts) == len(HOSTS)
    except Exception:  # noqa: BLE001  not read yet
        return False


def _converge(scene: Scene) -> None:
    scene.deploy(len(HOSTS))


def _roll(scene: Scene) -> None:
    scene.deploy(10)


def _fail(scene: Scene) -> None:
    scene.deploy(10)
    scene.fail(stops=False)


def _stop(scene: Scene) -> None:
    scene.deploy(10)
    scene.fail(stops=True)


def _hold(scene: Scene) -> None:
    scene.deploy(10)
    scene.act("hold")


def _refuse(scene: Scene) -> None:
    scene.deploy(len(HOSTS))
    scene.refuse(Refusal("c" * 40, ("web.zk:3:5: expected a version, found nothing",), time.time() - 300))


def _lose(scene: Scene) -> None:
    scene.deploy(len(HOSTS))
    scene.proxy.cut()


STATES = {
    "converged": (_converge, "All 40 hosts have the wanted revision", ("Hold", "Stop", "Web 1.3")),
    "rolling": (
        _roll,
        "10 of 40 hosts have the wanted revision",
        ("30 behind", "10 hosts finished", "Stop", "began"),
    ),
    "failed": (
        _fail,
        "1 host failed",
        ("1 failed, 30 behind", "no such table: carts", ERROR, "web01.example.com", "Hold", "Stop", "began"),
    ),
    "stopped": (
        _stop,
        "Stopped by a failure",
        (
            "1 failed, 30 behind",
            "no such table: carts",
            ERROR,
            "No host starts a step",
            "Retry web01.example.com",
            "Resume",
        ),
    ),
    "held": (_hold, "Held", ("ann held the fleet", "the switch is replaced", "30 behind", "Resume", "Stop")),
    "refused": (_refuse, "The last push is not published", ("web.zk:3:5", "All 40 hosts", "began 5 min ago")),
    "away": (_lose, "Last known: all 40 hosts", ("ZooKeeper is unreachable", "ago")),
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", STATES)
def test_the_questions_of_five_seconds_are_answered_without_scrolling(
    scene: Scene, browser: Browser, name: str
) -> None:
    prepare, headline, answers = STATES[name]
    operator = scene.service.add_user(Role.OPERATOR, "ann")
    with logged_in(browser, scene.service, operator, "/", viewport={"width": 390, "height": 844}) as page:
        prepare(scene)
        try:
            expect(page.locator("h1")).to_contain_text(headline)
            _assert_answered(page, answers)
            page.set_viewport_size({"width": 1280, "height": 800})
            _assert_answered(page, answers)
            expect(page.locator("#map.stale")).to_have_count(int(name == "away"))
            # The same truth stands on every other page, and green nowhere unless the fleet is as wanted.
            page.goto("/locks")
            expect(page.locator("#fleet-state")).to_contain_text(headline)
            assert page.title().startswith("✓") is (name == "converged")
        finally:
            scene.proxy.heal()


def _assert_answered(page: Page, answers: tuple[str, ...]) -> None:
    for answer in answers:
        page.wait_for_function(f"answer => ({VISIBLE})().includes(answer)", arg=answer)
