"""The adapters of the service, as parameters that routes declare.

FastAPI evaluates the annotations of routes, so this module and the modules of routes import all names at run time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from zkdeployment.base.errors import RefusedError, UnreachableError
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.explanations.host import HostSnapshot
from zkdeployment.fleet.operator import OperatorAdapters, find_on_hosts
from zkdeployment.service.access.cookies import SAFE_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.daemon.connection_status import ConnectionStatus
    from zkdeployment.base.daemon.metrics import Metric
    from zkdeployment.base.lock import Lock
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.config.settings import Settings
    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.fleet.traces.exporter import StepRecorder
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.openid import OpenIdProvider
    from zkdeployment.service.users.login_store import ZooKeeperLogins
    from zkdeployment.service.users.user_store import ZooKeeperUsers


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAdapters:
    """The adapters that the service depends on.

    ``feed`` is the cached fleet, ``recorder`` has the steps of hosts. ``openid`` is ``None`` without a configured
    provider. ``connection`` returns the present state of the connection to ZooKeeper, without a request.
    ``read_revision`` returns a revision and its files, given a branch, a commit or ``None`` for the tip of the
    configured branch; it is ``None`` without a configured repository, and so is ``read_refusals``, which returns
    the reasons for which the syncer would refuse a commit. ``repositories`` are the repositories from
    which hosts install packages, if they are configured. ``commits`` is ``None`` without a git repository.
    ``settings`` is the configuration of the service.
    ``is_ending`` returns whether this process was asked to end, so that waiting requests give up.
    ``render_metrics`` returns metrics in Prometheus' text format.
    """

    operator: OperatorAdapters
    feed: ZooKeeperFeed
    recorder: StepRecorder
    users: ZooKeeperUsers
    logins: ZooKeeperLogins
    openid: OpenIdProvider | None
    connection: Callable[[], ConnectionStatus]
    clock: Clock
    render_metrics: Callable[[Iterable[Metric]], bytes]
    read_revision: Callable[[str | None], tuple[Revision, Sequence[SourceFile]]] | None = None
    read_refusals: Callable[[str], tuple[str, ...]] | None = None
    commits: TreeCommits | None = None
    repositories: DnfHostRepositories | None = None
    settings: Settings | None = None
    is_ending: Callable[[], bool] = lambda: False

    def require_commits(self) -> TreeCommits:
        """Return the branch as a place for commits; raises ``RefusedError`` if the service has no repository."""
        if self.commits is None:
            raise RefusedError(
                "the service cannot commit: expected a git repository as url in [sync] of its configuration, found"
                " none"
            )
        return self.commits


async def get_adapters(request: Request) -> ServerAdapters:
    """Return the adapters of the application that handles a request."""
    adapters: ServerAdapters = request.app.state.adapters
    return adapters


async def get_connected_adapters(request: Request) -> ServerAdapters:
    """Return the adapters; raises ``UnreachableError`` while there is no connection to ZooKeeper."""
    adapters = await get_adapters(request)
    check_connection(adapters, waits=request.method not in SAFE_METHODS)
    return adapters


async def note_event(request: Request) -> None:
    """Note the id of the last event before a page is made; from it, the page resumes the stream of events."""
    adapters = await get_adapters(request)
    with suppress(UnreachableError):  # the fleet was never read
        request.state.event = adapters.feed.snapshot().zxid


def check_connection(adapters: ServerAdapters, *, waits: bool = False) -> None:
    """Raise ``UnreachableError`` at once while ZooKeeper is not connected or does not answer.

    If each request waited for ZooKeeper's answer, the service would run out of threads. Only acts wait
    (``waits``).
    """
    link = adapters.connection()
    if not link.connected:
        raise UnreachableError("the service has no connection to ZooKeeper; it reconnects by itself")
    if not waits and not link.answers:
        raise UnreachableError(f"ZooKeeper has not answered for {link.silent:.0f} s; try again")


#: For routes that can answer without ZooKeeper.
Adapters = Annotated[ServerAdapters, Depends(get_adapters)]

#: For routes that send requests to ZooKeeper.
ConnectedAdapters = Annotated[ServerAdapters, Depends(get_connected_adapters)]


def read_host_snapshot(
    adapters: ServerAdapters, fleet: FleetSnapshot, locks: Sequence[Lock], host: str, now: float
) -> HostSnapshot:
    """Return the values that explain the host with this id or name; raises ``UnreachableError``.

    ``now`` is in seconds since the epoch.
    """
    identity, feed, operator = fleet.find_identity(host), adapters.feed, adapters.operator
    if identity is None:
        return HostSnapshot(fleet, locks)
    host_id = identity.id
    return HostSnapshot(
        fleet,
        locks,
        known=next(iter(feed.known_hosts([host_id])), None),
        withheld=feed.withheld(),
        left=feed.left(),
        records=feed.snapshot().reading.governing_records,
        output=feed.read(("output of", host_id), lambda _session: operator.fleet.failure_output(host_id)),
        services=feed.snapshot().reading.services,
        checks=feed.read(("findings of", host_id), lambda _session: find_on_hosts(operator, [host_id], now)),
    )
