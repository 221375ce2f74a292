"""The drain of one host in maintenance: its services are undeployed where another host has them."""

from __future__ import annotations

import contextlib
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.agent.daemon.deployment import FailedError, Supervision
from zkdeployment.agent.daemon.plans import HostPlan
from zkdeployment.agent.reporting.failures import reason
from zkdeployment.agent.reporting.host_reporting import RefusalCause
from zkdeployment.agent.rules.draining import UNSIGNED, Drain, plan_drain, witness
from zkdeployment.agent.steps.executor import Executor
from zkdeployment.agent.store.registration import host_path
from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import (
    ConflictError,
    HostFilesError,
    PackageError,
    TreeError,
    UnreachableError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.plan import Step, Undeploy
from zkdeployment.publishing.store.assignments import read_groups

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.agent.steps.awaiting_steps import RoleLockHold
    from zkdeployment.agent.store.service_locks import ZooKeeperServiceLock


#: The errors of facts that cannot be read. They concern this host alone: no step has begun.
_UNREADABLE = (HostFilesError, PackageError, TreeError)


class DrainSupervision(Supervision):
    """Permits the steps of a drain while other hosts have the services, besides all conditions of a deployment.

    ``role`` is the role of the host if that has a controller, and ``role_lock`` the hold of its lock.
    """

    role: str | None = None
    role_lock: RoleLockHold | None = None
    _drain = Drain()
    _own: Mapping[str, int] = MappingProxyType({})

    def plan_drain(self) -> Drain:
        """Read the facts and return the drain of this host; raises one of ``_UNREADABLE``."""
        reporting = self._reporting
        adapters, identity = reporting.adapters, reporting.host.identity
        with failpoints("plan-drain"):
            inventory = adapters.inventory()
            self._own = services = Counter(marker.deployment.path for marker in inventory.markers)
            self._drain = plan_drain(
                inventory,
                adapters.fleet.other_hosts(identity, services) if services else (),
                self.revision,
                read_groups(adapters.session, services),
                adapters.fleet.stopped_groups(),
            )
            if self._drain.plan.steps and identity.role is not None:
                controller = adapters.fleet.wanted(identity, self.revision).controller
                self.role = None if controller is None else controller.role
            self.groups.begin(self._drain.plan)
        return self._drain

    def begin_locked(self, step: Step, lock: ZooKeeperServiceLock) -> None:
        """Begin a step as a deployment does, unless the maintenance has ended meanwhile."""
        self.check()  # a maintenance that ends by itself changes nothing in ZooKeeper
        if self.role_lock is not None:
            self.role_lock.check()
        super().begin_locked(step, lock)

    def conditions(self, step: Step) -> Mapping[str, int]:
        """Return the version of the node of a host that has the service; raises ``ConflictError`` without one."""
        if not isinstance(step, Undeploy):
            return {}
        path = step.deployment.path
        reporting = self._reporting
        others = reporting.adapters.fleet.other_hosts(
            reporting.host.identity, {path: self._own.get(path, 0)}, self._drain.holders.get(path, ())
        )
        found = witness(path, others, self.revision)
        if found is None:
            raise ConflictError(f"no other host has {path} any more; this host keeps it")
        return {host_path(found.host): found.node_version}


def drain_host(reporting: HostReporting, supervision: DrainSupervision) -> bool | None:
    """Undeploy the services that other hosts have, and record the others; return whether that succeeded.

    After ``False``, the failure has been reported; after ``None``, this host shows that its facts cannot be read.
    Raises ``ConflictError`` or ``UnreachableError`` if the drain was abandoned. If the agent is killed, its next
    cycle plans the rest from the markers.
    """
    try:
        drain = supervision.plan_drain()
    except _UNREADABLE as error:
        reporting.deployment.refuse(reason(error), RefusalCause.DRAIN)
        return None
    reporting.deployment.clear_refusal(RefusalCause.DRAIN)
    try:
        if drain.plan.steps:
            _undeploy(reporting, supervision, drain)
    except FailedError:
        reporting.hand_on_work()
        reporting.inventory.publish()
        return False
    record_drain(reporting, drain.kept)
    return True


def _undeploy(reporting: HostReporting, supervision: DrainSupervision, drain: Drain) -> None:
    get_logger().info("drain-started", services=sorted(drain.holders))
    reporting.deployment.begin(supervision.revision)
    plan = HostPlan(drain.plan, 0)
    executor = Executor(reporting.adapters, reporting.host.identity, supervision, plan)
    try:
        executor.prepare(rehearse=False)
        with contextlib.ExitStack() as held:
            if supervision.role is not None:  # the other hosts of the role hold no locks of services
                held.enter_context(supervision.reporting("role lock"))
                supervision.role_lock = executor.role_lock(supervision.role)
                held.enter_context(supervision.role_lock.held())
            executor.execute()
    except BaseException as error:
        if supervision.role_lock is not None and not supervision.changed:
            supervision.role_lock.withdraw()
        if isinstance(error, ConflictError | UnreachableError):
            reporting.deployment.abandon()
            reporting.inventory.publish()
        raise
    reporting.inventory.publish()
    reporting.deployment.abandon()
    reporting.refresh()


def record_drain(reporting: HostReporting, kept: Mapping[str, str]) -> None:
    """Record in the maintenance of the host that its drain is complete, and the services that it keeps."""
    with failpoints("record-drain"):
        reporting.retry_until_reachable(
            lambda: reporting.adapters.fleet.record_drain(reporting.host.identity, kept)
        )


def refuse_drain(reporting: HostReporting) -> None:
    """Record that a host with publishers keeps all services."""
    markers = reporting.adapters.inventory().markers
    record_drain(reporting, {marker.deployment.path: UNSIGNED for marker in markers})
