"""The questions that a person has to answer in five seconds, on the text that is visible without scrolling.

What is wrong, since when, who is affected, what can I do, and is it getting better?
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError, expect  # noqa: A004  that of Playwright

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
from zkdeployment.strategies.permission import PhaseReport
from zkdeployment.strategies.progress import apply_acts, start
from zkdeployment.strategies.state import ActivePhase, Directive, RolloutAct, RolloutFacts
from zkdeployment.strategies.state_machine import next_task, record
from zkdeployment.strategies.strategy import Criteria, Group, Pace, ParallelLimit, Selector, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from playwright.sync_api import Browser, Page, ViewportSize

    from support.service import RunningService
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.strategies.state_machine import Task

OLD, NEW = "a" * 40, "b" * 40
TREE = "/shop\n  /web : shop-web\n    version = '1.3'\n    /deploy\n      /web\n"
HOSTS = tuple(f"web{number:02}" for number in range(40))
ERROR = "exit status 1: bind 0.0.0.0 port 80: Address already in use"

_PACE = Pace(max_parallel=ParallelLimit(5), bake_time=60.0)
STRATEGY = Strategy(
    "canaries-first",
    (
        Group("canaries", critical=True, selectors=(Selector(names=frozenset(HOSTS[:2])),), pace=_PACE),
        Group(
            "rest",
            critical=True,
            depends_on=("canaries",),
            selectors=(Selector(names=frozenset(HOSTS[2:38])),),
            criteria=Criteria(percent_successful=95),
            pace=_PACE,
        ),
        Group(
            "last",
            critical=False,
            depends_on=("rest",),
            selectors=(Selector(names=frozenset(HOSTS[38:])),),
            pace=replace(_PACE, manual=True),
        ),
    ),
)

TELEPHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 800}

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

#: Whether a text is longer than its box, and whether its last line is in the box.
LAST_LINE = """box => {
  const range = document.createRange(), text = box.firstChild;
  range.setStart(text, text.length - 3);
  range.setEnd(text, text.length);
  const line = range.getBoundingClientRect(), frame = box.getBoundingClientRect();
  return [box.scrollHeight > box.clientHeight, line.top >= frame.top && line.bottom <= frame.bottom];
}"""


@dataclass
class Scene:
    """A fleet that a test brings into a state, and the service that shows it."""

    fleet: WrittenFleet
    service: RunningService
    proxy: Proxy
    sequence: int

    def deploy(self, done: int) -> None:
        """Let the first hosts have the new revision, and the others wait."""
        hosts = [make_host(name, NEW if place < done else OLD, "web") for place, name in enumerate(HOSTS)]
        self.fleet.register(*hosts)
        wait_until(lambda: self._versions() == done, "the service has read the hosts")

    def fail(self, *, stops: bool, output: str = "migrating\nno such table: carts") -> None:
        """Let the second host fail, which stops the fleet if ``stops``."""
        failed = make_host(HOSTS[1], None, "web", former=OLD, error=ERROR, output=output)
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

    def roll_out(self, change: Callable[[RolloutState, float], RolloutState] | None = None) -> None:
        """Roll the revision out: canaries and eight other hosts have it, five deploy it; then change the state."""
        now = time.time()
        present = {host: make_host(host, role="web").facts for host in HOSTS}
        facts = RolloutFacts(now=now - 300, present=present)
        state = start(STRATEGY, facts, sequence=self.sequence, attempt=1, revision=NEW)
        for hosts in (HOSTS[:2], HOSTS[:2], HOSTS[2:38]):
            state = replace(state, rollout=record(state.rollout, _next_task(state), hosts))
        reports = {host: PhaseReport(now - 120 + 10 * place) for place, host in enumerate(HOSTS[2:10])}
        granted = {host: report.time - 20 for host, report in reports.items()}
        granted |= dict.fromkeys(HOSTS[10:15], now - 9)
        active = ActivePhase(_next_task(state), now - 180, now - 9, granted, reports)
        state = replace(state, active_phase=active, coordinated_at=now)
        deploying = {"version": None, "former": OLD, "deploying": NEW, "step": "deploy /shop/web 0"}
        hosts = [make_host(name, NEW if place < 10 else OLD, "web") for place, name in enumerate(HOSTS)]
        hosts[10:15] = [replace(host, **deploying) for host in hosts[10:15]]
        self.fleet.register(*hosts)
        self.fleet.begin_rollout(state if change is None else change(state, now))
        wait_until(lambda: self.service.adapters.feed.snapshot().fleet.rollout is not None, "the rollout is read")

    def _versions(self) -> int:
        return sum(host.version == NEW for host in self.service.adapters.feed.snapshot().status.hosts)


@pytest.fixture
def scene(zookeeper: str) -> Iterator[Scene]:
    with _scene(zookeeper) as scene:
        yield scene


@pytest.fixture
def rollout_scene(zookeeper: str) -> Iterator[Scene]:
    """A fleet whose revision is rolled out: two canaries, then the others."""
    with _scene(zookeeper, STRATEGY) as scene:
        yield scene


@contextmanager
def _scene(zookeeper: str, strategy: Strategy | None = None) -> Iterator[Scene]:
    host, _, rest = zookeeper.partition(":")
    port, slash, chroot = rest.partition("/")
    with Proxy(host, int(port)) as proxy, WrittenFleet(zookeeper) as fleet:
        fleet.register(*(make_host(name, OLD, "web") for name in HOSTS))
        sequence = fleet.publish(NEW, TREE, subject="Web 1.3", hosts=len(HOSTS), strategy=strategy, age=300)
        with running_service(f"{proxy.address}{slash}{chroot}") as service:
            wait_until(lambda: _is_read(service), "the service has read the fleet")
            yield Scene(fleet, service, proxy, sequence)


def _next_task(state: RolloutState) -> Task:
    task = next_task(state.rollout)
    assert task is not None
    return task


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
        ("30 behind", "10 hosts finished", "Stop", "wanted"),
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
            "Running services continue",
            "No host starts a step",
            "Retry web01.example.com",
            "Resume",
        ),
    ),
    "held": (_hold, "Held", ("ann held the fleet", "the switch is replaced", "30 behind", "Resume", "Stop")),
    "refused": (_refuse, "The last push is not published", ("web.zk:3:5", "All 40 hosts", "refused 5 min ago")),
    "away": (_lose, "Last known: all 40 hosts", ("ZooKeeper is unreachable", "ago")),
}


def _with_failure(state: RolloutState, now: float) -> RolloutState:
    """Return a rollout in which one host of the group under way failed."""
    active = state.active_phase
    assert active is not None
    reports = {**active.reports, HOSTS[10]: PhaseReport(now - 9, ERROR)}
    return replace(state, active_phase=replace(active, reports=reports), errors={HOSTS[10]: ERROR})


def _baking(state: RolloutState, now: float) -> RolloutState:
    active = state.active_phase
    assert active is not None
    reports = {host: PhaseReport(now - 20) for host in HOSTS[2:38]}
    granted = dict.fromkeys(reports, now - 50)
    return replace(state, active_phase=replace(active, granted=granted, reports=reports, baking_since=now - 5))


def _undecided(state: RolloutState, now: float) -> RolloutState:
    """Return a rollout whose last group waits for its promotion."""
    del now
    state = replace(state, rollout=record(state.rollout, _next_task(state), HOSTS[2:38]), active_phase=None)
    return replace(state, waiting="the group last is manual")


def _acted(directive: Directive) -> Callable[[RolloutState, float], RolloutState]:
    def change(state: RolloutState, now: float) -> RolloutState:
        act = Act("ann", f"rollout {directive.value}", "the switch is replaced", now - 300)
        return apply_acts(state, [RolloutAct(directive, act, number=1)], now - 300)

    return change


def _stop_rollout(scene: Scene) -> None:
    scene.roll_out(_with_failure)
    failed = make_host(HOSTS[10], None, "web", former=OLD, error=ERROR)
    scene.fleet.fail(failed, "deploy /shop/web 0", ERROR, NEW)


def _hold_rollout(scene: Scene) -> None:
    scene.roll_out()
    scene.act("hold")


def _lose_rollout(scene: Scene) -> None:
    scene.roll_out()
    scene.proxy.cut()


#: The states of a rollout: how it comes into the state, the headline of its page, and its answers.
ROLLOUTS: dict[str, tuple[Callable[[Scene], None], str, tuple[str, ...]]] = {
    "none": (lambda _: None, "The rollout does not begin", ("No coordinator runs",)),
    "rolling": (
        Scene.roll_out,
        "The rollout is under way",
        (
            "began 5 min ago",
            "10 of 40 hosts have the wanted revision",
            "hosts per minute",
            "left",
            "1 more host may fail",
            "Pause",
            "Stop",
        ),
    ),
    "failed": (
        lambda scene: scene.roll_out(_with_failure),
        "The rollout is under way",
        ("1 failed", ERROR, "web10.example.com", "no further host may fail", "Pause", "Abort", "Stop"),
    ),
    "stopped": (
        _stop_rollout,
        "The rollout stands still: the fleet is stopped",
        ("1 failed, 4 deploying, 25 behind", "began", ERROR, "Retry web10.example.com", "Resume"),
    ),
    "held": (
        _hold_rollout,
        "The rollout stands still: the fleet is held",
        ("10 of 40 hosts have the wanted revision", "Resume"),
    ),
    "baking": (
        lambda scene: scene.roll_out(_baking),
        "The rollout is under way",
        ("rest is baking", "bake time ends in", "Pause"),
    ),
    "undecided": (
        lambda scene: scene.roll_out(_undecided),
        "The rollout waits for a decision",
        ("the group last is manual", "the wanted revision", "Promote last", "Stop"),
    ),
    "paused": (
        lambda scene: scene.roll_out(_acted(Directive.PAUSE)),
        "The rollout is paused",
        (
            "by ann: the switch is replaced",
            "paused 5 min ago",
            "10 of 40 hosts have the wanted revision",
            "Resume the rollout",
            "Abort",
        ),
    ),
    "aborted": (
        lambda scene: scene.roll_out(_acted(Directive.ABORT)),
        "The rollout was aborted",
        ("ended 5 min ago", "hosts have the wanted revision", "1 of 3 groups succeeded", "Stop"),
    ),
    "away": (
        _lose_rollout,
        "The rollout is under way",
        ("ZooKeeper is unreachable", "10 of 40 hosts have the wanted revision"),
    ),
}


def _cases(names: Iterable[str]) -> list[object]:
    """Return the states that tests show: the stopped one in every commit, the others at night."""
    return [pytest.param(name, marks=() if name == "stopped" else pytest.mark.nightly) for name in names]


@pytest.mark.parametrize("name", _cases(ROLLOUTS))
def test_the_page_of_the_rollout_answers_the_questions(rollout_scene: Scene, browser: Browser, name: str) -> None:
    prepare, headline, answers = ROLLOUTS[name]
    with _open_page(rollout_scene, browser, "/rollout") as page:
        prepare(rollout_scene)
        _assert_answers(page, headline, answers)


#: The answers of the service's page in the states.
SERVICES: dict[str, tuple[str, ...]] = {
    "converged": ("shop-web 1.3", "40 converged"),
    "rolling": (
        "wanted 5 min ago",
        "30 of 40 hosts without the wanted revision",
        "10 hosts finished in the last",
        "Stop",
    ),
    "failed": ("1 failed", "no such table: carts", ERROR, "web01.example.com", "9 hosts finished"),
    "stopped": (
        "Stopped by a failure",
        "1 failed",
        "no such table: carts",
        ERROR,
        "Retry web01.example.com",
        "Resume",
    ),
    "held": ("Held", "30 of 40 hosts without the wanted revision", "began", "Resume", "Stop"),
    "refused": ("shop-web 1.3", "40 converged"),
    "away": ("ZooKeeper is unreachable", "40 converged"),
}


@pytest.mark.parametrize("name", _cases(STATES))
def test_the_questions_of_five_seconds_are_answered_without_scrolling(
    scene: Scene, browser: Browser, name: str
) -> None:
    prepare, headline, answers = STATES[name]
    with _open_page(scene, browser, "/") as page:
        service_page = page.context.new_page()
        service_page.goto("/services/shop/web")
        page.bring_to_front()
        prepare(scene)
        _assert_answers(page, headline, answers)
        expect(page.locator("#map.stale")).to_have_count(int(name == "away"))
        service_page.bring_to_front()
        _assert_answers(service_page, "/shop/web", SERVICES[name])
        # The same truth stands on every other page, and green nowhere unless the fleet is as wanted.
        page.goto("/locks")
        expect(page.locator("#fleet-state")).to_contain_text(headline)
        assert page.title().startswith("✓") is (name == "converged")


@contextmanager
def _open_page(scene: Scene, browser: Browser, path: str) -> Iterator[Page]:
    """Open a page as an operator, and end an outage of ZooKeeper afterwards."""
    operator = scene.service.add_user(Role.OPERATOR, "ann")
    with logged_in(browser, scene.service, operator, path, viewport=TELEPHONE) as page:
        try:
            yield page
        finally:
            scene.proxy.heal()


def test_the_last_line_of_a_failed_script_is_visible_on_a_telephone(scene: Scene, browser: Browser) -> None:
    lines = [f"line {number}: {'migrating carts ' * 12}" for number in range(9)]
    scene.fail(stops=True, output="\n".join([*lines, "no such table: carts"]))
    operator = scene.service.add_user(Role.OPERATOR, "ann")
    with logged_in(browser, scene.service, operator, "/", viewport=TELEPHONE) as page:
        output = page.locator("#verdict .output")
        expect(output).to_contain_text("no such table: carts")
        is_longer, is_shown = output.evaluate(LAST_LINE)
        assert (is_longer, is_shown) == (True, True)


def _assert_answers(page: Page, headline: str, answers: tuple[str, ...]) -> None:
    """Expect the answers on an open page, on a telephone and on a desk."""
    expect(page.locator("h1")).to_contain_text(headline)
    for size in (TELEPHONE, DESK):
        page.set_viewport_size(size)
        for answer in answers:
            _assert_answered(page, answer)


def _assert_answered(page: Page, answer: str) -> None:
    try:
        page.wait_for_function(f"answer => ({VISIBLE})().includes(answer)", arg=answer)
    except TimeoutError as error:
        message = f"expected {answer!r} without scrolling, found {page.evaluate(VISIBLE)}"
        raise AssertionError(message) from error
