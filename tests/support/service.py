"""The service for tests: its application with real adapters, served by a real HTTP server."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import httpx

from support.certificates import CERTIFICATES
from support.described_answers import DESCRIBED
from zkdeployment.agent.packages.host_repositories import syncer_repositories
from zkdeployment.base.act import Act
from zkdeployment.config.server import ServerSettings
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.pools.opening import pool_adapters
from zkdeployment.programs.server import server_adapters
from zkdeployment.publishing.sources.opening import read_revision
from zkdeployment.service.application import build_application
from zkdeployment.service.http_server import ConnectionLimits, HttpServer
from zkdeployment.service.listener import open_listener
from zkdeployment.service.site import Site
from zkdeployment.service.users.user import NewUser, Role
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.acts.commits import TreeCommits
    from zkdeployment.service.dependencies import ServerAdapters

_ACT = Act("tests", "user", "a test", 0.0)


@dataclass(frozen=True)
class RunningService:
    """A service that answers at ``url``; ``client`` sends requests without a login."""

    url: str
    client: httpx.Client
    adapters: ServerAdapters

    def add_user(self, role: Role, name: str | None = None, paths: tuple[str, ...] = ()) -> tuple[str, str]:
        """Add a user, named like its role if no name is given; return its name and key."""
        issued = self.adapters.users.add(NewUser(name=name or role.value, role=role, paths=paths), _ACT)
        return issued.user.name, issued.key

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
    clock: Clock | None = None,
) -> Iterator[RunningService]:
    """Serve the application for a ZooKeeper at this connection string, with the repository of these settings.

    ``clock`` is the time of pools.
    """
    settings = settings or ServerSettings()
    feed = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=6.0, call_timeout=5.0))
    with Session(zookeeper, session_timeout=6.0, call_timeout=5.0) as session:
        adapters = server_adapters(session, feed, settings, commits)
        if repository is not None:
            adapters = replace(
                adapters,
                read_revision=partial(read_revision, repository.require_sync()),
                repositories=syncer_repositories(repository.require_sync()),
            )
        if clock is not None:
            adapters.operator.made[pool_adapters] = replace(pool_adapters(session), clock=clock)
        listener = open_listener("127.0.0.1", 0)
        port = listener.getsockname()[1]
        site = site or Site(
            hosts=frozenset({"127.0.0.1"}),
            authority=f"127.0.0.1:{port}",
            proxies=settings.trusted_proxies,
            limits=settings.limits,
        )
        limits = ConnectionLimits(settings.limits.connections_per_address, site.proxies.trusts)
        server = HttpServer(build_application(adapters, site), listener, limits=limits)
        feed.start()
        server.start()
        try:
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, timeout=None, verify=CERTIFICATES, event_hooks=DESCRIBED) as client:
                yield RunningService(url, client, adapters)
        finally:
            feed.close()
            server.stop()
