"""A peer that sends its answer byte by byte holds no caller for longer than the time limit of the caller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from support.waiting import ManualClock, wait_until
from support.web.servers import DrippingServer
from zkdeployment.base.cluster import Cluster
from zkdeployment.base.errors import ConfigurationError, IdentityProviderError, ServiceError
from zkdeployment.base.machine.http import HttpClient
from zkdeployment.checks.daemon import HttpPokeSender
from zkdeployment.checks.nagios.service import HttpMonitoringService
from zkdeployment.config.forms import read_value
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.traces.exporter import send_trace
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.webhooks.commit_status import CommitStatusSender, Forge, ForgeRepository
from zkdeployment.fleet.webhooks.sender import HttpWebhookSender
from zkdeployment.promotion.services import FleetService, ServiceClient
from zkdeployment.rollouts.measuring import MetricsServer, NoDataError
from zkdeployment.rollouts.settings import MetricsSettings
from zkdeployment.service.openid import OpenIdProvider
from zkdeployment.service.users.external_logins import OpenIdClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT = 0.3


def failure(kind: type[Exception], call: Callable[..., Any], *arguments: Any) -> str:
    """Return the text of the error that a call raises."""
    with pytest.raises(kind) as raised:
        call(*arguments)
    return str(raised.value)


def ask_metrics(url: str, _: Path) -> str:
    return failure(NoDataError, MetricsServer(MetricsSettings(url=url, timeout=LIMIT)).query, "up")


def ask_fleet(url: str, directory: Path) -> str:
    key = directory / "eu-1"
    key.touch(mode=0o600)
    key.write_text("promoter:secret 127.0.0.1")
    service = FleetService("eu-1", url)
    return failure(ServiceError, ServiceClient(directory).request, "GET", service, "/api/v1/fleet", LIMIT)


def send_webhook(url: str, _: Path) -> str:
    return HttpWebhookSender().send(url, b"{}", {}).reason


def send_spans(url: str, _: Path) -> str:
    return send_trace(HttpClient(), url, b"{}")[0]


def poke(url: str, _: Path) -> str:
    return HttpPokeSender().send(url, "id-1") or ""


def fetch_checks(url: str, _: Path) -> str:
    return failure(ServiceError, HttpMonitoringService(url, "nagios1", "key").list_flagged)


def read_host_id(url: str, _: Path) -> str:
    return failure(ConfigurationError, read_value, url)


def log_in(url: str, _: Path) -> str:
    provider = OpenIdProvider(OpenIdClient(issuer=url, client_id="c"), ManualClock(0.0))
    return failure(IdentityProviderError, provider.login_url, SimpleNamespace(), "http://here/")


@pytest.mark.parametrize(
    ("ask", "limit"),
    [
        (ask_metrics, ""),
        (ask_fleet, ""),
        (send_webhook, "fleet.webhooks.sender._TIMEOUT"),
        (send_spans, "fleet.traces.exporter._TIMEOUT"),
        (poke, "checks.daemon._LIMIT"),
        (fetch_checks, "checks.nagios.service._TIMEOUT"),
        (read_host_id, "config.forms._SECONDS"),
        (log_in, "service.openid._TIMEOUT"),
    ],
)
@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 O", b"HTTP/1.1 304 Not Modified\r\nX: "])
def test_a_caller_is_free_again_after_its_time_limit(ask, limit, begin, tmp_path, monkeypatch):
    if limit:
        monkeypatch.setattr(f"zkdeployment.{limit}", LIMIT)
    with DrippingServer(begin) as server:
        assert "did not answer within 0.3 s" in ask(server.url, tmp_path)


def test_the_sender_of_commit_statuses_is_free_again_after_its_time_limit(monkeypatch):
    monkeypatch.setattr("zkdeployment.fleet.webhooks.commit_status._TIMEOUT", LIMIT)
    monkeypatch.setattr("zkdeployment.fleet.webhooks.commit_status.retry_delay", lambda _: 0.01)
    reading = FleetReading(FleetSnapshot(Cluster("a" * 40), "a" * 40), sequence=7)
    feed: Any = SimpleNamespace(
        subscribe=lambda _: None,
        recent_events=lambda: SimpleNamespace(base=1),
        snapshot=lambda: SimpleNamespace(reading=reading, zxid=1),
    )
    lock: Any = SimpleNamespace(acquire=lambda _: True, check=lambda: None, release=lambda: None)
    with DrippingServer() as server:
        repository = ForgeRepository(Forge.GITHUB, server.url)
        sender = CommitStatusSender(repository, lambda _: (server.url, b"", {}), feed=feed, lock=lock)
        sender.start()
        wait_until(lambda: server.accepted >= 3, "further attempts")
        sender.close()
