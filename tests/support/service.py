"""The service for tests: its application with real adapters, served by a real HTTP server.

Its clients compare each answer with the description of the API.
"""

from __future__ import annotations

import re
import ssl
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import httpx
from jsonschema import Draft202012Validator

from support.certificates import CERTIFICATES
from support.waiting import wait_until
from zkdeployment.agent.packages.host_repositories import syncer_repositories
from zkdeployment.base.act import Act
from zkdeployment.base.errors import UnreachableError
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.programs.server import server_adapters
from zkdeployment.programs.syncer import build_dry_runs
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.publishing.sources.opening import read_revision
from zkdeployment.service.application import api_description, build_application
from zkdeployment.service.serving.http_server import ConnectionLimits, HttpServer
from zkdeployment.service.serving.listener import open_listener, server_encryption
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.site import Site
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.certificates import Authority
    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.dependencies import ServerAdapters


#: The schemas whose other keys are those of a document of a user.
_OPEN = {"DeploymentDetails"}


def check_answer(response: httpx.Response) -> None:
    """Fail unless an answer of an operation, in JSON, has exactly what the description permits.

    Clients call this function with each response.
    """
    method, path = response.request.method.lower(), _template(response.request.url.path)
    if (
        path is None
        or method == "head"
        or not response.headers.get("Content-Type", "").startswith("application/json")
    ):
        return
    response.read()
    place, validator = f"{method} {path}: {response.status_code}", _validator(method, path, response.status_code)
    if validator is None:
        assert response.status_code >= 400, f"{place} is not described"
        return
    problems = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(response.json())]
    assert problems == [], f"{place}: {problems[:5]}"


#: The hooks of a client that compares each answer with the description.
DESCRIBED = {"response": [check_answer]}


#: FastAPI silences warnings while it makes a description, which works in one thread at a time.
_ONE_THREAD = threading.Lock()


def _description() -> Any:
    """Return the description of the API, in which no object has keys that are not described."""
    with _ONE_THREAD:
        return _strict_description()


@cache
def _strict_description() -> Any:
    description = api_description()
    for name, schema in description["components"]["schemas"].items():
        if "properties" in schema and name not in _OPEN:
            schema["additionalProperties"] = False
    return description


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    """Return the paths of all operations, the ones without parameters first."""
    paths = sorted(_description()["paths"], key=lambda path: path.count("{"))
    return [(re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path))), path) for path in paths]


def _template(path: str) -> str | None:
    return next((template for pattern, template in _templates() if pattern.fullmatch(path)), None)


@cache
def _validator(method: str, path: str, status: int) -> Draft202012Validator | None:
    answers = _description()["paths"][path].get(method, {}).get("responses", {})
    if str(status) not in answers:
        return None
    schema = answers[str(status)]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": _description()["components"]})


_ACT = Act("tests", "user", "a test", 0.0)


@dataclass(frozen=True)
class RunningService:
    """A service that answers at ``url``; ``client`` sends requests without a login."""

    url: str
    client: httpx.Client
    adapters: ServerAdapters

    def add_user(self, role: Role, name: str | None = None, paths: tuple[str, ...] = ()) -> tuple[str, str]:
        """Add a user, named like its role if no name is given; return its name and key.

        A service that has not read the fleet yet answers 503 to users, so this waits for the first reading.
        """
        wait_until(self.has_read, "the service has read the fleet")
        issued = self.adapters.users.add(NewUser(name=name or role.value, role=role, paths=paths), _ACT)
        return issued.user.name, issued.key

    def has_read(self) -> bool:
        """Return whether the service has read the fleet."""
        try:
            self.adapters.feed.snapshot()
        except UnreachableError:
            return False
        return True

    @contextmanager
    def browser(self, login: tuple[str, str]) -> Iterator[httpx.Client]:
        """Yield a client that has logged in with a name and a key, as a browser does."""
        with httpx.Client(base_url=self.url, timeout=None, verify=CERTIFICATES, event_hooks=DESCRIBED) as browser:
            token = form_token(browser.get("/login").text)
            name, key = login
            browser.post("/login", data={"name": name, "key": key, "csrf_token": token})
            yield browser


def form_token(page: str) -> str:
    """Return the token of the form in a page."""
    match = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert match is not None, page
    return match[1]


@contextmanager
def running_service(
    zookeeper: str,
    site: Site | None = None,
    settings: ServerSettings | None = None,
    *,
    repository: Settings | None = None,
    commits: TreeCommits | None = None,
    prepare: Callable[[ServerAdapters], None] = lambda _adapters: None,
    authority: Authority | None = None,
    port: int = 0,
    call_timeout: float = 5.0,
) -> Iterator[RunningService]:
    """Serve the application for a ZooKeeper at this connection string, with the repository of these settings.

    ``prepare`` may change the adapters of features before requests come. With an ``authority``, connections are
    encrypted. The service listens on ``port``, by default on a free one. ``call_timeout`` limits its requests to
    ZooKeeper.
    """
    settings = settings or ServerSettings()
    feed = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=20.0, call_timeout=call_timeout))
    with ExitStack() as stack, Session(zookeeper, session_timeout=20.0, call_timeout=call_timeout) as session:
        adapters = server_adapters(session, feed, settings, commits)
        if repository is not None:
            repositories = syncer_repositories(repository.require(SyncSettings))
            adapters = replace(
                adapters,
                read_revision=partial(read_revision, repository.require(SyncSettings)),
                read_refusals=stack.enter_context(build_dry_runs(repository, session, repositories)),
                repositories=repositories,
            )
        prepare(adapters)
        encryption = None if authority is None else server_encryption(*authority.issue("127.0.0.1"))
        listener = open_listener("127.0.0.1", port)
        port = listener.getsockname()[1]
        site = site or Site(
            hosts=frozenset({"127.0.0.1"}),
            authority=f"127.0.0.1:{port}",
            proxies=settings.trusted_proxies,
            limits=settings.limits,
        )
        limits = ConnectionLimits(settings.limits.connections_per_address, site.proxies.trusts)
        server = HttpServer(build_application(adapters, site), listener, encryption, limits)
        feed.start()
        server.start()
        try:
            url = f"http{'' if authority is None else 's'}://127.0.0.1:{port}"
            trusted = CERTIFICATES if authority is None else ssl.create_default_context(cafile=authority.ca)
            with httpx.Client(base_url=url, timeout=None, verify=trusted, event_hooks=DESCRIBED) as client:
                yield RunningService(url, client, adapters)
        finally:
            feed.close()
            server.stop()
