"""The page of one intent, and the details in forms of acts."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.requests import Job, JobState
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    FleetStop,
    IntentState,
    intent_paths,
    subject_text,
)
from zkdeployment.intents.rules.governance import idle_paths
from zkdeployment.intents.rules.instances import (
    EMPTY_CONTENT,
    InstanceEvent,
    IntentInstance,
    IntentRecord,
    IntentSnapshot,
    missing_approval,
)
from zkdeployment.intents.rules.listing import ContentComparison, content_difference
from zkdeployment.intents.views.matrix import (
    STATE_TONES,
    CellView,
    IntentMatrix,
    MatrixQuery,
    StatusCounts,
    cell_view,
    intent_matrix,
    status_counts,
)
from zkdeployment.service.act import ActDetail, ActForm
from zkdeployment.service.views.frame import ActLink, Moment, act_page, intent_page, moment, publication_page
from zkdeployment.service.views.hosts import count_text
from zkdeployment.service.views.service import PageCell, PagePart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zkdeployment.intents.rules.approvals import ApprovalCount
    from zkdeployment.intents.rules.content import IntentContent
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.intents.rules.resources import ResourceRow


#: The most lines of a content on a page.
_MOST_LINES = 2000


@dataclass(frozen=True)
class OfferedAct(ActLink):
    """A link to the form of an act, or the ``objection`` to the act."""

    objection: str = ""


def content_details(compared: ContentComparison) -> Iterator[ActDetail]:
    """Yield the changes since the last approval, and the whole content."""
    if compared.remark:
        yield ActDetail(f"The whole content, {compared.content.digest}", shown_lines(compared.content_lines()))
        return
    yield ActDetail("Changed since the last approval", shown_lines(compared.lines()) or ("nothing",))
    title = f"The whole content, {compared.content.digest}"
    yield ActDetail(title, shown_lines(compared.content_lines()), is_open=False)


def service_details(contents: Mapping[str | None, IntentContent]) -> Iterator[ActDetail]:
    """Yield the whole content of a left service for each target; ``None`` stands for all targets."""
    for target, content in contents.items():
        place = "" if target is None else f" for {target}"
        lines = content_difference(EMPTY_CONTENT, content)
        yield ActDetail(f"The whole content{place}, {content.digest}", shown_lines(lines))


def with_approved_content(form: ActForm, snapshot: IntentSnapshot) -> ActForm:
    """Return the form of an act that approves the content of a snapshot, and only this content."""
    content, apps = snapshot.content, count_text(len(snapshot.intent.apps), "app")
    nodes = count_text(len(content.nodes), "node")
    approved = f"The content below is approved in your name: {apps} with {nodes}, {content.digest}."
    fields = [field for field in form.fields if field[0] != "content"]
    return replace(
        form,
        consequences=(approved, *form.consequences),
        fields=(*fields, ("content", content.digest)),
    )


def shown_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines of a content for a page; a last line gives the number of further ones."""
    shown = tuple(islice(lines, _MOST_LINES + 1))
    if len(shown) <= _MOST_LINES:
        return shown
    return (*shown[:_MOST_LINES], "and more: 'zkdeployment intent diff' and GET …/diff show all")


_SENTENCES = {
    IntentState.CREATED: "It is not approved, so nothing of it is deployed.",
    IntentState.APPROVED: "It is approved. Nothing of it is deployed before it is instantiated.",
    IntentState.TERMINATED: "Nothing of it is wanted any more. It can be deployed again, as a new instance.",
}


_JOBS = {
    JobState.PENDING: "The syncer has not published it yet.",
    JobState.PROCESSED: "It is published.",
    JobState.FAILED: "The syncer refused it, or a later commit on top of it; nothing was published.",
}


@dataclass(frozen=True, slots=True)
class InstanceLine:
    """An instance in the list; ``counts`` are those of its final status, if it is recorded."""

    id: int
    href: str
    publication: str
    instantiated: Moment | None
    terminated: Moment | None
    by: str
    counts: StatusCounts | None
    shown: bool
    approved_by: str = ""
    rollback: str = ""


@dataclass(frozen=True, slots=True)
class InstanceEventLine:
    """An event of the shown instance: its kind, its revision, and the approver of the content."""

    event: str
    at: Moment | None
    publication: str
    revision: str
    by: str
    approved_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class ContentDifference:
    """The lines of the changes since the last approval that counts; ``unknown`` is why they are unknown."""

    lines: tuple[str, ...] = ()
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class ActProgress:
    """The progress of the act after which the page is shown."""

    state: str
    sentence: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApprovalLine:
    """The approvals for one rule, and when they expire, if they do."""

    sentence: str
    expires: Moment | None


@dataclass(frozen=True, slots=True)
class IntentView:
    """The page of an intent; ``matrix`` is ``None`` before its first instance."""

    subject: str
    name: str
    state: str
    tone: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    apps: tuple[tuple[str, tuple[str, ...]], ...]
    counts: StatusCounts
    acts: tuple[OfferedAct, ...]
    job: ActProgress | None
    approval: Approval | None
    approvals: tuple[ApprovalLine, ...]
    difference: ContentDifference | None
    matrix: IntentMatrix | None
    cell: CellView | None
    instances: tuple[InstanceLine, ...]
    shown: InstanceLine | None
    events: tuple[InstanceEventLine, ...] = ()


def intent_view(  # noqa: PLR0913  what the page of an intent is made of
    record: IntentRecord,
    query: MatrixQuery,
    rows: Sequence[ResourceRow],
    reports: FleetReports,
    acts: tuple[OfferedAct, ...],
    finals: Mapping[int, StatusCounts],
    *,
    now: float,
    job: Job | None = None,
    approvals: Sequence[ApprovalCount] = (),
) -> IntentView:
    """Return the page of an intent.

    ``rows`` are the resources of the instance that it shows, ``finals`` the final statuses of instances by id.
    ``job`` is the act after which the page is shown, ``approvals`` the counts of approvals for each rule.
    """
    intent, instance, counts = record.intent, record.instance(query.instance), status_counts(rows)
    is_newest = instance is not None and instance is record.instances[-1]
    newest = counts if is_newest else None
    lines = tuple(
        replace(
            _instance_line(each, finals, query, now, is_shown=each is instance),
            rollback=_rollback(record, each) if acts else "",
        )
        for each in reversed(record.instances)
    )
    return IntentView(
        subject=subject_text(intent.subject),
        name=intent.name,
        state=record.state.value,
        tone=_tone(record, newest),
        sentence=_sentence(record, newest),
        facts=tuple(_facts(record)),
        apps=tuple(sorted(intent.apps.items())),
        counts=counts,
        acts=acts,
        job=act_progress(job),
        approval=intent.approval,
        approvals=tuple(ApprovalLine(str(count), moment(count.expires, now)) for count in approvals),
        difference=_difference(record),
        matrix=None if instance is None else intent_matrix(rows, query),
        cell=None if instance is None else cell_view(rows, query, instance, reports),
        instances=lines,
        shown=next((line for line in lines if line.shown), None),
        events=() if instance is None else tuple(_event_line(event, now) for event in reversed(instance.events)),
    )


def _rollback(record: IntentRecord, instance: IntentInstance) -> str:
    """Return the form that restores the content of an instance; empty if its content has no approval."""
    is_approved = any(event.approved_by is not None for event in instance.events)
    if isinstance(record.intent, ClusterIntents) or not is_approved:
        return ""
    subject = subject_text(record.intent.subject)
    back = intent_page(record.intent.subject)
    return act_page("intent-rollback", back, subject=subject, instance=str(instance.id))


def _event_line(event: InstanceEvent, now: float) -> InstanceEventLine:
    return InstanceEventLine(
        event.kind.value,
        moment(event.time, now),
        publication_page(event.sequence),
        short(event.revision),
        event.by,
        _approver(event),
        event.reason,
    )


def _approver(event: InstanceEvent) -> str:
    if event.approved_by is None:
        return ""
    verified = ", verified" if event.is_verified else ""
    return f"{event.approved_by}{verified}: {event.approval_reason}".removesuffix(": ")


def act_progress(job: Job | None) -> ActProgress | None:
    """Return the outcome of the commit of an act; ``None`` without a commit."""
    if job is None:
        return None
    return ActProgress(
        job.state.value, f"Your act is commit {short(job.commit)}. {_JOBS[job.state]}", job.problems
    )


def _tone(record: IntentRecord, newest: StatusCounts | None) -> str:
    if newest is not None and newest.is_failing:
        return "bad"
    is_busy = record.state.is_active and newest is not None and newest.unfinished
    return "busy" if is_busy else STATE_TONES[record.state]


def _sentence(record: IntentRecord, newest: StatusCounts | None) -> str:
    """Return a sentence on the meaning of the state; ``newest`` are the newest instance's counts, if shown."""
    approval = record.intent.approval
    if newest is not None and newest.unfinished:
        verb = "is" if newest.unfinished == 1 else "are"
        return f"{count_text(newest.unfinished, 'resource')} {verb} not done yet, or failed."
    if record.state.is_active and newest is None:
        return "Its services are wanted, by a newer instance than this one."
    if record.state.is_active:
        return "Its services are wanted, and each resource of the newest instance is done."
    if record.state is IntentState.CREATED and approval is not None:
        reason = missing_approval(approval, record.content.digest)
        return f"{reason[0].upper()}{reason[1:]}. Nothing of it is deployed."
    if record.state is IntentState.CREATED and isinstance(record.intent, ClusterIntents):
        return "It is not applied, so nothing of it is deployed."
    return _SENTENCES[record.state]


def _facts(record: IntentRecord) -> Iterator[tuple[str, str]]:
    intent = record.intent
    if isinstance(intent, ClusterIntents):
        yield "Provider", intent.provider
        yield "Target", intent.name
    else:
        yield "Project", intent.project
        yield "Composite app", f"{intent.composite_app} {intent.version}"
        yield "Profile", intent.composite_profile
        yield "A failure stops", "the group" if intent.fleet_stop is FleetStop.GROUP else "the fleet"
        yield "Update", "in place, if approved" if intent.update.value == "approve" else "after its termination"
    yield "Content", record.content.digest
    if idle := idle_paths(intent, record.content.nodes):
        yield "Paths without a service", f"{', '.join(idle)}: nothing is governed there"


def _difference(record: IntentRecord) -> ContentDifference | None:
    """Return the changes since the last approval that counts; ``None`` without a change or an approval."""
    if record.intent.approval is None or record.snapshot.is_approved:
        return None
    if record.approved is None:
        return ContentDifference(unknown="The last content whose approval counts was never published.")
    lines = shown_lines(content_difference(record.approved, record.content))
    return ContentDifference(lines) if lines else None


def _instance_line(
    instance: IntentInstance, finals: Mapping[int, StatusCounts], query: MatrixQuery, now: float, *, is_shown: bool
) -> InstanceLine:
    other = replace(query, instance=instance.id, page=1, columns=1, cell=None, resources=1)
    return InstanceLine(
        id=instance.id,
        href=other.address,
        publication=publication_page(instance.id),
        instantiated=moment(instance.instantiated, now),
        terminated=moment(instance.terminated, now),
        by=instance.by,
        counts=finals.get(instance.id),
        shown=is_shown,
        approved_by=next((event.approved_by for event in instance.events if event.approved_by), ""),
    )


_PART_COLUMNS = ("Intent", "State", "Targets", "Approved by")


def service_part(records: Iterable[IntentRecord], path: str) -> tuple[PagePart, ...]:
    """Return the part with the intents that name a service or a node above it."""
    rows = tuple(
        _part_row(record)
        for record in records
        if any(f"{path}/".startswith(f"{above}/") for above in intent_paths(record.intent))
    )
    return (PagePart("service-intents", "Governed by intents", _PART_COLUMNS, rows),) if rows else ()


def _part_row(record: IntentRecord) -> tuple[PageCell, ...]:
    intent = record.intent
    return (
        PageCell(subject_text(intent.subject), href=intent_page(intent.subject)),
        PageCell(record.state.value, tone=STATE_TONES[record.state]),
        PageCell(intent.target or "all"),
        PageCell("-" if intent.approval is None else intent.approval.by),
    )
