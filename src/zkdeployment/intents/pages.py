"""``/intents`` and ``/intents/SUBJECT``: lists, single intents, and the forms of acts on them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import NotFoundError, RefusedError, SourceError, TreeError
from zkdeployment.base.source_files import SourceFile
from zkdeployment.fleet.views.requests import Job
from zkdeployment.intents import requests
from zkdeployment.intents.documents.values import Intent, IntentState, IntentSubject, parse_subject, subject_text
from zkdeployment.intents.feed import record_of, records_of
from zkdeployment.intents.requests import approvals_are_signed, counted_approvals, intent_resources, read_reports
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.edits import find_intent, with_state
from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
from zkdeployment.intents.rules.life_cycle import IntentAct
from zkdeployment.intents.rules.overview import compare_before_approval
from zkdeployment.intents.rules.reality import FleetReports, ReportedHosts
from zkdeployment.intents.views.acts import (
    FORM_ACTS,
    adoption_form,
    intent_form,
    intent_paths,
    intent_rollback_form,
    left_services_view,
    offered_acts,
    requested_adoption,
    service_release_form,
)
from zkdeployment.intents.views.listing import IntentListQuery, intent_page_of, intents_view
from zkdeployment.intents.views.matrix import MatrixQuery
from zkdeployment.intents.views.page import (
    act_progress,
    content_details,
    intent_view,
    service_details,
    shown_instance,
    with_approved_content,
)
from zkdeployment.publishing.acts.commits import FileChanges
from zkdeployment.publishing.left_service import LeftService
from zkdeployment.publishing.rules.review import review
from zkdeployment.service import acts
from zkdeployment.service.access.rights import Reader
from zkdeployment.service.acts import require_commits
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.pages.act_forms import PreparedAct
from zkdeployment.service.pages.live_page import Known, last_known, read_or, show_page, view_address
from zkdeployment.service.planner import RevisionPlanner
from zkdeployment.service.users.user import ActKind, Right, User
from zkdeployment.service.views.acts import ActForm
from zkdeployment.service.views.plan import PlanView, plan_view, refused_plan

_NO_INSTANCE = "There is no such instance: expected one that the page of the intent lists."
_APPROVED = "The content at the tip of the branch is approved already."


@dataclass(frozen=True, slots=True)
class PreparedIntentActs:
    """Prepares the acts on intents; ``values`` are the fields of a form."""

    adapters: ServerAdapters
    planner: RevisionPlanner
    values: Mapping[str, str]

    @property
    def by_name(self) -> Mapping[str, Callable[[], PreparedAct]]:
        """The functions that prepare the acts, by the names of their forms."""
        acts = {name: lambda act=act: self._act(act) for name, act in FORM_ACTS.items()}
        return {
            **acts,
            "intent-adopt": self._adopt,
            "intent-release": self._release,
            "intent-rollback": self._roll_back,
        }

    def _act(self, act: IntentAct) -> PreparedAct:
        adapters = self.adapters
        subject = tuple(self.values.get("subject", "").split("/"))
        record = requests.find_record(adapters, subject)
        form = intent_form(record, act, signed=requests.approvals_are_signed(adapters))

        def perform(user: User, reason: str) -> object:
            content = self.values.get("content") or None
            return requests.act_on_intent(adapters, user, subject, act, reason, content=content)

        def preview(user: User) -> ActForm:
            is_approval = act is IntentAct.APPROVE
            if is_approval:
                tip = self.planner.intent_overview(adapters, subject).snapshot
                if tip.is_approved and tip.state is not IntentState.TERMINATED:
                    return replace(form, objection=_APPROVED)
            outcome = requests.preview_act(adapters, user, subject, act)
            if not is_approval:
                return replace(form, plan=self._plan(outcome.files))
            return self._with_content(form, record, subject, outcome.files)

        paths = intent_paths(record.intent)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _adopt(self) -> PreparedAct:
        adapters = self.adapters
        require_commits(adapters)
        subject = parse_subject(self.values.get("subject", "").strip())
        new = requested_adoption(subject, self.values)
        known = new or self._at_tip(subject)
        form = adoption_form(known, self.values)

        def perform(user: User, reason: str) -> object:
            content = self.values.get("content") or None
            return requests.adopt(adapters, user, subject, reason, intent=new, content=content)

        def preview(user: User) -> ActForm:
            outcome = requests.preview_adoption(adapters, user, subject, new)
            return self._with_content(form, None, subject, outcome.files)

        paths = intent_paths(known)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _release(self) -> PreparedAct:
        adapters, path = self.adapters, self.values.get("path", "")
        left = [one for one in adapters.feed.left() if one.path == path]
        if not left:
            raise NotFoundError(
                f"{path or 'no path'} is not among the services that left the governance of an intent"
            )
        form = service_release_form(left)

        def perform(user: User, reason: str) -> object:
            contents = self.values.get("contents", "").split()
            return requests.release(adapters, user, [path], reason, contents=contents)

        def preview(user: User) -> ActForm:
            outcome = requests.preview_release(adapters, user, [path])
            if not outcome.changed:
                return replace(form, objection="It is released already; the syncer has not published that yet.")
            tree = review(outcome.files).linted.tree
            contents = {one.target: service_content(path, one.target, tree) for one in left}
            digests = " ".join(dict.fromkeys(content.digest for content in contents.values()))
            return replace(
                form,
                fields=(*form.fields, ("contents", digests)),
                details=tuple(service_details(contents)),
                plan=self._plan(outcome.files),
            )

        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, (path,), shows_job=True, preview=preview)

    def _roll_back(self) -> PreparedAct:
        adapters = self.adapters
        subject, number = tuple(self.values.get("subject", "").split("/")), self.values.get("instance", "")
        record = requests.find_record(adapters, subject)
        instance = next((one.id for one in record.instances if str(one.id) == number), 0)
        form = intent_rollback_form(record, instance, signed=requests.approvals_are_signed(adapters))
        if not instance:
            form = replace(form, objection=_NO_INSTANCE)

        def perform(user: User, reason: str) -> object:
            return requests.roll_back(adapters, user, subject, instance, reason)

        def preview(user: User) -> ActForm:
            outcome = requests.preview_rollback(adapters, user, subject, instance)
            if not outcome.changed:
                return replace(form, objection=_APPROVED)
            return self._with_content(form, record, subject, outcome.files)

        paths = intent_paths(record.intent)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _at_tip(self, subject: IntentSubject) -> Intent:
        return self.planner.intent_overview(self.adapters, subject).intent

    def _with_content(
        self, form: ActForm, record: IntentRecord | None, subject: IntentSubject, files: Sequence[SourceFile]
    ) -> ActForm:
        """Return a form with the content that it approves, the changes in it, and the plan of hosts."""
        placed = find_intent(files, subject)
        instantiated = files
        if not placed.intent.state.is_active:
            changes = with_state(placed, IntentState.INSTANTIATED)
            instantiated = FileChanges(changes, "").apply(files)
        details = content_details(compare_before_approval(record, placed.snapshot))
        return replace(
            with_approved_content(form, placed.snapshot), details=tuple(details), plan=self._plan(instantiated)
        )

    def _plan(self, files: Sequence[SourceFile]) -> PlanView:
        try:
            predicted, checks = self.planner.plan_files(self.adapters, files, "the act")
        except TreeError as error:
            return refused_plan(str(error))
        return plan_view(predicted.forecast, predicted.warnings, predicted.packages, checks)


router = APIRouter(include_in_schema=False)

#: The kinds of events after which these pages are no longer current.
_EVENTS = "intent host publication"

_NO_LEFT: tuple[LeftService, ...] = ()
_NO_RECORDS: tuple[IntentRecord, ...] = ()
_NO_REPORTS = FleetReports(ReportedHosts(()))


@router.get("/intents")
def show_intents(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page that lists the intents."""
    records = last_known(request).read(Known.INTENTS, partial(records_of, adapters.feed), _NO_RECORDS)
    page = intent_page_of(records, IntentListQuery.of_parameters(_parameters(request)))
    newest = {record.intent.subject: record.instances[-1] for record in page.records if record.instances}
    reports = _reports(request, adapters, *newest.values())
    resources = intent_resources(request)
    counts = {subject: resources.counts(subject, instance, reports) for subject, instance in newest.items()}
    view = intents_view(records, page, counts, adapters.clock.now())
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
    instance = None if record is None else shown_instance(record, query)
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
        approvals=counted_approvals(adapters, record),
    )
    return show_page(request, adapters, user, "intent.html", events=_EVENTS, view=view, address=request.url.path)


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
        return read_or(lambda: acts.find_job(adapters, commit), None)
    except (RefusedError, SourceError):
        return None
