"""The records of intents, each read again only after its index changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from zkdeployment.adapters.shared_calls import turn
from zkdeployment.adapters.zookeeper.feed.shared_read import late_read
from zkdeployment.adapters.zookeeper.publication.intents import read_record, read_records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord

    Summaries = Mapping[IntentSubject, IntentRecord]

#: How many whole records are kept.
_KEPT = 64

#: Seconds that a client waits for the read of another client.
_PATIENCE = 5.0


class IntentRecords:
    """The records that clients asked for.

    ``summaries`` are the intents of a reading of the fleet: the same objects for as long as their indexes have not
    changed. Any thread may call the methods.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: tuple[Summaries, tuple[IntentRecord, ...]] | None = None
        self._whole: OrderedDict[IntentSubject, tuple[IntentRecord, IntentRecord | None]] = OrderedDict()

    def all(self, session: Session, summaries: Summaries) -> tuple[IntentRecord, ...]:
        """Return all records, sorted by subject; of former instances only what lists of them show."""
        with turn(self._lock, _PATIENCE, late_read):
            if self._all is None or self._all[0] is not summaries:
                self._all = summaries, read_records(session) if summaries else ()
            return self._all[1]

    def one(self, session: Session, summaries: Summaries, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent; ``None`` if it does not exist."""
        summary = summaries.get(subject)
        if summary is None:
            return None
        with turn(self._lock, _PATIENCE, late_read):
            kept = self._whole.get(subject)
            if kept is None or kept[0] is not summary:
                kept = self._whole[subject] = summary, read_record(session, subject)
            self._whole.move_to_end(subject)
            while len(self._whole) > _KEPT:
                self._whole.popitem(last=False)
            return kept[1]
