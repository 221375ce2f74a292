"""``GET /healthz``: for load balancers and probes; needs no login."""

from fastapi import APIRouter

from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.health import ServiceHealth

router = APIRouter(tags=["service"])


@router.get("/healthz", responses={503: ERRORS[503]})
def healthz(adapters: ConnectedAdapters) -> ServiceHealth:
    """Answer 200 when ZooKeeper answers, else 503."""
    adapters.operator.fleet.syncer_report()
    return ServiceHealth()
