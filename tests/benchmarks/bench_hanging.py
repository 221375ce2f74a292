"""Measures how fast a service answers while a git server and an OpenID provider never answer.

Both accept connections. Many requests wait for them, and new ones come all the time. The reference is the same
service, in the same run, without hanging servers.
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.bench_publish import running_server
from benchmarks.results import Result, Scale, middle
from support.service import RunningService, running_service
from support.waiting import wait_until
from support.web.servers import HangingServer
from zkdeployment.publishing.acts.commits import Author
from zkdeployment.publishing.sources.git.act_commits import TreeCommits
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.user import Role

_WAITING = 60  # requests that wait for each of the servers

_JOB = "/api/v1/jobs/" + "a" * 40


def measure(scale: Scale) -> Iterator[Result]:
    """Measure one service, without and with requests that hang."""
    rounds = 20 * scale.rounds
    with (
        tempfile.TemporaryDirectory() as scratch,
        running_server(Path(scratch)) as server,
        contextlib.closing(HangingServer()) as hanging,
        _service(server.address, Path(scratch), hanging) as service,
    ):
        login = service.add_user(Role.OPERATOR)
        quiet = _answers(service, login, rounds)
        with _hanging_requests(service, login):
            wait_until(lambda: hanging.accepted >= 2, "the requests to hang")
            busy = _answers(service, login, rounds)
        hanging.close()
    size = f"{2 * _WAITING} requests hang"
    for what, reference in quiet.items():
        yield Result(
            work=f"service: {what} while git and OpenID hang",
            size=size,
            value=busy[what],
            against="nothing hangs",
            reference=reference,
            at_most=3,
        )


@contextmanager
def _service(address: str, scratch: Path, hanging: HangingServer) -> Iterator[RunningService]:
    """Run a service whose repository and OpenID provider hang."""
    place = f"127.0.0.1:{hanging.port}"
    source = GitSource(f"git://{place}/tree.git", scratch / "mirror", branch="main", timeout=60.0, gap=1)
    commits = TreeCommits(source, Author("zkdeployment", "zkdeployment@server"))
    settings = ServerSettings(openid_issuer=f"http://{place}", openid_client_id="zkdeployment")
    with running_service(address, settings=settings, commits=commits) as service:
        wait_until(lambda: service.client.get("/healthz").status_code == 200, "the service")
        yield service


def _answers(service: RunningService, login: tuple[str, str], rounds: int) -> dict[str, float]:
    """Return the seconds of the middle answer to each kind of request."""
    asked: dict[str, Callable[[], httpx.Response]] = {
        "health": lambda: service.client.get("/healthz"),
        "login page": lambda: service.client.get("/login"),
        "who acted": lambda: service.client.get("/api/v1/audit", auth=login),
    }
    return {what: middle([_seconds(ask) for _ in range(rounds)]) for what, ask in asked.items()}


def _seconds(ask: Callable[[], httpx.Response]) -> float:
    begun = time.perf_counter()
    assert ask().status_code == 200
    return time.perf_counter() - begun


@contextmanager
def _hanging_requests(service: RunningService, login: tuple[str, str]) -> Iterator[None]:
    """Let many clients send requests that hang, and repeat them as often as the service asks."""
    ended = threading.Event()
    with httpx.Client(base_url=service.url, timeout=120.0, limits=httpx.Limits(max_connections=None)) as client:

        def ask(number: int) -> None:
            while not ended.is_set():
                with contextlib.suppress(httpx.HTTPError):
                    if number % 2:
                        client.get(_JOB, auth=login)
                    else:
                        client.get("/login/openid")
                ended.wait(5.0)

        threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(2 * _WAITING)]
        for thread in threads:
            thread.start()
        yield
        ended.set()
