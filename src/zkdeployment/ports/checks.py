"""The ports to check instances and to monitoring systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.checks.monitoring_system import CheckResult, SystemContact
    from zkdeployment.checks.sources import CheckSnapshot

    #: A change of an instance (``None``: there is none): a pure function, which returns the instance afterwards
    #: (``None``: it is removed). It may be called several times, and refuses a change by an exception.
    InstanceChange: TypeAlias = Callable[[str, CheckInstance | None], CheckInstance | None]

    #: An instance before and after a change.
    ChangedInstance: TypeAlias = tuple[CheckInstance | None, CheckInstance | None]


class CheckInstances(Protocol):
    """The check instances. Each method raises ``UnreachableError`` if ZooKeeper does not answer.

    All methods may be called from any thread.
    """

    def find(self, instances: Collection[str]) -> Mapping[str, CheckInstance]:
        """Return those of the instances with these identifiers that exist."""

    def scan(self) -> Iterator[CheckInstance]:
        """Yield all instances, read in pipelined requests."""

    def bucket(self, number: int) -> Collection[CheckInstance]:
        """Return the instances of the bucket with a number, which is counted around the end."""

    def change(self, instances: Collection[str], change: InstanceChange) -> Mapping[str, ChangedInstance]:
        """Change instances, each together with its entries in the indexes, and return all of them.

        Where another process was faster, the change is computed again. Raises what ``change`` raises, and
        ``ConflictError`` if others change the same instances all the time. After ``UnreachableError`` it is not
        known which instances were changed.
        """

    def flagged(self, system: str) -> Sequence[str]:
        """Return the instances of a monitoring system that have an update which it was not told about."""

    def open(self, system: str) -> Sequence[str]:
        """Return the instances of a monitoring system that wait for it."""

    def due(self) -> Sequence[str]:
        """Return the instances that the next turn of the life cycle changes."""


class CheckSources(Protocol):
    """What check instances are computed from. Only one thread may call the method."""

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        """Return the present sources: the same value for as long as nothing has changed, and then without a read.

        ``awaited`` are the hosts (by id) whose deployments are of interest; those of other registered hosts may be
        missing. While a publication is under way, its sources are those of the one before. Raises
        ``UnreachableError``, and ``ConflictError`` if the sources change all the time.
        """


class MonitoringSystems(Protocol):
    """What is recorded of monitoring systems. Methods may be called from any thread."""

    def callbacks(self) -> Mapping[str, str | None]:
        """Return the callback of each known monitoring system; ``None`` for one that polls."""

    def set_callback(self, system: str, callback: str | None) -> None:
        """Record the callback of a monitoring system."""

    def contacts(self) -> Mapping[str, SystemContact]:
        """Return the last contact of each monitoring system that ever made one."""

    def note_contact(self, system: str, contact: SystemContact) -> None:
        """Record a contact of a monitoring system; times that are ``None`` stay as they are."""

    def results(self, system: str, instances: Collection[str] | None = None) -> Mapping[str, CheckResult]:
        """Return the last results of instances (``None``: of all instances) by identifier."""

    def record_results(self, system: str, results: Mapping[str, CheckResult]) -> None:
        """Record results, beside those of other instances."""

    def forget_results(self, system: str, instances: Collection[str]) -> None:
        """Remove the results of instances that are gone."""


class PokeSender(Protocol):
    """The callbacks of monitoring systems. It may be called from any thread."""

    def send(self, callback: str, instance: str) -> str | None:
        """Tell a monitoring system about an update of an instance, within a few seconds; never raises.

        Return ``None`` if the system accepted the poke, or else the reason, which does not contain the URL.
        """
