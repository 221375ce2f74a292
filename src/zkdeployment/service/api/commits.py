"""Acts that are commits, in the API: the reference to a commit, and ``GET /api/v1/jobs/COMMIT``, its outcome."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.fleet.views.requests import Job, job_of
from zkdeployment.publishing.acts.commits import CommitOutcome
from zkdeployment.publishing.store.history import LIMIT, SUMMARIES
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.act import CommitReference
from zkdeployment.service.act_routes import OptionalReason, wait_for_reading
from zkdeployment.service.bodies import body_of
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.views.fleet import unpublished_commits

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


router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@router.get("/jobs/{commit}", response_model=body_of(Job))
def show_job(
    adapters: ConnectedAdapters,
    _user: Reader,
    commit: Annotated[str, Path(pattern="^[0-9a-f]{4,64}$", description="The id of a commit of the branch.")],
) -> Response:
    """Return whether a commit is pending, processed (it is published) or failed (the syncer refused it)."""
    return JSONResponse(find_job(adapters, commit, fresh=True).to_json())
