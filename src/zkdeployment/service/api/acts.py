"""``POST /api/v1/stop``, ``rollback`` and the other acts on the fleet, and ``jobs``: their outcomes."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from zkdeployment.service import acts
from zkdeployment.service.access.rights import Operator, Reader
from zkdeployment.service.dependencies import ConnectedAdapters, ServerAdapters
from zkdeployment.service.error_responses import ERRORS
from zkdeployment.service.models.acts import (
    ActRequest,
    CommitJob,
    CommittedAct,
    DirectedRollout,
    PromoteRequest,
    ReasonedRequest,
    RecordedAct,
    ReleaseRequest,
    ResumedFleet,
    ResumeRequest,
    RollbackRequest,
    UndoneCommit,
)
from zkdeployment.service.users.user import User
from zkdeployment.strategies.state import Directive

router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@router.post("/stop")
def stop(adapters: ConnectedAdapters, user: Operator, request: ActRequest) -> RecordedAct:
    """Stop the whole fleet: hosts finish their present step and start no other step."""
    return RecordedAct.of(acts.stop_fleet(adapters, user, request.reason))


@router.post("/hold")
def hold(adapters: ConnectedAdapters, user: Operator, request: ActRequest) -> RecordedAct:
    """Hold all hosts until the next publication."""
    return RecordedAct.of(acts.hold_fleet(adapters, user, request.reason))


@router.post("/resume")
def resume(adapters: ConnectedAdapters, user: Operator, request: ResumeRequest) -> ResumedFleet:
    """End a stop or a hold; with ``latest``, a syncer publishes the tip of the branch first."""
    if request.latest:
        act, revision = acts.resume_at_tip(
            adapters, user, request.reason, timeout=request.timeout, overrides=request.overrides
        )
    else:
        act, revision = acts.resume_fleet(adapters, user, request.reason)
    return ResumedFleet(act=RecordedAct.of(act), revision=revision)


@router.post("/rollout/promote")
def promote(adapters: ConnectedAdapters, user: Operator, request: PromoteRequest) -> DirectedRollout:
    """Permit a group of the present rollout to begin as soon as all groups that it depends on have succeeded."""
    return _direct(adapters, user, Directive.PROMOTE, request.reason, request.group)


@router.post("/rollout/pause")
def pause(adapters: ConnectedAdapters, user: Operator, request: ActRequest) -> DirectedRollout:
    """Start no further hosts in the present rollout."""
    return _direct(adapters, user, Directive.PAUSE, request.reason)


@router.post("/rollout/resume")
def resume_rollout(adapters: ConnectedAdapters, user: Operator, request: ReasonedRequest) -> DirectedRollout:
    """Continue a paused rollout."""
    return _direct(adapters, user, Directive.RESUME, request.reason)


@router.post("/rollout/abort")
def abort(adapters: ConnectedAdapters, user: Operator, request: ActRequest) -> DirectedRollout:
    """End the present rollout as failed, which stops the fleet."""
    return _direct(adapters, user, Directive.ABORT, request.reason)


@router.post("/locks/release")
def release(adapters: ConnectedAdapters, user: Operator, request: ReleaseRequest) -> RecordedAct:
    """Release the lock of a service or of a role, so that the next host in the queue acquires it."""
    return RecordedAct.of(acts.release_lock(adapters, user, request.name, request.reason, force=request.force))


def _direct(
    adapters: ServerAdapters, user: User, directive: Directive, reason: str, group: str | None = None
) -> DirectedRollout:
    act, state = acts.direct_rollout(adapters, user, directive, reason, group)
    coordinator = adapters.operator.rollouts.coordinator()
    return DirectedRollout(act=RecordedAct.of(act), rollout=state.id, coordinator=coordinator is not None)


rollback_router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@rollback_router.post(
    "/rollback", status_code=202, responses={200: {"model": CommittedAct, "description": "No commit"}}
)
def roll_back(
    adapters: ConnectedAdapters, user: Operator, request: RollbackRequest, response: Response
) -> CommittedAct:
    """Commit the tree of an earlier revision to the branch; 202 if a commit was made, else 200."""
    outcome, obstacles = acts.roll_back_fleet(
        adapters,
        user,
        request.reason,
        revision=request.revision,
        quarantine=request.quarantine,
        dry_run=request.dry_run,
        publish=request.now,
        timeout=request.timeout,
    )
    if not outcome.made:
        response.status_code = 200
    undone = [
        UndoneCommit(revision=commit.id, author=commit.author, subject=commit.subject, time=commit.time)
        for commit in outcome.undone
    ]
    return CommittedAct(
        job=outcome.commit, changed=outcome.changed, diff=outcome.diff, undone=undone, obstacles=[*obstacles]
    )


jobs_router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@jobs_router.get("/jobs/{commit}")
def show_job(
    adapters: ConnectedAdapters,
    _user: Reader,
    commit: Annotated[str, Path(pattern="^[0-9a-f]{4,64}$", description="The id of a commit of the branch.")],
) -> CommitJob:
    """Return whether a commit is pending, processed (it is published) or failed (the syncer refused it)."""
    return CommitJob.model_validate(acts.find_job(adapters, commit).to_json())
