"""The pages of the fleet: hosts, locks, services, plan, commits, history with its timelines, and audit."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Revision
from zkdeployment.base.errors import (
    BusyError,
    NotFoundError,
    RefusedError,
    SourceError,
    TreeError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.text import printable
from zkdeployment.fleet.explanations.host import HostSnapshot, explain_host
from zkdeployment.fleet.feed.fleet_assembly import CachedFleet
from zkdeployment.fleet.traces.spans import Trace, is_publication_over, publication_trace
from zkdeployment.fleet.views.history import FailedLogin, acts_during, audit_records
from zkdeployment.fleet.views.requests import Job, job_of
from zkdeployment.fleet.views.status import HostState, HostStatus
from zkdeployment.publishing.records import (
    BranchSummary,
    CommitSummary,
    PublicationRecord,
    PublicationSummary,
    Refusal,
)
from zkdeployment.publishing.store.history import SUMMARIES
from zkdeployment.service.access import cookies
from zkdeployment.service.access.identity import PoolReader, Reader, require
from zkdeployment.service.acts import (
    PublishFleet,
    RollBackFleet,
    act_link,
    decision_acts,
    fleet_acts,
)
from zkdeployment.service.api.publications import find_job
from zkdeployment.service.dependencies import (
    Adapters,
    ConnectedAdapters,
    ServerAdapters,
    check_connection,
    read_host_snapshot,
)
from zkdeployment.service.host_acts import host_acts
from zkdeployment.service.pages.live_page import (
    FLEET_EVENTS,
    RECENT,
    Known,
    changed_hosts,
    failure_acts,
    is_fragment,
    last_known,
    main_pages,
    read_or,
    read_withheld,
    render,
    rollback_act,
    show_page,
    view_address,
)
from zkdeployment.service.pages.services import read_targets
from zkdeployment.service.planner import planner_of
from zkdeployment.service.users.user import Right, User
from zkdeployment.service.views.commits import CommitFacts, commit_view, waiting_commits
from zkdeployment.service.views.fleet import FrontPageData, fleet_view, unpublished_commits
from zkdeployment.service.views.frame import (
    ActLink,
    commit_page,
    host_page,
    local_path,
    page_frame,
    publication_page,
)
from zkdeployment.service.views.history import (
    PAGE_SIZE,
    TreeDifference,
    history_view,
    previous_publication,
    publication_view,
)
from zkdeployment.service.views.host_map import Arrangement, MapOrder, arrange, map_mark
from zkdeployment.service.views.hosts import (
    AdviceLine,
    HostQuery,
    LiveView,
    advice_lines,
    find,
    host_view,
    live_view,
)
from zkdeployment.service.views.locks import lock_rows
from zkdeployment.service.views.plan import (
    PlanSuggestion,
    compare_with_past,
    plan_suggestions,
    plan_view,
    refused_plan,
)
from zkdeployment.service.views.services import find_services, withheld_of_host
from zkdeployment.service.views.timeline import TimelineSection, timeline_view
from zkdeployment.strategies.state import RolloutState

router = APIRouter(include_in_schema=False)


@router.get("/")
def show_fleet(request: Request, adapters: Adapters, user: PoolReader) -> Response:
    """Return the page of the fleet, or the parts of it that changed; tenants may see only the pools."""
    if not user.may(Right.READ_FLEET):
        return RedirectResponse("/pools", 303)
    feed, now = adapters.feed, adapters.clock.now()
    cached, known = feed.snapshot(), last_known(request)
    data = FrontPageData(
        snapshot=cached.fleet,
        status=cached.status,
        locks=known.read(Known.LOCKS, feed.locks, ()),
        syncer=cached.reading.syncer,
        stale=not cached.connected,
    )
    asked = _host_query(request)
    arrangement = _arrangement(request, adapters, cached, asked)
    query = arrangement.admitted(asked)
    changed = changed_hosts(request, map_mark(arrangement, query))
    view = fleet_view(data, query, arrangement, now=now, changed=changed)
    back = view_address(request)
    decisions = decision_acts(cached.status, back, user)
    acts = (*failure_acts(request, adapters, user, cached), *decisions, *fleet_acts(cached.fleet, back, user))
    commits = unpublished_commits(cached.fleet, data.syncer)
    may_publish = commits and cached.connected and user.may_act(PublishFleet.RIGHT)
    response = show_page(
        request,
        adapters,
        user,
        "fleet.html",
        events=FLEET_EVENTS,
        cached=cached,
        view=view,
        acts=acts if cached.connected else (),
        whole_map=changed is None,
        waiting=waiting_commits(commits, cached.fleet),
        publish=PublishFleet.link("Publish now", "", back, commit=commits[0].id) if may_publish else None,
    )
    if "map" in request.query_params:
        cookies.keep_map(request, response, MapOrder.of(asked).value)
    return response


def _host_query(request: Request) -> HostQuery:
    """Return the view that the address describes, on the map that the browser showed last."""
    parameters = request.query_params
    kept = cookies.kept_map(request)
    values = {"map": [kept], **{name: parameters.getlist(name) for name in parameters}}
    return HostQuery.of_parameters(values)


def _arrangement(request: Request, adapters: ServerAdapters, cached: CachedFleet, query: HostQuery) -> Arrangement:
    def services() -> dict[str, Collection[str]]:
        found = find_services(cached.fleet, read_targets(request, adapters))
        return {path: service.assignments.keys() for path, service in found.items()}

    return arrange(cached.status.hosts, query, cached.fleet, services)


@router.get("/frame")
def show_frame(
    request: Request, adapters: Adapters, user: PoolReader, page: Annotated[str, Query(max_length=2000)] = "/"
) -> Response:
    """Return the parts of the frame of a page that show the state of the fleet; redirect a person to the page."""
    if not is_fragment(request):
        return RedirectResponse(local_path(page), 303)
    return show_page(request, adapters, user, "frame.html", address=local_path(page))


@router.get("/find")
def show_found(
    request: Request, adapters: Adapters, user: Reader, text: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """Return the page with the hosts, services, commits, publications, pages and acts that a text finds."""
    cached, last = adapters.feed.snapshot(), last_known(request)
    groups = find(
        text,
        cached.status,
        read_targets(request, adapters),
        last.read(Known.HISTORY, lambda: adapters.feed.history(RECENT), ()),
        page_frame("/find", user, now=adapters.clock.now(), main_pages=main_pages()).tabs,
        fleet_acts(cached.fleet, "/", user) if cached.connected else (),
        waiting=unpublished_commits(cached.fleet, cached.reading.syncer),
    )
    return show_page(request, adapters, user, "find.html", cached=cached, text=text.strip(), groups=groups)


@router.get("/map/{place}", dependencies=[Depends(require(Right.READ_FLEET))])
def show_place(request: Request, adapters: Adapters, place: Annotated[int, Path(ge=0)]) -> Response:
    """Redirect to the page of the host at a place of the map; answer a page's refresh with a line of text."""
    cached = adapters.feed.snapshot()
    host = _arrangement(request, adapters, cached, _host_query(request)).host_at(place)
    if host is None:
        raise HTTPException(404, f"the map has no host at the place {place}")
    if not is_fragment(request):
        return RedirectResponse(host_page(host.id), 303)
    detail = host.error or host.step or ""
    return PlainTextResponse(printable(f"{host.name}: {host.state.value}{f': {detail}' if detail else ''}"))


def _status_of(cached: CachedFleet, host: str) -> HostStatus:
    """Return the status of the host with this id or name."""
    identity = cached.fleet.find_identity(host)
    status = next((each for each in cached.status.hosts if identity is not None and each.id == identity.id), None)
    if status is None:
        raise HTTPException(404, f"no host with the id or name {host} is known")
    return status


def _live_view(adapters: ServerAdapters, status: HostStatus) -> LiveView | None:
    """Return the output of the script that a host runs now, for which the host is asked."""
    is_deploying = status.state is HostState.DEPLOYING
    output = read_or(lambda: adapters.feed.live_output(status.id), None) if is_deploying else None
    return live_view(status, output, adapters.clock.now())


#: The pages to which advice refers, with the texts of the links; the page of a host follows from its name.
_PAGES = {"fleet": ActLink("All hosts", "/"), "rollout": ActLink("The rollout", "/rollout")}


def _advice_lines(
    adapters: ServerAdapters,
    cached: CachedFleet,
    user: User,
    host: str,
    advice: Sequence[str],
    records: Sequence[PublicationRecord],
) -> tuple[AdviceLine, ...]:
    """Return the advice of an explanation with links to pages, and to the acts that the user may perform now."""
    back = host_page(host)

    def link_of(target: str, values: Mapping[str, str]) -> ActLink | None:
        if target in _PAGES:
            return _PAGES[target]
        if target == "host":
            return ActLink(f"Host {values['host']}", host_page(values["host"]))
        if not cached.connected:
            return None
        if target == RollBackFleet.NAME:
            return next(iter(rollback_act(adapters, user, cached, back, lambda: records)), None)
        return act_link(target, back, user, **values)

    return advice_lines(advice, link_of)


@router.get("/hosts/{host}/output")
def show_output(request: Request, adapters: Adapters, user: Reader, host: str) -> Response:
    """Return the part of a host's page with the output of the script that the host runs now."""
    cached = adapters.feed.snapshot()
    status = _status_of(cached, host)
    if not is_fragment(request):
        return RedirectResponse(host_page(status.id), 303)
    live = _live_view(adapters, status)
    return show_page(request, adapters, user, "live_output.html", cached=cached, live=live)


@router.get("/hosts/{host}")
def show_host(request: Request, adapters: Adapters, user: Reader, host: str) -> Response:
    """Return the page of the host with this id or name."""
    feed, now = adapters.feed, adapters.clock.now()
    cached, last = feed.snapshot(), last_known(request)
    status = _status_of(cached, host)
    locks = last.read(Known.LOCKS, feed.locks, ())
    snapshot = read_or(
        lambda: read_host_snapshot(adapters, cached.fleet, locks, status.id, now),
        HostSnapshot(cached.fleet, locks),
    )
    identity = next(each for each in cached.fleet.identities if each.id == status.id)
    withheld = withheld_of_host(read_withheld(request, adapters), identity)
    # The section of withheld services lists those with a known reason, with links; the explanation names the rest.
    listed = {(each.path, each.target) for each in withheld.services}
    explanation = explain_host(replace(snapshot, withheld={*snapshot.withheld} - listed), status.id, now=now)
    records = last.read(Known.HISTORY, lambda: feed.history(RECENT), ())
    view = host_view(
        status,
        explanation,
        cached.fleet,
        snapshot.known,
        last.read(Known.TARGETS, feed.targets, {}),
        records,
        now=now,
    )
    return show_page(
        request,
        adapters,
        user,
        "host.html",
        events=FLEET_EVENTS,
        cached=cached,
        view=view,
        advice=_advice_lines(adapters, cached, user, status.id, explanation.advice, records),
        acts=host_acts(cached.fleet, status.id, host_page(status.id), user) if cached.connected else (),
        live=_live_view(adapters, status),
        withheld=withheld,
    )


@router.get("/locks")
def show_locks(request: Request, adapters: Adapters, user: Reader) -> Response:
    """Return the page of the locks."""
    cached = adapters.feed.snapshot()
    may_act = cached.connected and user.may(Right.ACT_ON_FLEET)
    rows = lock_rows(
        last_known(request).read(Known.LOCKS, adapters.feed.locks, ()),
        cached.fleet,
        now=adapters.clock.now(),
        user=user if may_act else None,
    )
    return show_page(
        request, adapters, user, "locks.html", events=FLEET_EVENTS, cached=cached, rows=rows, may_act=may_act
    )


#: The longest name of a branch that is read.
_MOST_CHARACTERS = 1000


@router.get("/plan")
def show_plan(
    request: Request,
    adapters: ConnectedAdapters,
    user: Reader,
    revision: Annotated[str, Query(max_length=_MOST_CHARACTERS)] = "",
) -> Response:
    """Return the page with the plan of a branch or a commit, or with the form that asks for one."""
    revision, view, mistake, missing, status = revision.strip(), None, "", "", 200
    comparison, unread = None, ""
    suggestions: Sequence[PlanSuggestion] = ()
    cached, recent = adapters.feed.snapshot(), read_or(adapters.feed.summaries, ())
    if adapters.read_revision is None:
        missing = "The service reads no repository yet: set url and tree-directory in [sync] to see plans here."
    elif revision:
        try:
            found = planner_of(request).plan(adapters, revision)
            view = plan_view(found.forecast, found.warnings, found.packages, found.additions, recent)
            comparison = compare_with_past(str(found.forecast.revision), recent, governed=found.forecast.governed)
        except TreeError as error:
            view = refused_plan(str(error))
        except SourceError as error:
            mistake, status = str(error), 404
    if not revision:
        waiting = unpublished_commits(cached.fleet, cached.reading.syncer)
        branches, unread = _branches(adapters, cached.fleet.published)
        suggestions = plan_suggestions(waiting, branches, cached.fleet, adapters.clock.now())
    return show_page(
        request,
        adapters,
        user,
        "plan.html",
        status=status,
        cached=cached,
        revision=revision,
        view=view,
        mistake=mistake,
        missing=missing,
        suggestions=suggestions,
        unread=unread,
        comparison=comparison,
    )


def _branches(adapters: ServerAdapters, past: Revision | None) -> tuple[Sequence[BranchSummary], str]:
    """Return the branches that are not part of ``past``, or the reason for which they are not known now."""
    if adapters.commits is None:
        return (), ""
    try:
        return adapters.commits.branches(past), ""
    except SourceError as error:
        return (), str(error)


PageNumber = Annotated[int, Query(ge=1, le=1000)]


@router.get("/history")
def show_history(
    request: Request,
    adapters: Adapters,
    user: Reader,
    page: PageNumber = 1,
    day: Annotated[str, Query(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = "",
) -> Response:
    """Return the page of the publications, newest first, with pictures of them; ``day`` selects one day."""
    recent = last_known(request).read(Known.SUMMARIES, adapters.feed.summaries, ())
    wanted, listed = page * PAGE_SIZE + 1, recent
    if wanted > SUMMARIES and not day:
        listed = read_or(lambda: tuple(map(PublicationSummary.of, adapters.feed.history(wanted))), recent)
    refusals = last_known(request).read(Known.REFUSALS, adapters.feed.refusals, ())
    view = history_view(listed, recent, page, adapters.clock.now(), day, refusals)
    return show_page(request, adapters, user, "history.html", events="publication host", view=view)


@router.get("/history/{sequence}")
def show_publication(
    request: Request,
    adapters: Adapters,
    user: Reader,
    sequence: Annotated[int, Path(ge=0, lt=2**53)],
    page: PageNumber = 1,
    changes: str = "",
) -> Response:
    """Return the page of one publication; with ``changes``, the page shows the changes of the tree."""
    feed = adapters.feed

    def read() -> tuple[tuple[PublicationRecord, ...], tuple[Act, ...], tuple[RolloutState, ...]]:
        return feed.publication(sequence), feed.acts(), feed.rollouts(sequence)

    records, acts, rollouts = last_known(request).read_of(Known.PUBLICATION, sequence, read)
    if not records:
        raise HTTPException(404, f"the history has no publication {sequence}")
    before = previous_publication(read_or(feed.summaries, ()), sequence)
    difference = None
    if changes and before is not None and not is_fragment(request):  # a refresh does not contain them
        difference = _difference(request, adapters, before.revision, records[-1].revision)
    view = publication_view(
        records,
        records[-1],
        acts,
        rollouts,
        difference,
        read_or(lambda: tuple(feed.snapshot().fleet.reboots.values()), ()),
        page=page,
        now=adapters.clock.now(),
        may_roll_back=adapters.commits is not None
        and user.may_act(RollBackFleet.RIGHT)
        and isinstance(records[-1].revision, str),
        may_compare=adapters.read_revision is not None and before is not None,
    )
    return show_page(request, adapters, user, "publication.html", events="publication host", view=view)


def _difference(request: Request, adapters: ServerAdapters, before: Revision, after: Revision) -> TreeDifference:
    try:
        return TreeDifference(planner_of(request).changes(adapters, before, after))
    except (SourceError, BusyError) as error:
        return TreeDifference(unknown=str(error))


#: The most records of each kind on the page of the audit.
_MOST_RECORDS = 100


@router.get("/audit")
def show_audit(
    request: Request,
    adapters: Adapters,
    user: Annotated[User, Depends(require(Right.READ_AUDIT))],
    who: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Return the page of acts and failed logins; ``who`` limits them to a user, an operator or an address."""
    who = who.strip()
    last = last_known(request)
    acts = last.read(Known.ACTS, adapters.feed.acts, ())
    failed = last.read(Known.FAILED_LOGINS, partial(_failed_logins, adapters), ())
    records = audit_records(acts, failed, who=who, limit=_MOST_RECORDS)
    return show_page(request, adapters, user, "audit.html", records=records, who=who)


def _failed_logins(adapters: ServerAdapters) -> tuple[FailedLogin, ...]:
    check_connection(adapters)
    return adapters.logins.failed_logins()


@router.get("/commits/{commit}")
def show_commit(
    request: Request,
    adapters: Adapters,
    user: Reader,
    commit: Annotated[str, Path(pattern="^[0-9a-f]{4,64}$|^[0-9]{1,9}$")],
) -> Response:
    """Return the page of the commit with this id, which may be shortened: how far it has come."""
    cached, last = adapters.feed.snapshot(), last_known(request)
    summaries = last.read(Known.SUMMARIES, adapters.feed.summaries, ())
    refusals = last.read(Known.REFUSALS, adapters.feed.refusals, ())
    waiting = unpublished_commits(cached.fleet, cached.reading.syncer)
    job = _find(adapters, commit, waiting, summaries, refusals)
    facts = CommitFacts(
        job,
        _summary(adapters, job, waiting, summaries),
        cached.fleet,
        cached.status,
        _publication(adapters, job, summaries),
    )
    view = commit_view(facts, adapters.clock.now())
    may_publish = view.may_publish and cached.connected and user.may_act(PublishFleet.RIGHT)
    tip = waiting[0].id if waiting else job.commit
    link = PublishFleet.link("Publish now", "primary", commit_page(job.commit), commit=tip)
    acts = (link,) if may_publish else ()
    return show_page(
        request, adapters, user, "commit.html", events=FLEET_EVENTS, cached=cached, view=view, acts=acts
    )


def _find(
    adapters: ServerAdapters,
    name: str,
    waiting: Sequence[CommitSummary],
    summaries: Sequence[PublicationSummary],
    refusals: Sequence[Refusal],
) -> Job:
    """Return the state of a commit.

    Without the repository or without ZooKeeper, only published, refused and waiting ones are known.
    """
    problem: ZkdeploymentError = NotFoundError(f"neither the branch nor the history has the commit {name}")
    try:
        return find_job(adapters, name)
    except (NotFoundError, RefusedError):
        pass  # a revision of a former repository may still be in the history
    except (SourceError, BusyError, UnreachableError) as error:
        problem = error
    known = [each.id for each in waiting] + [str(each.revision) for each in summaries]
    known += [str(each.revision) for each in refusals]
    found = next((each for each in known if each == name or (len(each) >= 40 and each.startswith(name))), None)
    if found is None:
        raise problem
    return job_of(found, summaries, refusals, lambda revision: str(revision) == found)


def _publication(
    adapters: ServerAdapters, job: Job, summaries: Sequence[PublicationSummary]
) -> PublicationSummary | None:
    """Return the publication of a commit; older ones are not among the ``summaries``."""
    found, sequence = next((each for each in summaries if each.sequence == job.sequence), None), job.sequence
    if found is not None or sequence is None:
        return found
    older = read_or(lambda: adapters.feed.publication(sequence), ())
    return next((PublicationSummary.of(each) for each in older if each.sequence == sequence), None)


def _summary(
    adapters: ServerAdapters,
    job: Job,
    waiting: Sequence[CommitSummary],
    summaries: Sequence[PublicationSummary],
) -> CommitSummary | None:
    """Return the author, the subject and the time of a commit, if they are known."""
    found = next((each for each in waiting if each.id == job.commit), None)
    if found is not None:
        return found
    origin = next((each.origin for each in summaries if str(each.revision) == job.commit), None)
    if origin is not None:
        return CommitSummary(job.commit, origin.author, origin.subject, origin.time)
    try:
        return None if adapters.commits is None else adapters.commits.summary(job.commit)
    except BusyError:
        return None


PublicationNumber = Annotated[int, Path(ge=0, lt=2**53)]
Seconds = Annotated[float | None, Query(ge=0, le=10**8, allow_inf_nan=False)]
Group = Annotated[str, Query(max_length=1000)]


def read_section(begin: Seconds = None, end: Seconds = None, group: Group = "") -> TimelineSection:
    """Return the section that the query names: ``begin`` and ``end`` are seconds after the publication."""
    return TimelineSection(begin, end, group)


Section = Annotated[TimelineSection, Depends(read_section)]


@router.get("/history/{sequence}/timeline")
def show_timeline(
    request: Request, adapters: Adapters, user: Reader, sequence: PublicationNumber, section: Section
) -> Response:
    """Return the page with the timeline of a publication."""
    view = timeline_view(_trace(request, adapters, sequence), section, adapters.clock.now())
    return show_page(
        request,
        adapters,
        user,
        "timeline.html",
        events="publication host",
        view=view,
        publication=publication_page(sequence),
    )


@router.get("/history/{sequence}/timeline.svg")
def save_timeline(
    request: Request, adapters: Adapters, user: Reader, sequence: PublicationNumber, section: Section
) -> Response:
    """Return the same picture as a file."""
    del user
    view = timeline_view(_trace(request, adapters, sequence), section, adapters.clock.now())
    text = render("timeline_picture.svg", view=view, standalone=True)
    headers = {"Content-Disposition": f'attachment; filename="timeline-{sequence}.svg"'}
    return Response(text, media_type="image/svg+xml", headers=headers)


def _trace(request: Request, adapters: ServerAdapters, sequence: int) -> Trace:
    """Return the spans of a publication, or the last known ones while ZooKeeper is away."""
    return last_known(request).read_of(Known.TRACE, sequence, lambda: _read_trace(adapters, sequence))


def _read_trace(adapters: ServerAdapters, sequence: int) -> Trace:
    """Read the spans of a publication; raises ``HTTPException`` if the history does not have it."""
    feed = adapters.feed
    records = feed.publication(sequence)
    record = next((record for record in records if record.sequence == sequence), None)
    if record is None:
        raise HTTPException(404, f"the history has no publication {sequence}")
    reading, rollouts = feed.snapshot().reading, feed.rollouts(sequence)
    is_over = is_publication_over(sequence, rollouts, reading.last_over)
    steps, acts = adapters.recorder.steps(sequence), acts_during(records, record, feed.acts())
    names = {identity.id: identity.name for identity in reading.fleet.identities}
    return publication_trace(record, rollouts, steps, acts, is_over=is_over, names=names)
