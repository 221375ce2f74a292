"""The ports of the Nagios bridge: the deployments of the service, and a Nagios on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.nagios.deployed import DeployedInstances
    from zkdeployment.nagios.object_files import NagiosObjectFile
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


class NagiosObjects(Protocol):
    """The directory of object definitions that belongs to the bridge. All methods raise ``NagiosError``."""

    def names(self) -> frozenset[str]:
        """Return the names of the files."""

    def read(self) -> Mapping[str, NagiosObjectFile]:
        """Return the files by name."""

    def write(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Make ``files`` the definitions in the directory, each replaced atomically.

        Scripts that are no longer used stay until ``clean``, because Nagios may still run them.
        """

    def written(self) -> Mapping[str, float]:
        """Return when the definition of each check was written, by instance, in seconds since the epoch."""

    def clean(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Remove everything of the bridge but ``files``, also what a killed bridge has left."""


class NagiosProgram(Protocol):
    """A running Nagios. All methods raise ``NagiosError``."""

    def has_plugin(self, name: str) -> bool:
        """Whether Nagios can run the plugin of this bare name."""

    def verify(self, files: Mapping[str, NagiosObjectFile]) -> str | None:
        """Return what Nagios prints about its configuration with ``files`` as the definitions of the bridge.

        Return ``None`` if the configuration is valid. The files in the directory do not change.
        """

    def reload(self) -> None:
        """Make Nagios read its configuration again."""

    def submit(self, commands: Iterable[str]) -> None:
        """Pass external commands to Nagios."""

    def read_status(self) -> str | None:
        """Return the text of the status file; ``None`` without one, or if it is as at the last call."""
