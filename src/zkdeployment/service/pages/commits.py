"""The page of a commit, which is also that of the job of an act."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response

from zkdeployment.base.errors import (
    BusyError,
    NotFoundError,
    RefusedError,
    SourceError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.fleet.views.requests import Job, job_of
from zkdeployment.publishing.records import CommitSummary, PublicationSummary, Refusal
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.acts import PublishFleet
from zkdeployment.service.api.commits import find_job
from zkdeployment.service.dependencies import Adapters, ServerAdapters
from zkdeployment.service.pages.live_page import FLEET_EVENTS, Known, last_known, read_or, show_page
from zkdeployment.service.views.commits import CommitFacts, commit_view
from zkdeployment.service.views.fleet import unpublished_commits
from zkdeployment.service.views.frame import commit_page

router = APIRouter(include_in_schema=False)


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
