"""The port of the Nagios bridge to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.nagios.deployed import DeployedInstances
    from zkdeployment.nagios.service_requests import CheckAnswer, FetchedDetails
    from zkdeployment.nagios.status_file import NagiosResult


class MonitoringService(Protocol):
    """The service, as a monitoring system sees it. All methods raise ``ServiceError``."""

    def list_flagged(self) -> frozenset[str]:
        """Return the instances that have changed since the last call, of which this call is the only notice."""

    def list_pending(self) -> frozenset[str]:
        """Return the instances that wait to be rolled out or removed, or for the answer about that."""

    def list_deployed(self) -> DeployedInstances:
        """Return the instances that are rolled out, and those whose removal failed."""

    def fetch(self, instances: Sequence[str]) -> FetchedDetails:
        """Return the details of instances, which are in progress from now on; at most ``MOST_INSTANCES``."""

    def answer(self, answers: Sequence[CheckAnswer]) -> Mapping[str, str]:
        """Report the outcomes of deployments, at most ``MOST_INSTANCES``.

        An answer that comes too late changes nothing and is no error. Returned are the reasons for which other
        answers were not recorded, by instance.
        """

    def report_results(self, results: Mapping[str, NagiosResult]) -> frozenset[str]:
        """Report results of checks, and that the monitoring system is alive.

        Return the instances whose results do not count, because they are not deployed, or differently.
        """

    def list_working_hosts(self) -> frozenset[str]:
        """Return the ids of the hosts that are in a deployment step."""
