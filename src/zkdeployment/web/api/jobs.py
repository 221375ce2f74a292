"""``GET /api/v1/jobs/{commit}``: the outcome of an act that is a commit."""

from typing import Annotated

from fastapi import APIRouter, Path

from zkdeployment.web import acts
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.jobs import CommitJob

router = APIRouter(prefix="/api/v1", tags=["acts"], responses=ERRORS)


@router.get("/jobs/{commit}")
def show_job(
    adapters: ConnectedAdapters,
    _user: Reader,
    commit: Annotated[str, Path(pattern="^[0-9a-f]{4,64}$", description="The id of a commit of the branch.")],
) -> CommitJob:
    """Return whether a commit is pending, processed (it is published) or failed (the syncer refused it)."""
    return CommitJob.model_validate(acts.find_job(adapters, commit).to_json())
