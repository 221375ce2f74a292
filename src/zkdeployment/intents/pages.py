"""``/intents`` and ``/intents/SUBJECT``: the list of intents, and single intents."""

import threading
from collections import OrderedDict
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import RefusedError, SourceError
from zkdeployment.base.publication import LeftService
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.requests import Job
from zkdeployment.intents.documents import IntentSubject, subject_text
from zkdeployment.intents.feed import INTENTS_PART, record_of, records_of, summaries_of
from zkdeployment.intents.rules.approvals import counted_approvals
from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
from zkdeployment.intents.rules.reality import FleetReports, ReportedHosts
from zkdeployment.intents.rules.resources import ResourceRow, instance_resources
from zkdeployment.intents.user_acts import approvals_are_signed, offered_acts, read_reports, rules_in_force
from zkdeployment.intents.views.matrix import (
    IntentListQuery,
    MatrixQuery,
    StatusCounts,
    intent_part,
    intents_view,
    left_services_view,
    status_counts,
)
from zkdeployment.intents.views.page import act_progress, intent_view, service_part
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.api.publications import find_job
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.pages.live_page import Known, last_known, read_or, show_page, view_address
from zkdeployment.service.pages.services import ServiceVisit
from zkdeployment.service.users.user import Right
from zkdeployment.service.views.frame import MainPage
from zkdeployment.service.views.service import PagePart

router = APIRouter(include_in_schema=False)

#: The kinds of events after which these pages are no longer current.
_EVENTS = "intent host publication"

_NO_LEFT: tuple[LeftService, ...] = ()
_NO_RECORDS: tuple[IntentRecord, ...] = ()
_NO_REPORTS = FleetReports(ReportedHosts(()))


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


@router.get("/intents")
def show_intents(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page that lists the intents."""
    records = last_known(request).read(Known.INTENTS, partial(records_of, adapters.feed), _NO_RECORDS)
    query = IntentListQuery.of_parameters(_parameters(request))
    part = intent_part(records, query)
    newest = {record.intent.subject: record.instances[-1] for record in part.rows if record.instances}
    reports = _reports(request, adapters, *newest.values())
    resources = intent_resources(request)
    counts = {subject: resources.counts(subject, instance, reports) for subject, instance in newest.items()}
    view = intents_view(records, query, part, counts, adapters.clock.now())
    left = last_known(request).read(Known.LEFT, adapters.feed.left, _NO_LEFT)
    may_act = user.may(Right.ACT_ON_FLEET) and adapters.commits is not None
    return show_page(
        request,
        adapters,
        user,
        "intents.html",
        events=_EVENTS,
        view=view,
        left=left_services_view(left, user if may_act else None),
        may_act=may_act,
        job=act_progress(_job(adapters, request.query_params.get("job", ""))),
    )


@router.get("/intents/{names:path}")
def show_intent(request: Request, adapters: Adapters, user: Reader, names: str) -> Response:
    """Return the page of a group or of a cluster."""
    subject = tuple(names.split("/"))
    record = _record(request, adapters, subject)
    query = MatrixQuery.of_parameters(subject, _parameters(request))
    instance = None if record is None else record.instance(query.instance)
    if record is None or (query.instance is not None and instance is None):
        what = f"intent {subject_text(subject)}" if record is None else f"instance {query.instance} of it"
        raise HTTPException(404, f"there is no published {what}")
    reports = _NO_REPORTS if instance is None else _reports(request, adapters, instance)
    resources = intent_resources(request)
    may_act = user.may(Right.ACT_ON_FLEET) and adapters.commits is not None
    signed = approvals_are_signed(adapters)
    view = intent_view(
        record,
        query,
        () if instance is None else resources.rows(subject, instance, reports),
        reports,
        offered_acts(record, user, view_address(request), signed=signed) if may_act else (),
        resources.final_counts(record, reports),
        now=adapters.clock.now(),
        job=_job(adapters, request.query_params.get("job", "")),
        approvals=counted_approvals(record.snapshot, rules_in_force(adapters)),
    )
    return show_page(request, adapters, user, "intent.html", events=_EVENTS, view=view, path=request.url.path)


def _parameters(request: Request) -> dict[str, list[str]]:
    return {name: request.query_params.getlist(name) for name in request.query_params}


def _record(request: Request, adapters: ServerAdapters, subject: IntentSubject) -> IntentRecord | None:
    """Return the record of an intent; while ZooKeeper is away, the last known one without former instances."""
    records = last_known(request).read(Known.INTENTS, partial(records_of, adapters.feed), _NO_RECORDS)
    known = next((record for record in records if record.intent.subject == subject), None)
    return read_or(lambda: record_of(adapters.feed, subject), known)


def _reports(request: Request, adapters: ServerAdapters, *instances: IntentInstance) -> FleetReports:
    return last_known(request).read(Known.REPORTS, lambda: read_reports(adapters, *instances), _NO_REPORTS)


def _job(adapters: ServerAdapters, commit: str) -> Job | None:
    """Return the outcome of the act after which this page is shown; ``None`` if it is not known."""
    if not commit:
        return None
    try:
        return read_or(lambda: find_job(adapters, commit), None)
    except (RefusedError, SourceError):
        return None


def service_page(visit: ServiceVisit) -> tuple[PagePart, ...]:
    """Return the part with the intents that govern a service."""
    return service_part(summaries_of(visit.adapters.feed).values(), visit.path)


ROUTERS = (router,)
MAIN_PAGES = (MainPage("Intents", "/intents", "i", 20, is_used=lambda reading: reading.has(INTENTS_PART)),)
