"""``GET /api/v1/status``, ``hosts``, ``locks`` and ``services``: the state of the fleet."""

import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.errors import NotFoundError
from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import explain_host, find_host, find_identity
from zkdeployment.fleet.host_status import HostState
from zkdeployment.fleet.locks import by_urgency, to_json
from zkdeployment.fleet.services.service_status import hosts_of_services, paths_of_services, services_status
from zkdeployment.fleet.services.withheld_services import withheld_from_host
from zkdeployment.fleet.status import fleet_status
from zkdeployment.output_schema import with_schema
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.encoded_status import encoded_status
from zkdeployment.web.error_responses import ERRORS
from zkdeployment.web.models.fleet import LocksBody, ServicesBody, StatusBody
from zkdeployment.web.models.why import WhyBody

router = APIRouter(prefix="/api/v1", tags=["fleet"], responses={503: ERRORS[503]})

_MISSING: dict[int | str, dict[str, object]] = {404: ERRORS[404]}

HostName = Annotated[str, Path(description="The id or the name of a host.")]
ServicePath = Annotated[str, Path(description="The path of a service or of a node above services.")]


@router.get("/status", response_model=StatusBody, responses={304: {"description": "Nothing has changed."}})
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


@router.get("/hosts/{host}", response_model=StatusBody, responses=_MISSING)
def read_host(host: HostName, user: Reader, adapters: Adapters) -> Response:
    """Return the status of one host."""
    del user
    status = fleet_status(adapters.feed.snapshot().fleet, names=(host,))
    if all(found.state is HostState.UNKNOWN for found in status.hosts):
        raise NotFoundError(f"there is no host {host}: no known host has this id or name")
    return JSONResponse(with_schema("status", status.to_json()))


@router.get("/hosts/{host}/why", response_model=WhyBody, responses=_MISSING)
def explain(host: HostName, user: Reader, adapters: Adapters) -> Response:
    """Explain why a host is not at the cluster version."""
    del user
    fleet = adapters.feed.snapshot().fleet
    explanation = explain_host(fleet, adapters.feed.locks(), host, now=time.time())
    if explanation.cause is Cause.UNKNOWN:
        raise NotFoundError(explanation.sentence)
    if (registered := find_host(fleet, host)) is not None and explanation.cause is Cause.FAILED:
        explanation = explanation.with_output(adapters.operator.fleet.failure_output(registered.identity.id))
    if (identity := find_identity(fleet, host)) is not None:
        feed = adapters.feed
        explanation = explanation.with_facts(
            withheld_from_host(identity, feed.withheld(), feed.intents, feed.left())
        )
        findings = adapters.operator_checks.findings([identity.id], time.time())
        explanation = explanation.with_checks(findings)
    return JSONResponse(with_schema("why", explanation.to_json()))


@router.get("/locks", response_model=LocksBody)
def read_locks(user: Reader, adapters: Adapters) -> Response:
    """Return all locks that are held: their holders, the hosts that wait, and the work under them."""
    del user
    hosts = adapters.feed.snapshot().fleet.hosts
    locks = by_urgency(adapters.feed.locks(), hosts)
    return JSONResponse(with_schema("locks", {"locks": to_json(locks, hosts)}))


@router.get("/services", response_model=ServicesBody)
def read_all_services(user: Reader, adapters: Adapters) -> Response:
    """Return the status of all services."""
    del user
    return _services(adapters, "")


@router.get("/services/{path:path}", response_model=ServicesBody, responses=_MISSING)
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
    return JSONResponse(with_schema("services", status.to_json()))
