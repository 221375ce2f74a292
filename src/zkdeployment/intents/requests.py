"""Reads of intents for the API, the pages and the acts, and the orders of users."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import NotFoundError
from zkdeployment.intents.acts.intents import intent_order
from zkdeployment.intents.documents.values import Intent, IntentSubject, intent_paths, subject_text
from zkdeployment.intents.feed import record_of, reports_of
from zkdeployment.intents.rules.overview import IntentOverview, find_overview, intent_overviews
from zkdeployment.intents.rules.resources import ResourceRow, instance_resources
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.intents.views.listing import ACT_ON_INTENT
from zkdeployment.intents.views.matrix import StatusCounts, status_counts
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import Request

    from zkdeployment.intents.acts.intents import IntentOrder
    from zkdeployment.intents.rules.approvals import ApprovalRule
    from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.rules.life_cycle import IntentSnapshot
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.service.act import Actor
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.planner import RevisionPlanner


def approvals_are_signed(adapters: ServerAdapters) -> bool:
    """Return whether approvals need a signature, which an approver makes at a terminal."""
    return adapters.commits is not None and adapters.commits.approvals is not None


def rules_in_force(adapters: ServerAdapters) -> Sequence[ApprovalRule] | None:
    """Return the rules of approvals, ``None`` without rules; raises ``ConfigurationError``."""
    verifier = None if adapters.commits is None else adapters.commits.approvals
    return None if verifier is None else verifier.rules_in_force()


def intent_overview(planner: RevisionPlanner, adapters: ServerAdapters, subject: IntentSubject) -> IntentOverview:
    """Return the published form of an intent and, if the service has a repository, the form at the tip.

    Raises ``NotFoundError`` if neither has it, and ``SourceError`` if the repository cannot be read.
    """
    record = record_of(adapters.feed, subject)
    tip: Mapping[IntentSubject, IntentSnapshot] = {}
    if adapters.commits is not None:
        with planner.place():
            reviewed = review(adapters.commits.at_tip()[1])
            tip = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    return find_overview(intent_overviews(() if record is None else (record,), tip), subject)


def find_record(adapters: ServerAdapters, subject: IntentSubject) -> IntentRecord:
    """Return the whole record of a published intent; raises ``NotFoundError`` if it does not exist."""
    record = record_of(adapters.feed, subject)
    if record is None:
        raise NotFoundError(f"there is no published intent {subject_text(subject)}")
    return record


def read_reports(adapters: ServerAdapters, *instances: IntentInstance) -> FleetReports:
    """Return the reports of hosts, and of the providers of the services of these instances."""
    paths = {service.assignment.path for instance in instances for service in instance.services}
    return reports_of(adapters.feed, paths)


def order_of(adapters: ServerAdapters, actor: Actor, subject: IntentSubject, reason: str) -> IntentOrder:
    """Return the order of a user's act on an intent."""

    def permit(intent: Intent) -> None:
        actor.require(ACT_ON_INTENT, *intent_paths(intent))

    operator, author = adapters.operator, adapters.require_commits().author(actor.name)
    deployed = operator.fleet.targets()
    order = intent_order(operator, subject, author, sanitize(reason), by=actor.name, permit=permit)
    return replace(order, deployed=deployed)


#: The limits of instances whose counts are kept, and of instances whose resources are kept, too.
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
    """The resources of the instances that clients requested last. Any thread may call the methods."""

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
        """Return the number of an instance's resources by status."""
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


def service_state() -> dict[str, IntentResources]:
    """Return the resources that the application keeps for its pages, by the name of the attribute."""
    return {"intent_resources": IntentResources()}


def intent_resources(request: Request) -> IntentResources:
    """Return the resources that the application of a request keeps."""
    found: IntentResources = request.app.state.intent_resources
    return found
