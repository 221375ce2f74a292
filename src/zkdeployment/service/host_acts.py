"""The acts on single hosts: maintenance and removal; the acts on the whole fleet are in ``acts``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from zkdeployment.base.act import Act, ActRight, end_given_with, given_end
from zkdeployment.base.errors import RefusedError
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.maintenance import MOST_HOSTS, HostSelection, cordoned, select_identities
from zkdeployment.service.act import ActForm, Actor, FormAct, PlannedAct, RecordedAct, Visit, given

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.host import Identity
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.service.users.user import User
    from zkdeployment.service.views.frame import ActLink

#: The most hosts of one act, whose records are removed in one transaction.
_MOST_HOSTS = 100


@dataclass(frozen=True, kw_only=True)
class ForgetHosts(PlannedAct["OperatorAdapters"]):
    """Remove the records of hosts that are gone for good: all of them, or none if one is refused."""

    RIGHT = ActRight("forget hosts")
    PATH = "forget"
    OPERATION = "forget"
    REQUEST = """The removal of the records of hosts that are gone for good, named by their ids or names.

With ``force``, hosts are forgotten although no other host runs what the tree deploys to them, or they reboot."""
    NEEDS_REASON = False
    ADAPTERS = "operator"

    hosts: list[str] = given(least=1, most=_MOST_HOSTS, length=500)
    force: bool = given(default=False)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Forget the hosts; raises what ``forget_hosts`` raises."""
        from zkdeployment.fleet.store.forgetting import forget_hosts  # noqa: PLC0415  other acts need none

        words = ("forget", ", ".join(self.hosts), "--force" if self.force else "")
        act = actor.record(self, " ".join(filter(None, words)))
        forget_hosts(adapters.session, adapters.fleet, self.hosts, act, force=self.force)
        return act


@dataclass(frozen=True, kw_only=True)
class _MaintenanceAct(FormAct["tuple[FleetSnapshot, Identity]", "OperatorAdapters"]):
    """The begin or the end of a maintenance, whose form is for one host."""

    RIGHT = ActRight("put hosts into maintenance")
    ADAPTERS = "operator"

    hosts: list[str] = given((), least=0, most=MOST_HOSTS, length=500)
    role: str = given("", least=0, most=500)
    rack: str = given("", least=0, most=500)

    @property
    def selection(self) -> HostSelection:
        """The hosts of the act."""
        return HostSelection(tuple(self.hosts), self.role, self.rack)

    def check(self) -> None:
        """Raise ``ValueError`` unless the act has exactly one kind of selection."""
        self.selection.check()

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        act = super().of_form(values, visit)
        return None if act is None else replace(act, hosts=[values.get("host", "")])

    def read(self, visit: Visit) -> tuple[FleetSnapshot, Identity]:
        snapshot = visit.adapters.feed.snapshot().fleet
        return snapshot, select_identities(snapshot, self.selection)[0]

    def title(self, found: tuple[FleetSnapshot, Identity]) -> str:
        return f"{self.BUTTON}: {found[1].name}"

    def situation(self, found: tuple[FleetSnapshot, Identity], visit: Visit) -> str:  # noqa: ARG002  other acts need it
        snapshot, identity = found
        return f"{identity.name} is {snapshot.maintenance.get(identity.id, 'not in maintenance')}"

    def form(self, found: tuple[FleetSnapshot, Identity]) -> ActForm:
        return replace(super().form(found), fields=(("host", found[1].id),))


@dataclass(frozen=True, slots=True)
class HostMaintenance:
    """The begin or the end of the maintenance of these hosts."""

    act: RecordedAct
    hosts: list[str]


@dataclass(frozen=True, kw_only=True)
class CordonHosts(_MaintenanceAct):
    """Put hosts into maintenance: they start nothing, and nothing waits for them, until the maintenance ends."""

    NAME = "cordon"
    BUTTON = "Put into maintenance"
    STYLE = ""
    PATH = "cordon"
    OPERATION = "cordon"
    REQUEST = """The begin of the maintenance of hosts, named by ids or names, or of all hosts of a role or a rack.

``until`` is a duration such as ``2h``, or a time with its zone such as ``2026-05-01T18:00Z``; without it, an
operator has to end the maintenance. With ``at_most``, the act is refused if more hosts would be in maintenance.
With ``drain``, the hosts first undeploy the services that other hosts have."""
    ANSWER = HostMaintenance

    until: str = given(
        "",
        label="Until",
        explanation="A duration such as 2h, or a time such as 2026-05-01T18:00Z; empty: until it is ended.",
        least=0,
        most=100,
    )
    at_most: int | None = given(None, least=1, most=1_000_000)
    drain: bool = given(
        default=False,
        label="Drain it",
        explanation="The host first undeploys the services that other hosts have.",
    )

    def check(self) -> None:
        """Raise ``ValueError`` for an invalid selection, and for an ``until`` without a meaning."""
        super().check()
        given_end(self.until, 0.0)

    def consequences(self, found: tuple[FleetSnapshot, Identity]) -> tuple[str, ...]:
        """Return the effects as sentences."""
        snapshot, identity = found
        replaced = ("The present maintenance is replaced.",) if identity.id in snapshot.maintenance else ()
        return (
            f"{identity.name} finishes its present script and starts no other step. Its services continue to run.",
            "Publications and rollouts do not wait for it.",
            *replaced,
        )

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> HostMaintenance:
        """Begin the maintenance; raises ``RefusedError`` for a past end, and what ``begin`` raises."""
        until = f"until {self.until}" if self.until else ""
        words = ("cordon", str(self.selection), "--drain" if self.drain else "", until)
        act = actor.record(self, " ".join(filter(None, words)))
        end = end_given_with(act, self.until)
        hosts = adapters.maintenance.begin(self.selection, act, until=end, most=self.at_most, drain=self.drain)
        return HostMaintenance(RecordedAct.of(act), [*hosts])


@dataclass(frozen=True, kw_only=True)
class UncordonHosts(_MaintenanceAct):
    """End the maintenance of hosts: they deploy the published revision."""

    NAME = "uncordon"
    BUTTON = "End the maintenance"
    FORM_NEEDS_REASON = False
    PATH = "uncordon"
    OPERATION = "uncordon"
    REQUEST = "The end of the maintenance of hosts, named by ids or names, or of all hosts of a role or a rack."
    ANSWER = HostMaintenance
    NEEDS_REASON = False

    def objection(self, found: tuple[FleetSnapshot, Identity]) -> str:
        """Return why there is no maintenance to end, or an empty text."""
        try:
            cordoned(found[0], self.selection)
        except RefusedError as error:
            return str(error)
        return ""

    def consequences(self, found: tuple[FleetSnapshot, Identity]) -> tuple[str, ...]:
        """Return the effects as sentences."""
        return (f"{found[1].name} deploys the published revision.",)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> HostMaintenance:
        """End the maintenance; raises what ``ZooKeeperMaintenance.end`` raises."""
        act = actor.record(self, f"uncordon {self.selection}")
        return HostMaintenance(RecordedAct.of(act), [*adapters.maintenance.end(self.selection, act)])


#: The acts on hosts.
HOST_ACTS: tuple[type[PlannedAct[Any]], ...] = (ForgetHosts, CordonHosts, UncordonHosts)


def host_acts(snapshot: FleetSnapshot, host_id: str, back: str, user: User) -> tuple[ActLink, ...]:
    """Return the link to the act on the maintenance of a host that its state and the rights of the user permit."""
    act: type[_MaintenanceAct] = UncordonHosts if host_id in snapshot.maintenance else CordonHosts
    return (act.link(act.BUTTON, act.STYLE, back, host=host_id),) if user.may_act(act.RIGHT) else ()
