"""The stops of groups during one deployment: the withheld steps, and the services that the host lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.daemon.failpoints import failpoints
from zkdeployment.base.errors import ConflictError, HostFilesError
from zkdeployment.base.log import get_logger
from zkdeployment.base.plan import (
    ChangePackages,
    CheckOut,
    Deploy,
    Plan,
    RemoveCheckout,
    RemoveSoftware,
    Step,
    Undeploy,
    group_of,
)
from zkdeployment.base.stop import LackingGroup, services_of

if TYPE_CHECKING:
    from zkdeployment.agent.reporting.host_reporting import HostReporting
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import DeploymentFailure


class GroupStoppedError(Exception):
    """A failure of a step stopped its deployment intent group, and was reported; the other steps still run."""


class GroupStops:
    """The groups of one host's plan that are stopped, by other hosts or by this one.

    ``lacking`` are the services of the publication that the host lacks, by group. ``failure`` is the first failure
    of this host that stopped a group, with its reason.
    """

    def __init__(self, reporting: HostReporting) -> None:
        self._reporting = reporting
        self._plan = Plan()
        self._stopped: frozenset[str] = frozenset()
        self._has_skipped = False
        self.lacking: dict[str, LackingGroup] = {}
        self.failure: tuple[DeploymentFailure, str] | None = None

    def begin(self, plan: Plan) -> None:
        """Begin a plan, which may already omit services of stopped groups."""
        self._plan = plan
        former = self._reporting.host.lacking
        self.lacking = {
            group: LackingGroup(services, former[group].failed if group in former else None)
            for group, services in plan.withheld.items()
        }

    def read(self) -> None:
        """Read the stops again, if the plan has steps of groups that can be stopped."""
        if self._plan.groups:
            stopped = self._reporting.retry_until_reachable(self._reporting.adapters.fleet.stopped_groups)
            self._stopped = stopped | {group for group in self._stopped if group in self.lacking}

    def withholds(self, step: Step) -> bool:
        """Whether a step must not run, because its group is stopped; the host then lacks its service.

        After such a step, the host removes no software either. Raises ``ConflictError`` if the step changes
        software before the deployments and a group of the plan was stopped: the host then plans again, without the
        software of that group.
        """
        newly_stopped = self._stopped & self._plan.groups
        if not newly_stopped:
            return False
        match step:
            case _ if isinstance(step, ChangePackages | CheckOut) or self._makes_room(step):
                names = ", ".join(sorted(newly_stopped))
                raise ConflictError(f"{names} was stopped; the host plans again without it")
            case RemoveSoftware() | RemoveCheckout():
                return self._has_skipped
            case Deploy() | Undeploy():
                group = group_of(step)
                if group is None or group not in newly_stopped:
                    return False
                get_logger().warning("step-withheld", group=group, withheld=step.title)
                self._skip(group, step.deployment.path)
                return True
            case _:
                return False

    def _makes_room(self, step: Step) -> bool:
        """Whether a step removes a checkout in whose place a later step installs a package."""
        changes = (later.change.want for later in self._plan.steps if isinstance(later, ChangePackages))
        return isinstance(step, RemoveCheckout) and any(step.package in want for want in changes)

    def lacks(self, service: str) -> bool:
        """Whether this deployment skipped steps of a service, or failed at them, so that its group is stopped."""
        return service in services_of(self.lacking)

    def fail(self, revision: Revision, failed: DeploymentFailure, group: str, error: Exception) -> None:
        """Record that a step of a ``group`` failed here, and stop the group; return when ZooKeeper has both."""
        self._skip(group, failed.path or "")
        self.lacking[group] = replace(self.lacking[group], failed=failed)
        self._stopped |= {group}
        try:
            with failpoints("lack"):
                self._reporting.deployment.lack(self.lacking)
        except HostFilesError as problem:
            get_logger().error("lacking-not-recorded", reason=str(problem))
        with failpoints("stop-group"):
            reason = self._reporting.failures.fail_group(revision, failed, group, error)
        self.failure = self.failure or (failed, reason)

    def _skip(self, group: str, service: str) -> None:
        lacking = self.lacking.get(group, LackingGroup())
        self.lacking[group] = replace(lacking, services=lacking.services | {service})
        self._has_skipped = True
