"""``GET /api/v1/intents``: all intents of the last publication."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from zkdeployment.intents.overview import intent_overviews
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.intent_acts import counted_approvals
from zkdeployment.web.intent_documents import intent_summary
from zkdeployment.web.models.intents import IntentSummary

router = APIRouter(prefix="/api/v1", tags=["intents"], responses=ERRORS)


@router.get("/intents", response_model=list[IntentSummary])
def list_intents(adapters: Adapters, _user: Reader) -> Response:
    """Return all groups, then all clusters, with their states and their published documents."""
    overviews = intent_overviews(adapters.feed.intents(), {})
    records = [each.record for each in overviews if each.record is not None]
    return JSONResponse([intent_summary(record, counted_approvals(adapters, record)) for record in records])
