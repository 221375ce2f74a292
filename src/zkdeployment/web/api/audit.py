"""``GET /api/v1/audit``: who acted on the fleet and on its users, and who failed to log in."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from zkdeployment.fleet.audit import audit_records
from zkdeployment.model.user import Right
from zkdeployment.web.access.rights import require
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.audit import AuditAnswer

router = APIRouter(
    prefix="/api/v1", tags=["audit"], responses=ERRORS, dependencies=[Depends(require(Right.READ_AUDIT))]
)


@router.get("/audit")
def audit(
    adapters: ConnectedAdapters,
    who: Annotated[str, Query(max_length=200, description="A user, USER@HOST or an address; empty: all.")] = "",
    limit: Annotated[int, Query(ge=1, le=500, description="The most records of each kind.")] = 100,
) -> AuditAnswer:
    """Return acts and failed logins, the newest first."""
    acts, failed = adapters.operator.fleet.acts(), adapters.logins.failed_logins()
    return AuditAnswer.of(audit_records(acts, failed, who=who, limit=limit))
