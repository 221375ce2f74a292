"""The adapters of the service, and the ports that only the service needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.adapters.packages.host_repositories import DnfHostRepositories
    from zkdeployment.adapters.zookeeper.checks.instances import ZooKeeperCheckInstances
    from zkdeployment.adapters.zookeeper.checks.systems import ZooKeeperMonitoringSystems
    from zkdeployment.adapters.zookeeper.feed.feed import ZooKeeperFeed
    from zkdeployment.adapters.zookeeper.users.logins import ZooKeeperLogins
    from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
    from zkdeployment.fleet.metrics.metric import Metric
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.connection_status import ConnectionStatus
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.ports.checks import CheckAdapters
    from zkdeployment.ports.commits import TreeCommits
    from zkdeployment.ports.identity import IdentityProvider
    from zkdeployment.ports.operator import OperatorAdapters
    from zkdeployment.ports.pools import PoolAdapters
    from zkdeployment.ports.process import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAdapters:
    """The adapters that the service depends on.

    ``feed`` is the cached fleet. ``openid`` is ``None`` without a configured provider. ``connection`` returns the
    present state of the connection to ZooKeeper, without a request. ``read_revision`` returns a revision and its
    files, given a branch, a commit or ``None`` for the tip of the configured branch; it is ``None`` without a
    configured repository. ``repositories`` are the repositories from which hosts install packages, if they are
    configured. ``commits`` is ``None`` without a git repository. ``render_metrics`` returns metrics in Prometheus'
    text format.
    """

    operator: OperatorAdapters
    checks: ZooKeeperCheckInstances
    monitoring: ZooKeeperMonitoringSystems
    operator_checks: CheckAdapters
    pools: PoolAdapters
    feed: ZooKeeperFeed
    users: ZooKeeperUsers
    logins: ZooKeeperLogins
    openid: IdentityProvider | None
    connection: Callable[[], ConnectionStatus]
    clock: Clock
    render_metrics: Callable[[Iterable[Metric]], bytes]
    read_revision: Callable[[str | None], tuple[Revision, Sequence[SourceFile]]] | None = None
    commits: TreeCommits | None = None
    repositories: DnfHostRepositories | None = None
