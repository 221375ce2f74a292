"""Servers that accept connections and never answer: they hold up only the requests that need them."""

from __future__ import annotations

import contextlib
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from support.certificates import CERTIFICATES
from support.service import form_token, running_service
from support.waiting import UNLIMITED, wait_until
from support.web.servers import HangingServer
from support.zookeeper import through
from zkdeployment.fleet.webhooks.sender import WEBHOOK_KINDS, Webhook
from zkdeployment.programs.server import open_webhooks
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.sources.git.act_commits import TreeCommits
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.sandbox.processes import Deadline
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.user import Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.proxy import Proxy
    from support.publishing import Publishing
    from support.service import RunningService

#: Seconds in which operators and probes get their answers, whatever else hangs; what hangs takes longer.
PROMPT = 10.0

COMMIT = "a" * 40


@pytest.fixture
def hanging() -> Iterator[HangingServer]:
    server = HangingServer()
    yield server
    server.close()


@contextmanager
def burst(
    service: RunningService, count: int, ask: Callable[[httpx.Client, int], httpx.Response]
) -> Iterator[list[httpx.Response]]:
    """Send requests at once without waiting; yield the list to which the answers are added."""
    answers: list[httpx.Response] = []
    unlimited = httpx.Limits(max_connections=None)
    with httpx.Client(base_url=service.url, timeout=UNLIMITED, verify=CERTIFICATES, limits=unlimited) as client:

        def run(number: int) -> None:
            with contextlib.suppress(httpx.HTTPError):  # the test is over
                answers.append(ask(client, number))

        for number in range(count):
            threading.Thread(target=run, args=(number,), daemon=True).start()
        yield answers


def assert_operators_are_answered(service: RunningService) -> None:
    """Assert that probes, pages and acts of operators are answered promptly, with a login and with a key."""
    login = "olivia", service.add_user(Role.OPERATOR, "olivia")[1]
    with (
        service.browser(login) as browser,
        httpx.Client(base_url=service.url, timeout=UNLIMITED, verify=CERTIFICATES) as program,
    ):

        def act(name: str) -> httpx.Response:
            token = form_token(browser.get(f"/acts/{name}").text)
            return browser.post(f"/acts/{name}", data={"reason": "it hangs", "csrf_token": token})

        def post(name: str) -> httpx.Response:
            return program.post(f"/api/v1/{name}", json={"reason": "it hangs"}, auth=login)

        asked: list[tuple[str, Callable[[], httpx.Response]]] = [
            ("health", lambda: program.get("/healthz")),
            ("the page", lambda: browser.get("/")),
            ("history", lambda: browser.get("/history")),
            ("status", lambda: program.get("/api/v1/status", auth=login)),
            ("hold", lambda: post("hold")),
            ("resume", lambda: post("resume")),
            ("stop", lambda: post("stop")),
            ("resume again", lambda: post("resume")),
            ("health again", lambda: program.get("/healthz")),
        ]
        for name, ask in asked:
            deadline = Deadline(PROMPT)
            answer = ask()
            assert not deadline.passed, name
            assert answer.status_code in {200, 303}, f"{name}: {answer.status_code} {answer.text}"
        deadline = Deadline(2 * PROMPT)  # for the form, and for the act
        assert act("stop").status_code in {200, 303}
        assert not deadline.passed


def assert_busy(answer: httpx.Response) -> None:
    """Assert that an answer asks the client to come back, also when the connection is given up meanwhile."""
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert "try again" in answer.text or "reconnects by itself" in answer.text


def git_at(url: str, directory: Path) -> TreeCommits:
    """Return the branch at a url, with the time limits of the service."""
    source = GitSource(url, directory / "mirror", branch="main", timeout=60.0, gap=1)
    return TreeCommits(source, Author("zkdeployment", "zkdeployment@server"))


@pytest.mark.parametrize("scheme", ["git", "http", "ssh"])
def test_a_git_server_that_never_answers_delays_only_jobs_and_commits(
    zookeeper: str, publishing: Publishing, hanging: HangingServer, tmp_path: Path, scheme: str
) -> None:
    publishing.push("/shop\n")
    publishing.sync()
    url = f"{scheme}://git@127.0.0.1:{hanging.port}/tree.git".replace("git://git@", "git://")
    with running_service(zookeeper, commits=git_at(url, tmp_path)) as service:
        viewer, ann = service.add_user(Role.VIEWER), service.add_user(Role.OPERATOR, "ann")

        def ask(client: httpx.Client, number: int) -> httpx.Response:
            if number % 4:
                return client.get(f"/api/v1/jobs/{COMMIT}", auth=viewer)
            return client.post("/api/v1/rollback", json={"reason": "x", "revision": COMMIT}, auth=ann)

        with burst(service, 60, ask) as answers:
            wait_until(lambda: hanging.accepted, "the fetch")
            assert_operators_are_answered(service)
            wait_until(lambda: len(answers) >= 50, "the answers to those who found no place")
            for answer in answers:
                assert_busy(answer)
            assert hanging.accepted <= 2  # requests share a fetch
            hanging.close()


def test_an_identity_provider_that_never_answers_delays_only_logins_there(
    zookeeper: str, publishing: Publishing, hanging: HangingServer
) -> None:
    publishing.push("/shop\n")
    publishing.sync()
    settings = ServerSettings(openid_issuer=f"http://127.0.0.1:{hanging.port}", openid_client_id="zkdeployment")
    with running_service(zookeeper, settings=settings) as service:
        with burst(service, 60, lambda client, _: client.get("/login/openid")) as answers:
            wait_until(lambda: hanging.accepted, "the request to the provider")
            assert_operators_are_answered(service)
            deadline = Deadline(15.0)
            wait_until(lambda: len(answers) == 60, "all answers")
        assert not deadline.passed
        assert {answer.status_code for answer in answers} == {502, 503}
        assert all("try again" in answer.text for answer in answers)
        assert hanging.accepted <= 2


def test_while_zookeeper_never_answers_probes_and_pages_do(
    zookeeper: str, publishing: Publishing, proxy: Proxy
) -> None:
    publishing.push("/shop\n")
    publishing.sync()
    with running_service(through(proxy, zookeeper), call_timeout=1.5 * PROMPT) as service:
        viewer = service.add_user(Role.VIEWER)
        with (
            service.browser(viewer) as browser,
            httpx.Client(base_url=service.url, timeout=UNLIMITED, verify=CERTIFICATES) as probe,
        ):
            assert browser.get("/").status_code == 200
            proxy.freeze()
            with burst(service, 60, lambda client, n: client.get(f"/api/v1/history/{n}", auth=viewer)) as answers:
                asked: list[tuple[Callable[[], httpx.Response], int]] = [
                    (lambda: browser.get("/"), 200),
                    (lambda: probe.get("/healthz"), 503),
                    (lambda: probe.get("/api/v1/history/100", auth=viewer), 503),
                ]
                deadline = Deadline(PROMPT)
                assert (probe.get("/healthz").status_code, deadline.passed) == (503, False)
                assert browser.get("/").status_code == 200  # the first one finds out that no answer comes
                for _ in range(5):
                    for ask, status in asked:
                        deadline = Deadline(PROMPT)
                        answer = ask()
                        assert (answer.status_code, deadline.passed) == (status, False)
                    assert_busy(answer)
                wait_until(lambda: len(answers) == 60, "all answers")
                assert {answer.status_code for answer in answers} == {503}
            proxy.heal()
            wait_until(lambda: probe.get("/healthz").status_code == 200, "the service to recover")


def test_a_receiver_of_webhooks_that_never_answers_delays_no_other_work(
    zookeeper: str, publishing: Publishing, hanging: HangingServer, tmp_path: Path
) -> None:
    publishing.push("/shop\n")
    publishing.sync()
    key = tmp_path / "key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    receiver = Webhook(f"http://127.0.0.1:{hanging.port}/", frozenset(WEBHOOK_KINDS))
    settings = ServerSettings(webhooks=(receiver,), webhook_key=key)
    with running_service(zookeeper, settings=settings) as service, Session(zookeeper) as session:
        dispatcher = open_webhooks(session, service.adapters.feed, settings)
        assert dispatcher is not None
        dispatcher.start()
        try:
            wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service")
            publishing.push("/shop\n  x = 1\n")
            publishing.sync()
            wait_until(lambda: hanging.accepted, "the first event")
            assert_operators_are_answered(service)
        finally:
            deadline = Deadline(10.0)
            dispatcher.close()
            assert not deadline.passed
