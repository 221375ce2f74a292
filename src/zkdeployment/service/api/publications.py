"""``GET /api/v1/history``, ``rollout``, ``plan``, ``tree`` and ``jobs``: what was, is and would be published."""

import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, create_model

from zkdeployment.base.act import Act
from zkdeployment.base.cluster import Revision, is_commit
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.features import installed
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.machine.reboots import RebootRecord
from zkdeployment.base.names import RESERVED, NameKind, is_name
from zkdeployment.fleet.views.history import REFUSED, publication_body, refused_pushes
from zkdeployment.fleet.views.plan_text import short_text
from zkdeployment.fleet.views.requests import Job, job_of
from zkdeployment.publishing.acts.commits import CommitOutcome
from zkdeployment.publishing.records import PublicationRecord, Refusal
from zkdeployment.publishing.store.history import LIMIT, SUMMARIES
from zkdeployment.publishing.store.requests import REFUSALS_LIMIT
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.act import CommitReference
from zkdeployment.service.act_routes import OptionalReason, wait_for_reading
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters, ServerAdapters
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.planner import planner_of
from zkdeployment.service.responses import ERRORS, Described, answer, body_of
from zkdeployment.service.views.fleet import unpublished_commits
from zkdeployment.strategies.views import RolloutStatus, rollout_status

#: The reason of an act whose request has another body, or none.
ReasonParameter = Annotated[OptionalReason, Query()]


def refer_to(outcome: CommitOutcome, response: Response | None = None) -> CommitReference:
    """Return the body of the response to an act, which has the status 200 if there was nothing to change."""
    if response is not None and not outcome.made:
        response.status_code = 200
    return CommitReference(outcome.commit or "")


def find_job(adapters: ServerAdapters, name: str, *, fresh: bool = False) -> Job:
    """Return the state of a commit, whose id may be shortened.

    The state is at most a second old, or ``fresh``. If the commit is published, later answers to other requests
    show at least that publication. Raises ``NotFoundError`` if the branch does not contain the commit, and
    ``RefusedError`` if the service has no repository.
    """
    commits, feed = adapters.require_commits(), adapters.feed
    refusals, reading = feed.refusals(fresh=fresh), feed.snapshot().reading
    waiting = [each.id for each in unpublished_commits(reading.fleet, reading.syncer)]
    if not fresh and name in waiting:
        refused = (each for each in refusals if str(each.revision) in waiting)
        return job_of(name, (), refused, lambda revision: commits.contains(revision, name))
    try:
        commit = commits.revision(name)
    except RefusedError as error:
        raise NotFoundError(str(error)) from error
    summaries = feed.summaries(fresh=fresh)
    job = job_of(commit, summaries, refusals, lambda revision: commits.contains(revision, commit))
    sequence = job.sequence
    if sequence is None:
        return job
    if len(summaries) == SUMMARIES and sequence == summaries[-1].sequence:  # or an older publication has it, too
        return job_of(commit, feed.history(LIMIT), (), lambda revision: commits.contains(revision, commit))
    wait_for_reading(feed, lambda reading: reading.sequence >= sequence)
    return job


jobs = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@jobs.get("/jobs/{commit}", response_model=body_of(Job))
def show_job(
    adapters: ConnectedAdapters,
    _user: Reader,
    commit: Annotated[str, Path(pattern="^[0-9a-f]{4,64}$", description="The id of a commit of the branch.")],
) -> Response:
    """Return whether a commit is pending, processed (it is published) or failed (the syncer refused it)."""
    return JSONResponse(find_job(adapters, commit, fresh=True).to_json())


router = APIRouter(prefix="/api/v1", tags=["publications"], responses={503: ERRORS[503]})

#: The numbers of hosts that follow from the results of a publication, and when the last host ended.
_OUTCOME: dict[str, Any] = {"done": int, "failed": int, "repaired": int, "ended": float | None}

_HISTORY = answer(
    "history",
    text="The last publications, the newest first.",
    publications=list[answer(None, PublicationRecord, results=None, left_out=None, **_OUTCOME)],  # type: ignore[misc]
)
_PUBLICATION = answer(
    "publication",
    PublicationRecord,
    "A publication with the results of hosts, the acts of operators until the next one, and its rollouts.",
    **_OUTCOME,
    reboots=list[RebootRecord],
    acts=list[Act],
    rollouts=list[RolloutStatus],
)

_REFUSED = answer("refused", text="The last refused pushes, the newest first.", refused=list[Refusal])

_MISSING: dict[int | str, dict[str, object]] = {404: ERRORS[404]}

#: The most publications that the history keeps.
_MOST = 500

#: The form of the whole id of a commit.
_COMMIT = r"^[0-9a-f]{40}([0-9a-f]{24})?$"

#: No sequence has more digits: it follows the time.
_LARGEST = 2**53


@router.get("/history", response_model=_HISTORY)
def read_history(user: Reader, adapters: Adapters, last: Annotated[int, Query(ge=1, le=_MOST)] = 20) -> Response:
    """Return the last publications, the newest first."""
    del user
    records = adapters.feed.history(last)
    return JSONResponse(with_schema("history", {"publications": [record.summary() for record in records]}))


@router.get("/history/refused", response_model=_REFUSED)
def read_refused(
    user: Reader, adapters: Adapters, last: Annotated[int, Query(ge=1, le=REFUSALS_LIMIT)] = REFUSED
) -> Response:
    """Return the last pushes that the syncer refused, the newest first: at most one refusal of each commit."""
    del user
    refused = refused_pushes(adapters.feed.refusals(fresh=True), limit=last)
    return JSONResponse(with_schema("refused", {"refused": [each.to_json() for each in refused]}))


@router.get("/history/{sequence}", response_model=_PUBLICATION, responses=_MISSING)
def read_publication(
    sequence: Annotated[int, Path(ge=0, lt=_LARGEST)], user: Reader, adapters: Adapters
) -> Response:
    """Return one publication: the result on each host, its rollouts, and the acts of operators."""
    del user
    feed = adapters.feed
    records = feed.publication(sequence)
    record = next((record for record in records if record.sequence == sequence), None)
    if record is None:
        raise NotFoundError(f"the history has no publication with the sequence {sequence}")
    rollouts = feed.rollouts(sequence)
    reboots = feed.snapshot().fleet.reboots.values()
    body = publication_body(record, records, feed.acts(), rollouts, reboots, now=time.time())
    return JSONResponse(with_schema("publication", body))


@router.get("/rollout", response_model=answer("rollout", RolloutStatus), responses=_MISSING)
def read_rollout(user: Reader, adapters: Adapters) -> Response:
    """Return the rollout of the published revision."""
    del user
    fleet = adapters.feed.snapshot().fleet
    if fleet.rollout is None:
        reason = (
            "no strategy is published" if fleet.strategy is None else f"that by {fleet.strategy} has not begun"
        )
        raise NotFoundError(f"there is no rollout: {reason}")
    status = rollout_status(
        fleet.rollout,
        led=fleet.coordinator is not None,
        now=time.time(),
        governed=fleet.governed,
        known=fleet.facts,
    )
    return JSONResponse(with_schema("rollout", status.to_json()))


class PlannedHostBody(Described):
    """The forecast of a host: its steps in order, and the deployments that are not run again."""

    id: str
    name: str
    role: str | None
    outlook: str
    absent: bool
    lease: str | None
    reason: str | None
    steps: list[dict[str, Any]]
    unchanged: list[str]


class PlannedTreeBody(Described):
    """The paths of nodes that would be created, updated and deleted."""

    create: list[str]
    update: list[str]
    delete: list[str]


class PlannedDocumentBody(Described):
    """A document beside the tree that changes."""

    change: str
    kind: str
    subject: list[str]


class PackageProblemBody(Described):
    """A finding about the packages that a publication newly wants: ``error`` or ``warning``."""

    severity: str
    path: str | None
    message: str


class PackageCheckBody(Described):
    """The check of packages: how many newly wanted ones were looked up, and what was found."""

    checked: int
    problems: list[PackageProblemBody]


class PlanBody(Described):
    """The forecast of a publication."""

    schema_: Annotated[Literal["zkdeployment/plan/v1"], Field(alias="schema")]
    revision: Revision | None
    changes: bool
    summary: str
    tree: PlannedTreeBody
    hosts: list[PlannedHostBody]
    strategy: dict[str, Any] | None
    documents: list[PlannedDocumentBody]
    order: dict[str, Any] | None
    warnings: list[str]
    packages: PackageCheckBody | None


def plan_router() -> APIRouter:
    """Return the operation that plans a publication, whose answer has the additions of the features."""
    reading = (places.plan_body for places in installed(ServicePlaces))
    bodies = dict(read() for read in reading if read is not None)
    additions: dict[str, Any] = {name: (kind, ...) for name, kind in bodies.items()}
    body = create_model("PlanBody", __base__=PlanBody, __doc__=PlanBody.__doc__, **additions)
    planning = APIRouter(prefix="/api/v1", tags=["publications"], responses={503: ERRORS[503]})
    planning.add_api_route("/plan", read_plan, response_model=body, responses={**_MISSING, 409: ERRORS[409]})
    return planning


def read_plan(
    request: Request,
    user: Reader,
    adapters: ConnectedAdapters,
    revision: Annotated[
        str | None,
        Query(max_length=250, description="A branch, or the whole id of a commit of any branch; else the tip."),
    ] = None,
) -> Response:
    """Return what every host would do if a revision of the repository were published.

    A tree with errors is answered by 422 with all problems. Only a few plans are made at a time: after 503 the
    client tries again.
    """
    del user
    return JSONResponse(with_schema("plan", planner_of(request).plan(adapters, revision).to_json()))


@router.get(
    "/plan/short",
    response_model=answer(
        "plan-short",
        text="The plan of a revision as text, in comparison with the published revision.",
        revision=Revision,
        published=Revision | None,
        changes=bool,
        diff=list[str],
        lines=list[str],
    ),
    responses={**_MISSING, 409: ERRORS[409]},
)
def read_short_plan(
    request: Request,
    user: Reader,
    adapters: ConnectedAdapters,
    revision: Annotated[
        str, Query(pattern=_COMMIT, description="The whole id of a commit of any branch of the repository.")
    ],
) -> Response:
    """Return the plan of a revision as `zkdeployment plan --short` prints it, and the changes of the tree.

    The changes are those from the published revision, a line for each effect. Without a published revision
    the list is empty. A tree with errors is answered by 422 with all problems. Only a few plans are made at a
    time: after 503 the client tries again.
    """
    del user
    planner, wanted = planner_of(request), adapters.feed.snapshot().status.wanted
    published = wanted if is_commit(str(wanted)) else None
    predicted = planner.plan(adapters, revision)
    body = {
        "revision": revision,
        "published": published,
        "changes": predicted.changes,
        "diff": [] if published is None else [*planner.changes(adapters, published, revision)],
        "lines": [*short_text(predicted)],
    }
    return JSONResponse(with_schema("plan-short", body))


@router.get(
    "/plan/refusals",
    response_model=answer(
        "refusals",
        text="The reasons for which the syncer would refuse a revision; it would publish one without any.",
        revision=Revision,
        refusals=list[str],
    ),
    responses={404: ERRORS[404], 409: ERRORS[409]},
)
def read_refusals(
    request: Request,
    user: Reader,
    adapters: ConnectedAdapters,
    revision: Annotated[
        str, Query(pattern=_COMMIT, description="The whole id of a commit of any branch of the repository.")
    ],
) -> Response:
    """Return the reasons for which the syncer would refuse a revision of the repository as the next one.

    The reasons are errors of its tree and documents, its signature, and what the guards of the syncer refuse:
    missing packages, the end of many deployments, a history that does not follow the published revision. A stop
    or a rollout of the fleet is no reason. Only a few plans are made at a time: after 503 the client tries again.
    """
    del user
    found = planner_of(request).refusals(adapters, revision)
    return JSONResponse(with_schema("refusals", {"revision": revision, "refusals": [*found]}))


@router.get("/tree", responses=_MISSING)
def read_whole_tree(user: Reader, adapters: Adapters) -> dict[str, dict[str, Any]]:
    """Return the whole live tree: path to properties, with links unresolved."""
    del user
    return _subtree(adapters, "")


@router.get("/tree/{path:path}", responses=_MISSING)
def read_tree(path: str, user: Reader, adapters: Adapters) -> dict[str, dict[str, Any]]:
    """Return a node of the live tree and all nodes below it: path to properties, with links unresolved."""
    del user
    return _subtree(adapters, path)


def _subtree(adapters: Adapters, path: str) -> dict[str, dict[str, Any]]:
    names = [name for name in path.split("/") if name]
    above = "/".join(["", *names])
    is_tree = all(is_name(NameKind.NODE, name) for name in names) and names[:1] != [
        *RESERVED.intersection(names[:1])
    ]
    nodes = adapters.feed.subtree(above) if is_tree or not names else None
    if nodes is None:
        raise NotFoundError(f"the tree has no node {above}")
    return {name: dict(nodes[name]) for name in sorted(nodes)}
