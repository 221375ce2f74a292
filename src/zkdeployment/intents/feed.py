"""The intents in the readings of the fleet, their events, and their records as clients ask for them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from zkdeployment.base.machine.calls import turn
from zkdeployment.fleet.events.event import EventKind, FleetEvent
from zkdeployment.fleet.feed.fleet_assembly import FeedPart, FleetReading
from zkdeployment.intents.documents import IntentSubject, subject_text
from zkdeployment.intents.rules.reality import FleetReports, fleet_reports
from zkdeployment.intents.store import INTENTS, read_record, read_records, summary_of
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import DecodedNodes, FollowedNodes, late_read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.fleet.feed.feed import ZooKeeperFeed
    from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
    from zkdeployment.zookeeper.session import Session

    Summaries = Mapping[IntentSubject, IntentRecord]


class _IntentAssembly:
    """The indexes of intents, as followed nodes describe them."""

    def __init__(self, nodes: FollowedNodes) -> None:
        self._nodes = nodes
        self._decoded = DecodedNodes(nodes)
        self._summaries: Summaries = {}

    def wanted(self) -> Iterator[Read]:
        """Yield the indexes of all intents."""
        yield Read(INTENTS, children=True)
        yield from (Read(f"{INTENTS}/{name}") for name in self._nodes.children(INTENTS))

    def reading(self) -> Summaries:
        """Return the content of the indexes: the same mapping if none of them has changed."""
        found = (
            self._decoded.value(f"{INTENTS}/{name}", name, summary_of) for name in self._nodes.children(INTENTS)
        )
        records = [record for record in found if record is not None]
        known = self._summaries.values()
        if len(records) != len(known) or any(new is not old for new, old in zip(records, known, strict=True)):
            self._summaries = {record.intent.subject: record for record in records}
        self._decoded.forget()
        return self._summaries


def _events(before: Summaries, after: Summaries) -> Iterator[FleetEvent]:
    """Yield an event for each intent that changed; ``begun`` and ``ended`` concern its newest instance."""
    if before is after:
        return
    for subject in sorted(before.keys() | after.keys()):
        old, new = before.get(subject), after.get(subject)
        if _compared(old) == _compared(new):
            continue
        former, last = _newest(old), _newest(new)
        is_new = last is not None and (former is None or former.id != last.id)
        was_active = is_new or (former is not None and former.terminated is None)
        yield FleetEvent(
            EventKind.INTENT,
            subject_text(subject),
            {
                "state": None if new is None else new.state.value,
                "former": None if old is None else old.state.value,
                "instance": None if last is None else last.id,
                "begun": is_new,
                "ended": last is not None and last.terminated is not None and was_active,
            },
        )


def _compared(record: IntentRecord | None) -> object:
    return None if record is None else (record.state, record.intent, _newest(record))


def _newest(record: IntentRecord | None) -> IntentInstance | None:
    return record.instances[-1] if record is not None and record.instances else None


#: What publications recorded of each intent.
INTENTS_PART: FeedPart[Summaries] = FeedPart("intents", {}, _IntentAssembly, _events)

FEED_PARTS = (INTENTS_PART,)

#: The number of whole records that are kept.
_KEPT = 64

#: Seconds that a client waits for the read of another client.
_PATIENCE = 5.0


class _IntentRecords:
    """The records that clients asked for.

    ``summaries`` are the intents of a reading of the fleet: the same objects for as long as their indexes have not
    changed. Any thread may call the methods.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._all: tuple[Summaries, tuple[IntentRecord, ...]] | None = None
        self._whole: OrderedDict[IntentSubject, tuple[IntentRecord, IntentRecord | None]] = OrderedDict()

    def all(self, summaries: Summaries) -> tuple[IntentRecord, ...]:
        """Return all records, sorted by subject; of former instances only the values that lists show."""
        with turn(self._lock, _PATIENCE, late_read):
            if self._all is None or self._all[0] is not summaries:
                self._all = summaries, read_records(self._session) if summaries else ()
            return self._all[1]

    def one(self, summaries: Summaries, subject: IntentSubject) -> IntentRecord | None:
        """Return the whole record of an intent; ``None`` if it does not exist."""
        summary = summaries.get(subject)
        if summary is None:
            return None
        with turn(self._lock, _PATIENCE, late_read):
            kept = self._whole.get(subject)
            if kept is None or kept[0] is not summary:
                kept = self._whole[subject] = summary, read_record(self._session, subject)
            self._whole.move_to_end(subject)
            while len(self._whole) > _KEPT:
                self._whole.popitem(last=False)
            return kept[1]


def summaries_of(feed: ZooKeeperFeed) -> Summaries:
    """Return the data of each intent in the last reading of the fleet; never waits."""
    return feed.snapshot().reading.of(INTENTS_PART)


def records_of(feed: ZooKeeperFeed) -> tuple[IntentRecord, ...]:
    """Return the records of all intents, as ``ZooKeeperIntents.records`` does."""
    return feed.of_session(_IntentRecords).all(summaries_of(feed))


def record_of(feed: ZooKeeperFeed, subject: IntentSubject) -> IntentRecord | None:
    """Return the whole record of an intent; ``None`` if none was published."""
    return feed.of_session(_IntentRecords).one(summaries_of(feed), subject)


def reports_of(feed: ZooKeeperFeed, services: Collection[str]) -> FleetReports:
    """Return the reports of all known hosts and of the providers of these services, without clusters.

    Inventories are read once, and again only after they changed.
    """
    wanted = tuple(sorted(services))
    return feed.read(("reports", wanted), lambda _session: _current_reports(feed, wanted))


def _current_reports(feed: ZooKeeperFeed, services: Collection[str]) -> FleetReports:
    fleet = feed.snapshot().fleet
    ids = {host.identity.id for host in fleet.hosts} | {host.identity.id for host in fleet.absent}
    known = feed.known_hosts(ids)
    return fleet_reports(fleet.hosts, known, feed.results(), feed.providers(services), fleet.maintenance)


def governing_records(reading: FleetReading) -> Iterable[IntentRecord]:
    """Return the published intents in a reading of the fleet."""
    return reading.of(INTENTS_PART).values()
