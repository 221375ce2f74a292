"""The acts on single hosts: maintenance and removal; the acts on the whole fleet are in ``acts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.base.act import ActRight, maintenance_end
from zkdeployment.fleet.views.maintenance import MOST_HOSTS, HostSelection
from zkdeployment.service.act import PlannedAct, RecordedAct, given

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.act import Actor

#: The most hosts of one act, whose records are removed in one transaction.
_MOST_HOSTS = 100


@dataclass(frozen=True, kw_only=True)
class ForgetHosts(PlannedAct["OperatorAdapters"]):
    """Remove the records of hosts that are gone for good: all of them, or none if one is refused."""

    RIGHT = ActRight("forget hosts")
    PATH = "forget"
    OPERATION = "forget"
    REQUEST = """The removal of the records of hosts that are gone for good, named by their ids or names.

With ``force``, hosts are forgotten although no other host runs what the tree deploys to them."""
    NEEDS_REASON = False
    ADAPTERS = "operator"

    hosts: list[str] = given(least=1, most=_MOST_HOSTS, length=500)  # noqa: RUF009  a field
    force: bool = given(default=False)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Forget the hosts; raises what ``forget_hosts`` raises."""
        from zkdeployment.fleet.store.forgetting import forget_hosts  # noqa: PLC0415  other acts need none

        words = ("forget", ", ".join(self.hosts), "--force" if self.force else "")
        act = actor.record(self, " ".join(filter(None, words)))
        forget_hosts(adapters.session, adapters.fleet, self.hosts, act, force=self.force)
        return act


@dataclass(frozen=True, kw_only=True)
class _MaintenanceAct(PlannedAct["OperatorAdapters"]):
    ADAPTERS = "operator"

    hosts: list[str] = given((), least=0, most=MOST_HOSTS, length=500)  # noqa: RUF009  a field
    role: str = given("", least=0, most=500)
    rack: str = given("", least=0, most=500)

    @property
    def selection(self) -> HostSelection:
        """The hosts of the act."""
        return HostSelection(tuple(self.hosts), self.role, self.rack)

    def check(self) -> None:
        """Raise ``ValueError`` unless the act has exactly one kind of selection."""
        self.selection.check()


@dataclass(frozen=True, slots=True)
class HostMaintenance:
    """The begin or the end of the maintenance of these hosts."""

    act: RecordedAct
    hosts: list[str]


@dataclass(frozen=True, kw_only=True)
class CordonHosts(_MaintenanceAct):
    """Put hosts into maintenance: they start nothing, and nothing waits for them, until the maintenance ends."""

    RIGHT = ActRight("put hosts into maintenance")
    PATH = "cordon"
    OPERATION = "cordon"
    REQUEST = """The begin of the maintenance of hosts, named by ids or names, or of all hosts of a role or a rack.

``until`` is a duration such as ``2h``, or a time with its zone such as ``2026-05-01T18:00Z``; without it, an
operator has to end the maintenance. With ``at_most``, the act is refused if more hosts would be in maintenance."""
    ANSWER = HostMaintenance

    until: str = given("", least=0, most=100)
    at_most: int | None = given(None, least=1, most=1_000_000)

    def check(self) -> None:
        """Raise ``ValueError`` for an invalid selection, and for an ``until`` without a meaning."""
        super().check()
        maintenance_end(self.until, 0.0)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> HostMaintenance:
        """Begin the maintenance; raises what ``ZooKeeperMaintenance.begin`` raises."""
        act = actor.record(self, f"cordon {self.selection}{f' until {self.until}' if self.until else ''}")
        until = maintenance_end(self.until, act.time)
        hosts = adapters.maintenance.begin(self.selection, act, until=until, most=self.at_most)
        return HostMaintenance(RecordedAct.of(act), [*hosts])


@dataclass(frozen=True, kw_only=True)
class UncordonHosts(_MaintenanceAct):
    """End the maintenance of hosts: they deploy the published revision."""

    RIGHT = ActRight("put hosts into maintenance")
    PATH = "uncordon"
    OPERATION = "uncordon"
    REQUEST = "The end of the maintenance of hosts, named by ids or names, or of all hosts of a role or a rack."
    ANSWER = HostMaintenance
    NEEDS_REASON = False

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> HostMaintenance:
        """End the maintenance; raises what ``ZooKeeperMaintenance.end`` raises."""
        act = actor.record(self, f"uncordon {self.selection}")
        return HostMaintenance(RecordedAct.of(act), [*adapters.maintenance.end(self.selection, act)])


#: The acts on hosts.
HOST_ACTS: tuple[type[PlannedAct[Any]], ...] = (ForgetHosts, CordonHosts, UncordonHosts)
