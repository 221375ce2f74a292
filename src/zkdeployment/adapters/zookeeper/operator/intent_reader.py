"""The records of publications about intents, for operators' commands and the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.former_intents import read_former
from zkdeployment.adapters.zookeeper.publication.intents import read_record, read_records
from zkdeployment.adapters.zookeeper.publication.left_services import read_left
from zkdeployment.adapters.zookeeper.publication.withheld import read_withheld

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.history import InstanceHistory
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.planning.targets.withheld import ServiceTarget


class ZooKeeperIntents:
    """The published intents, through one session.

    The number of requests does not grow with the number of hosts. All methods raise ``UnreachableError``. Damaged
    records are left out and logged.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def records(self) -> tuple[IntentRecord, ...]:
        """Return the records of all intents, sorted by subject.

        Of the instances before the last one they have only what lists of instances show.
        """
        return read_records(self._session)

    def record(self, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent, with all instances; ``None`` if none was published."""
        return read_record(self._session, subject)

    def former(self, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
        """Return the instances of documents of an intent that were removed, oldest first."""
        return read_former(self._session, subject)

    def withheld(self) -> frozenset[ServiceTarget]:
        """Return the services and targets that are not deployed because of the state of their intents."""
        return read_withheld(self._session)

    def left(self) -> tuple[LeftService, ...]:
        """Return the services that left the governance of their intents, and stay as published."""
        return read_left(self._session)
