"""``GET /api/v1/status``, ``hosts``, ``locks``, ``services`` and ``audit``: the state of the fleet."""

import json
import threading
import time
from typing import Annotated, Any, Union

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.act import Act
from zkdeployment.base.errors import NotFoundError
from zkdeployment.base.features import installed
from zkdeployment.base.json_values import with_schema
from zkdeployment.fleet.explanations.explanation import Cause, Explanation
from zkdeployment.fleet.explanations.host import explain_host
from zkdeployment.fleet.feed.fleet_assembly import FleetReading
from zkdeployment.fleet.views.history import FailedLogin, Period, audit_records
from zkdeployment.fleet.views.instances import paths_of_services
from zkdeployment.fleet.views.locks import LockView, by_urgency, lock_views
from zkdeployment.fleet.views.services import (
    ServicesStatus,
    hosts_of_services,
    require_services,
    services_status,
)
from zkdeployment.fleet.views.status import FleetStatus, fleet_status
from zkdeployment.service.access.identity import Reader, require
from zkdeployment.service.dependencies import Adapters, ConnectedAdapters, read_host_snapshot
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.responses import ERRORS, answer
from zkdeployment.service.users.user import Right


class EncodedStatus:
    """The encoded status of the last reading that a client asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading: FleetReading | None = None
        self._body = b""

    def body(self, reading: FleetReading) -> bytes:
        """Return the body for a reading."""
        with self._lock:
            if self._reading is not reading:
                self._body = json.dumps(with_schema("status", reading.status.to_json())).encode()
                self._reading = reading
            return self._body


def encoded_status(request: Request) -> EncodedStatus:
    """Return the encoded status of the application that handles a request."""
    encoded: EncodedStatus = request.app.state.encoded_status
    return encoded


router = APIRouter(prefix="/api/v1", tags=["fleet"], responses={503: ERRORS[503]})

_STATUS = answer("status", FleetStatus)
_SERVICES = answer("services", ServicesStatus)

_MISSING: dict[int | str, dict[str, object]] = {404: ERRORS[404]}

HostName = Annotated[str, Path(description="The id or the name of a host.")]
ServicePath = Annotated[str, Path(description="The path of a service or of a node above services.")]


@router.get("/status", response_model=_STATUS, responses={304: {"description": "Nothing has changed."}})
def read_status(request: Request, user: Reader, adapters: Adapters) -> Response:
    """Return the status of the whole fleet from the service's memory.

    The header `Age` is the number of seconds since ZooKeeper confirmed it. With `If-None-Match`, an unchanged
    status is not sent again.
    """
    del user
    cached = adapters.feed.snapshot()
    tag = f'"{cached.reading.started:x}-{cached.reading.number}"'
    age = max(0, int(adapters.clock.now() - cached.read_at))
    headers = {"ETag": tag, "Age": str(age), "Cache-Control": "private, no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(encoded_status(request).body(cached.reading), media_type="application/json", headers=headers)


@router.get("/hosts/{host}", response_model=_STATUS, responses=_MISSING)
def read_host(host: HostName, user: Reader, adapters: Adapters) -> Response:
    """Return the status of one host."""
    del user
    reading = adapters.feed.snapshot().reading
    fleet = reading.fleet
    if fleet.find_identity(host) is None:
        raise NotFoundError(f"there is no host {host}: no known host has this id or name")
    return JSONResponse(
        with_schema("status", fleet_status(fleet, names=(host,), services=reading.services).to_json())
    )


def explanation_router() -> APIRouter:
    """Return the operation that explains a host, whose answer has the findings of the features."""
    reading = (places.finding_body for places in installed(ServicePlaces))
    bodies = tuple(read() for read in reading if read is not None)
    finding: Any = Union[bodies] if bodies else dict[str, Any]  # noqa: UP007  the members are computed
    body = answer("why", Explanation, checks=list[finding])
    explaining = APIRouter(prefix="/api/v1", tags=["fleet"], responses={503: ERRORS[503]})
    explaining.add_api_route("/hosts/{host}/why", explain, response_model=body, responses=_MISSING)
    return explaining


def explain(host: HostName, user: Reader, adapters: Adapters) -> Response:
    """Explain why a host is not at the cluster version."""
    del user
    fleet = adapters.feed.snapshot().fleet
    now = time.time()
    explanation = explain_host(
        read_host_snapshot(adapters, fleet, adapters.feed.locks(), host, now), host, now=now
    )
    if explanation.cause is Cause.UNKNOWN:
        raise NotFoundError(explanation.sentence)
    return JSONResponse(with_schema("why", explanation.to_json()))


@router.get(
    "/locks", response_model=answer("locks", text="All locks, the urgent ones first.", locks=list[LockView])
)
def read_locks(user: Reader, adapters: Adapters) -> Response:
    """Return all locks that are held: their holders, the hosts that wait, and the work under them."""
    del user
    fleet = adapters.feed.snapshot().fleet
    locks = by_urgency(adapters.feed.locks(), fleet)
    return JSONResponse(with_schema("locks", {"locks": [view.to_json() for view in lock_views(locks, fleet)]}))


@router.get("/services", response_model=_SERVICES)
def read_all_services(user: Reader, adapters: Adapters) -> Response:
    """Return the status of all services."""
    del user
    return _services(adapters, "")


@router.get("/services/{path:path}", response_model=_SERVICES, responses=_MISSING)
def read_services(path: ServicePath, user: Reader, adapters: Adapters) -> Response:
    """Return the status of the services at and below a path: versions, hosts, deployments and instances."""
    del user
    return _services(adapters, path)


def _services(adapters: Adapters, path: str) -> Response:
    feed, above = adapters.feed, "/".join(["", *filter(None, path.split("/"))])
    cached, targets = feed.snapshot(), feed.targets()
    known = feed.known_hosts([identity.id for identity in hosts_of_services(cached.fleet)])
    providers = feed.providers(paths_of_services(targets, above))
    status = services_status(cached.status, cached.fleet, targets, known, providers, path=above)
    require_services(status, above, feed.withheld())
    return JSONResponse(with_schema("services", status.to_json()))


audit_router = APIRouter(
    prefix="/api/v1", tags=["audit"], responses=ERRORS, dependencies=[Depends(require(Right.READ_AUDIT))]
)


@audit_router.get(
    "/audit",
    response_model=answer(
        "audit",
        text="The acts of operators and the failed logins, the newest first.",
        acts=list[Act],
        failed_logins=list[FailedLogin],
    ),
)
def audit(
    adapters: ConnectedAdapters,
    who: Annotated[str, Query(max_length=200, description="A user, USER@HOST or an address; empty: all.")] = "",
    limit: Annotated[int, Query(ge=1, le=500, description="The most records of each kind.")] = 100,
    since: Annotated[float | None, Query(description="Only from then on, in seconds since the epoch.")] = None,
    until: Annotated[float | None, Query(description="Only before then, in seconds since the epoch.")] = None,
) -> Response:
    """Return acts and failed logins, the newest first."""
    acts, failed = adapters.operator.fleet.acts(), adapters.logins.failed_logins()
    records = audit_records(acts, failed, who=who, period=Period(since, until), limit=limit)
    return JSONResponse(with_schema("audit", records.to_json()))
