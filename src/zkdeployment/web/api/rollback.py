"""``POST /api/v1/rollback``: the same as the verb."""

from fastapi import APIRouter, Response

from zkdeployment.web import acts
from zkdeployment.web.access.rights import Operator
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.rollback import CommittedAct, RollbackRequest, UndoneCommit

router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@router.post("/rollback", status_code=202, responses={200: {"model": CommittedAct, "description": "No commit"}})
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
