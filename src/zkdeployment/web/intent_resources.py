"""The resources of instances: computed once for all clients, until the instance or the fleet changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.intents.resources import instance_resources
from zkdeployment.web.views.intents.signs import StatusCounts, status_counts

if TYPE_CHECKING:
    from fastapi import Request

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.intents.resources import ResourceRow

#: How many instances' counts are kept, and of how many the resources, too.
_KEPT = 2000
_KEPT_WHOLE = 8


@dataclass(slots=True)
class _Kept:
    """The outcome for an instance; ``rows`` are dropped before the counts are."""

    instance: IntentInstance
    reports: FleetReports
    counts: StatusCounts
    rows: tuple[ResourceRow, ...] | None


class IntentResources:
    """The resources of the instances that clients asked for last. Any thread may call the methods."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[IntentSubject, int], _Kept] = OrderedDict()

    def rows(
        self, subject: IntentSubject, instance: IntentInstance, reports: FleetReports
    ) -> tuple[ResourceRow, ...]:
        """Return the resources of an instance of a subject."""
        with self._lock:
            kept = self._current(subject, instance, reports)
            if kept is None or kept.rows is None:
                kept = self._keep(subject, instance, reports)
            return kept.rows or ()

    def counts(self, subject: IntentSubject, instance: IntentInstance, reports: FleetReports) -> StatusCounts:
        """Return how many resources of an instance have each status."""
        with self._lock:
            kept = self._current(subject, instance, reports) or self._keep(subject, instance, reports)
            return kept.counts

    def final_counts(self, record: IntentRecord, reports: FleetReports) -> dict[int, StatusCounts]:
        """Return the counts of all instances of a record whose final status is recorded, by the instance's id."""
        return {
            instance.id: self.counts(record.intent.subject, instance, reports)
            for instance in record.instances
            if instance.final is not None
        }

    def _current(self, subject: IntentSubject, instance: IntentInstance, reports: FleetReports) -> _Kept | None:
        kept = self._kept.get((subject, instance.id))
        if kept is None or (kept.instance is not instance and kept.instance != instance):
            return None
        # A final status does not depend on the fleet.
        return kept if kept.reports is reports or instance.final is not None else None

    def _keep(self, subject: IntentSubject, instance: IntentInstance, reports: FleetReports) -> _Kept:
        rows = instance_resources(instance, reports)
        kept = _Kept(instance, reports, status_counts(rows), rows)
        self._kept.pop((subject, instance.id), None)
        self._kept[subject, instance.id] = kept
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        if len(self._kept) > _KEPT_WHOLE:
            list(self._kept.values())[-_KEPT_WHOLE - 1].rows = None
        return kept


def intent_resources(request: Request) -> IntentResources:
    """Return the resources that the application of a request keeps."""
    found: IntentResources = request.app.state.intent_resources
    return found
