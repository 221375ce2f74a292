"""The service for tests: its application with real adapters, served by a real HTTP server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from zkdeployment.adapters.listener import open_listener
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.feed.feed import ZooKeeperFeed
from zkdeployment.daemons.server.http_server import HttpServer
from zkdeployment.web.application import build_application
from zkdeployment.web.site import Site
from zkdeployment.wiring.server import server_adapters

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running_service(zookeeper: str, site: Site | None = None) -> Iterator[httpx.Client]:
    """Serve the application for a ZooKeeper at this connection string; yield a client of it."""
    feed = ZooKeeperFeed(lambda: Session(zookeeper, session_timeout=6.0, call_timeout=5.0))
    with Session(zookeeper, session_timeout=6.0, call_timeout=5.0) as session:
        application = build_application(server_adapters(session, feed), site or Site())
        server = HttpServer(application, open_listener("127.0.0.1", 0))
        feed.start()
        server.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=20.0) as client:
                yield client
        finally:
            feed.close()
            server.stop()
