"""Builds the adapters with which operators see check instances and act on them."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.checks.ports import CheckAdapters
from zkdeployment.checks.rules.listing import check_alarms
from zkdeployment.checks.store.instances import ZooKeeperCheckInstances
from zkdeployment.checks.store.sources import SharedCheckSources, ZooKeeperCheckSources
from zkdeployment.checks.store.systems import ZooKeeperMonitoringSystems
from zkdeployment.fleet.explanations.explanation import HostFinding
from zkdeployment.fleet.store.audit import ZooKeeperActLog
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.service.users.user import Role, User
from zkdeployment.zookeeper.session import Session, verb_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.zookeeper.servers import Servers


@contextlib.contextmanager
def open_checks(servers: Servers) -> Iterator[CheckAdapters]:
    """Connect to ZooKeeper and return the adapters; raises ``UnreachableError``."""
    with verb_session(servers) as session:
        yield check_adapters(session)


def check_adapters(session: Session) -> CheckAdapters:
    """Return the adapters, which use ``session``."""
    return CheckAdapters(
        fleet=ZooKeeperFleetReader(session),
        instances=ZooKeeperCheckInstances(session),
        systems=ZooKeeperMonitoringSystems(session),
        sources=SharedCheckSources(ZooKeeperCheckSources(session)),
        acts=ZooKeeperActLog(session),
    )


def check_adapters_of(adapters: ServerAdapters) -> CheckAdapters:
    """Return the adapters of checks among those of the service."""
    return adapters.operator.of(check_adapters)


def alarms(session: Session, now: float) -> JudgeAlarms:
    """Return the function that judges the monitoring systems; raises ``UnreachableError``."""
    return partial(check_alarms, check_adapters(session).summary(now))


def host_findings(
    operator: OperatorAdapters, hosts: Collection[str], now: float, path: str | None = None
) -> tuple[HostFinding, ...]:
    """Return the findings of the checks of these hosts (by id), or only those of one service, the worst first."""
    found = operator.of(check_adapters).findings(hosts, now, path)
    return tuple(HostFinding(one.word, one.subject, one.host, one.detail, one.to_json()) for one in found)


def retire_monitoring(
    operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act
) -> tuple[str, ...] | None:
    """Retire a monitoring system; warn of check instances that remain. Return ``None`` for another user."""
    if user.role is not Role.MONITORING:
        return None
    users.retire(user.name, act)
    count = len(operator.of(check_adapters).held(user.name))
    if not count:
        return ()
    warning = (
        f"the monitoring system {user.name} still has check instances ({count}), which it cannot remove any more:"
        f" let no check name it, and run 'zkdeployment checks abandon --system {user.name} --reason TEXT'"
    )
    return (warning,)
