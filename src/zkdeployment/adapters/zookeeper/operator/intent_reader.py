"""What publications recorded about intents, as operators' commands and the service read it."""

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
    """The published intents, through one session (an ``IntentReader``)."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def records(self) -> tuple[IntentRecord, ...]:
        return read_records(self._session)

    def record(self, subject: IntentSubject) -> IntentRecord | None:
        return read_record(self._session, subject)

    def former(self, subject: IntentSubject) -> tuple[InstanceHistory, ...]:
        return read_former(self._session, subject)

    def withheld(self) -> frozenset[ServiceTarget]:
        return read_withheld(self._session)

    def left(self) -> tuple[LeftService, ...]:
        return read_left(self._session)
