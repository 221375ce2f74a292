"""The port of a service to the fleet: one reading of ZooKeeper for all clients, kept current by watches.

The load on ZooKeeper does not depend on the number of clients: the snapshot and the events cost nothing, and
everything else is read at most once a second, or once for each change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from zkdeployment.checks.reading import CheckReading
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.fleet.cached_fleet import CachedFleet
    from zkdeployment.fleet.events.event_log import EventLog
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.act import Act
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.lock import Lock
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.tree import Properties
    from zkdeployment.planning.targets.withheld import ServiceTarget
    from zkdeployment.pools.tenant_session import TenantSession
    from zkdeployment.rollout.state import RolloutState


class FleetFeed(Protocol):
    """The cached fleet. All methods may be called from any thread.

    Methods that read ZooKeeper raise ``UnreachableError`` while it is away.
    """

    def start(self) -> None:
        """Begin to read and to follow the fleet, in the background and until ``close``; does not wait."""

    def close(self) -> None:
        """End the reading and the session; subscribers are called a last time."""

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called: clients that wait for changes are to be sent away."""

    def snapshot(self) -> CachedFleet:
        """Return the last reading of the fleet, with its age; never waits.

        Raises ``UnreachableError`` before the first reading is complete.
        """

    def recent_events(self) -> EventLog:
        """Return the recent events; never waits."""

    def last_transaction(self) -> int:
        """Return the last transaction of ZooKeeper that this service has seen (a zxid); never waits."""

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` (which must not block) after each change of ``snapshot`` or ``recent_events``.

        Return the function that ends the subscription.
        """

    def known_hosts(self, host_ids: Collection[str]) -> tuple[KnownHost, ...]:
        """Return the inventories of these hosts, by id; hosts without one are left out.

        Of the packages, an inventory here has only those that were deployed.
        """

    def targets(self) -> Targets:
        """Return the targets of the last publication, by name."""

    def providers(self, services: Collection[str]) -> Mapping[str, Mapping[str, Properties]]:
        """Return the registered instances of services: for each path of a service, name to properties."""

    def reports(self, services: Collection[str]) -> FleetReports:
        """Return what all known hosts and the providers of these services report, without any clusters.

        Inventories are read once, and again only after they changed.
        """

    def locks(self) -> tuple[Lock, ...]:
        """Return every lock that is held or waited for, as ``LockStore`` does."""

    def history(self, last: int) -> tuple[PublicationRecord, ...]:
        """Return the records of the ``last`` publications, newest first."""

    def publication(self, sequence: int) -> tuple[PublicationRecord, ...]:
        """Return the record of a publication, after that of the next publication if there is one.

        Empty if the history has no publication with this sequence.
        """

    def rollouts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""

    def subtree(self, path: str) -> Mapping[str, Properties] | None:
        """Return a node of the live tree and all nodes below it, as ``LiveTreeStore`` does."""

    def acts(self) -> tuple[Act, ...]:
        """Return the recorded acts of operators, oldest first."""

    def intents(self) -> tuple[IntentRecord, ...]:
        """Return the records of all intents, as ``ZooKeeperIntents.records`` does."""

    def intent(self, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent; ``None`` if none was published."""

    def checks(self) -> CheckReading:
        """Return all check instances with what is known of their results.

        The first call reads them all; later ones read only what changed, at most once a second.
        """

    def ended_sessions(self) -> tuple[TenantSession, ...]:
        """Return the newest of the sessions of tenants that have ended, newest first."""

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents."""
