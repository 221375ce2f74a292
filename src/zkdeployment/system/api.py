"""``GET /api/v1/system``: the operating systems of hosts."""

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.json_values import with_schema
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.responses import ERRORS, answer
from zkdeployment.system.opening import systems_of
from zkdeployment.system.views import SystemsStatus

router = APIRouter(prefix="/api/v1", tags=["fleet"], responses={503: ERRORS[503]})


@router.get("/system", response_model=answer("system", SystemsStatus))
def read_all_systems(user: Reader, adapters: Adapters) -> Response:
    """Return the release, the kernels and a due reboot of each host that has a system node."""
    del user
    return JSONResponse(with_schema("system", systems_of(adapters.feed).to_json()))


ROUTERS = (router,)
