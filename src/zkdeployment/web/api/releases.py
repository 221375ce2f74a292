"""``/api/v1/releases``: the release of services that left the governance of their intents."""

from fastapi import APIRouter, Response

from zkdeployment.web import intent_acts
from zkdeployment.web.access.rights import Operator, Reader
from zkdeployment.web.api.intent_answers import UNCHANGED, refer_to
from zkdeployment.web.dependencies import Adapters, ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.intents import CommitReference, LeftServiceBody, ServiceReleaseRequest

router = APIRouter(prefix="/api/v1", tags=["intents"], responses=ERRORS)


@router.get("/left-services")
def list_left_services(adapters: Adapters, _user: Reader) -> list[LeftServiceBody]:
    """Return the services that left the governance of their intents, and stay as published."""
    return [LeftServiceBody.of(one) for one in adapters.feed.left()]


@router.post("/releases", status_code=202, responses=UNCHANGED)
def release_services(
    adapters: ConnectedAdapters, user: Operator, request: ServiceReleaseRequest, response: Response
) -> CommitReference:
    """Deploy services that left the governance of their intents as the tip of the branch has them."""
    return refer_to(intent_acts.release(adapters, user, request.paths, request.reason), response)
