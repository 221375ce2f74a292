"""The port to what publications recorded about intents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.history import InstanceHistory
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.planning.targets.withheld import ServiceTarget


class IntentReader(Protocol):
    """The published intents. The number of requests does not grow with the number of hosts.

    All methods raise ``UnreachableError``. Damaged records are left out and logged.
    """

    def records(self) -> tuple[IntentRecord, ...]:
        """Return the records of all intents, sorted by subject.

        Of the instances before the last one they have only what lists of instances show.
        """

    def record(self, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent, with all instances; ``None`` if none was published."""

    def former(self, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
        """Return the instances of documents of an intent that were removed, oldest first."""

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents, and stay as they are published."""
