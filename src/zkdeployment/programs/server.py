"""Composition of the service: its session, the adapters on it, the application and the HTTP server."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zkdeployment.agent.packages.host_repositories import temporary_repositories
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.daemon.metrics import render
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.features import installed
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.clock import Clock, SystemClock
from zkdeployment.base.machine.files import read_secret
from zkdeployment.base.machine.systemd import SystemdNotifier
from zkdeployment.fleet.feed.feed import ZooKeeperFeed
from zkdeployment.fleet.feed.reboot_watch import RebootWatch
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.fleet.traces.exporter import StepRecorder, TraceExporter
from zkdeployment.fleet.webhooks.commit_status import CommitStatusSender, status_request
from zkdeployment.fleet.webhooks.sender import (
    HttpWebhookSender,
    WebhookDispatcher,
    ZooKeeperWebhookLead,
    signed_request,
)
from zkdeployment.programs.syncer import build_dry_runs
from zkdeployment.publishing.acts.opening import open_commits
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.publishing.sources.opening import read_revision
from zkdeployment.service.application import build_application
from zkdeployment.service.daemon import ServiceDaemon
from zkdeployment.service.dependencies import ServerAdapters
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.request_slots import limited_cluster, limited_commits, limited_provider
from zkdeployment.service.serving.http_server import ConnectionLimits, HttpServer
from zkdeployment.service.serving.listener import open_listener, server_encryption
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.site import Site
from zkdeployment.service.users.key_hashes import KeyHasher
from zkdeployment.service.users.login_store import ZooKeeperLogins, guard_logins
from zkdeployment.service.users.user_store import ZooKeeperUsers, guard_users
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.openid import OpenIdProvider
    from zkdeployment.service.users.external_logins import OpenIdClient
    from zkdeployment.zookeeper.servers import AclEntry

#: Seconds: few, so that a killed leader is replaced soon, and no request waits long for ZooKeeper.
_SESSION = 10.0
_CALL = 5.0


@contextlib.contextmanager
def build_service(settings: Settings) -> Iterator[tuple[ServiceDaemon, Control]]:
    """Yield the service and its control; it listens already, but contacts no server before it runs.

    Raises ``ConfigurationError`` if the service cannot listen, or cannot use its certificate.
    """
    service = settings.require(ServerSettings)
    encryption = _encryption(service)
    listener = open_listener(service.host, service.port)
    with contextlib.closing(listener), _commits(settings) as commits, contextlib.ExitStack() as stack:
        session = _new_session(settings)
        try:
            control = Control(SystemClock())
            session.on_change(control.wake)
            feed = ZooKeeperFeed(partial(_new_session, settings))
            adapters = server_adapters(session, feed, service, commits)
            adapters = replace(adapters, settings=settings, is_ending=lambda: control.stopping)
            if (sync := settings.of(SyncSettings)) is not None:
                repositories = stack.enter_context(temporary_repositories(sync, tick=control.check))
                adapters = replace(
                    adapters,
                    read_revision=partial(read_revision, sync),
                    read_refusals=stack.enter_context(build_dry_runs(settings, session, repositories)),
                    repositories=repositories,
                )
            site = public_site(service)
            application = build_application(adapters, site)
            limits = ConnectionLimits(service.limits.connections_per_address, site.proxies.trusts)
            server = HttpServer(application, listener, encryption, limits)
            webhooks = open_webhooks(session, feed, service)
            statuses = open_commit_statuses(session, feed, service)
            outgoing = (webhooks, statuses, open_traces(session, feed, adapters.recorder, service))
            parts = [part for places in installed(ServicePlaces) for part in places.parts(adapters)]
            yield (
                ServiceDaemon(
                    server,
                    control,
                    url=service.url,
                    connect=_connecting(session, partial(_new_session, settings), service.users_acl),
                    parts=(
                        feed,
                        adapters.recorder,
                        RebootWatch(feed, session),
                        *parts,
                        *(part for part in outgoing if part is not None),
                    ),
                    notifier=SystemdNotifier(),
                ),
                control,
            )
        finally:
            session.close()


def _new_session(settings: Settings) -> Session:
    return Session(settings.servers, session_timeout=_SESSION, call_timeout=_CALL, create_chroot=True)


def _connecting(
    session: Session, other: Callable[[], Session], users_acl: tuple[AclEntry, ...]
) -> Callable[[], None]:
    """Return a function that opens ``session`` after ``other`` has found that ``users_acl`` guards the users.

    Until then, all logins are refused, because another program may have written the users.
    """
    guarded = False

    def connect() -> None:
        nonlocal guarded
        if not guarded:
            with other() as first:
                guard_users(first, users_acl)
                guard_logins(first, users_acl)
            guarded = True
        session.open()

    return connect


@contextlib.contextmanager
def _commits(settings: Settings) -> Iterator[TreeCommits | None]:
    """Yield the branch of the tree, for commits; ``None`` if the tree is not in a git repository."""
    if settings.of(SyncSettings) is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            commits: TreeCommits | None = stack.enter_context(open_commits(settings))
        except RefusedError as error:
            get_logger().info("commits-unavailable", reason=str(error))
            commits = None
        yield commits


def server_adapters(
    session: Session, feed: ZooKeeperFeed, server: ServerSettings, commits: TreeCommits | None = None
) -> ServerAdapters:
    """Return the adapters of the service: ``feed``, ``commits``, and others that use ``session``."""
    hasher, clock, users_acl = KeyHasher(), SystemClock(), server.users_acl
    users, operator = ZooKeeperUsers(session, users_acl, hasher, clock), operator_adapters(session)
    return ServerAdapters(
        operator=replace(operator, cluster=limited_cluster(operator.cluster)),
        feed=feed,
        recorder=StepRecorder(feed),
        render_metrics=render,
        connection=lambda: session.link,
        users=users,
        logins=ZooKeeperLogins(session, users_acl, users, hasher, clock),
        openid=None if server.openid is None else limited_provider(_openid_provider(server, server.openid, clock)),
        clock=clock,
        commits=None if commits is None else limited_commits(commits),
    )


def open_webhooks(session: Session, feed: ZooKeeperFeed, server: ServerSettings) -> WebhookDispatcher | None:
    """Return the sender of ``feed``'s events to the configured receivers; ``None`` without receivers.

    Raises ``ConfigurationError`` if the key cannot be used.
    """
    if not server.webhooks or server.webhook_key is None:
        return None
    return WebhookDispatcher(
        server.webhooks,
        feed=feed,
        lead=ZooKeeperWebhookLead(session, _service_name()),
        sender=HttpWebhookSender(server.webhook_ca),
        clock=SystemClock(),
        encode=partial(signed_request, source=server.url, key=read_secret(server.webhook_key)),
    )


def open_commit_statuses(
    session: Session, feed: ZooKeeperFeed, server: ServerSettings
) -> CommitStatusSender | None:
    """Return the sender of the states of commits to the configured forge; ``None`` without a forge.

    Raises ``ConfigurationError`` if the token cannot be used.
    """
    repository = server.commit_statuses
    if repository is None or server.commit_status_token is None:
        return None
    return CommitStatusSender(
        repository,
        partial(
            status_request,
            repository,
            token=read_secret(server.commit_status_token),
            site=server.url,
            fleet=server.fleet,
        ),
        feed=feed,
        lock=ContenderLock(session, paths.COMMIT_STATUSES, _service_name()),
        ca=server.commit_status_ca,
    )


def open_traces(
    session: Session, feed: ZooKeeperFeed, recorder: StepRecorder, server: ServerSettings
) -> TraceExporter | None:
    """Return the exporter of publications to the configured receiver of traces; ``None`` without a receiver."""
    if server.traces is None:
        return None
    return TraceExporter(
        server.traces,
        site=server.url,
        feed=feed,
        recorder=recorder,
        session=session,
        identity=_service_name(),
        ca=server.traces_ca,
    )


def _service_name() -> str:
    return f"service on {socket.gethostname()} (process {os.getpid()})"


def _openid_provider(server: ServerSettings, client: OpenIdClient, clock: Clock) -> OpenIdProvider:
    from zkdeployment.service.openid import OpenIdProvider  # noqa: PLC0415  services start faster without it

    secret = None if server.openid_client_secret is None else read_secret(server.openid_client_secret)
    return OpenIdProvider(client, clock, secret=secret, ca=server.openid_ca)


def public_site(server: ServerSettings) -> Site:
    """Return the names under which browsers may reach the service, and whether they do so encrypted."""
    url = urlsplit(server.url)
    hosts = {name for name in (url.hostname, server.host) if name}
    return Site(
        hosts=frozenset(hosts),
        authority=url.netloc,
        encrypted=url.scheme == "https",
        proxies=server.trusted_proxies,
        limits=server.limits,
        name=server.name,
        colour=server.colour,
    )


def _encryption(server: ServerSettings) -> ssl.SSLContext | None:
    if server.certificate is None or server.key is None:
        return None
    return server_encryption(server.certificate, server.key)
