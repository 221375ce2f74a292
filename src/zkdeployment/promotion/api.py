"""Fleets over HTTP: what a promoter needs to know of one, and what it knows of all of them."""

import hashlib
import json
from collections.abc import Iterable

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from zkdeployment.base.cluster import ClusterState, is_commit, short
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.records import Record
from zkdeployment.base.stop import Stop
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.snapshot import FleetSnapshot
from zkdeployment.fleet.views.status import FleetStatus, HostState, HostStatus
from zkdeployment.promotion.feed import PROMOTION_PART
from zkdeployment.promotion.records import FleetReport, FleetState, PromotionEntry
from zkdeployment.promotion.views.fleets import FleetsStatus, fleets_status
from zkdeployment.service.access.identity import Reader
from zkdeployment.service.dependencies import Adapters
from zkdeployment.service.responses import ERRORS, answer

router = APIRouter(prefix="/api/v1", tags=["fleet"], responses={503: ERRORS[503]})


@router.get(
    "/fleet",
    response_model=answer("fleet", FleetReport),
    responses={304: {"description": "Nothing has changed."}},
)
def read_fleet(request: Request, user: Reader, adapters: Adapters) -> Response:
    """Return the state of the whole fleet in a few lines, from the service's memory.

    The header `Age` is the number of seconds since ZooKeeper confirmed it. With `If-None-Match`, an unchanged
    state is not sent again.
    """
    del user
    cached = adapters.feed.snapshot()
    report = fleet_report(cached.status, cached.fleet)
    body = json.dumps(with_schema("fleet", report.to_json())).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    age = max(0, int(adapters.clock.now() - cached.read_at))
    headers = {"ETag": tag, "Age": str(age), "Cache-Control": "private, no-cache"}
    if request.headers.get("If-None-Match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def fleet_report(status: FleetStatus, fleet: FleetSnapshot) -> FleetReport:
    """Return the report of a fleet for its promoter; a fleet without hosts converges at once.

    A version that is no commit, such as that of a fleet before its first publication, is not reported.
    """
    expected = [host for host in status.hosts if host.expected]
    converged = [host for host in expected if host.state is HostState.CONVERGED]
    is_running = status.cluster is not None and status.cluster.state is ClusterState.RUNNING
    is_empty = is_running and status.completed and not expected
    state, since, by, problem = _verdict(status, fleet, converged, is_empty=is_empty)
    return FleetReport(
        state,
        revision=str(status.wanted) if is_commit(str(status.wanted)) else None,
        hosts=len(expected),
        converged=len(converged),
        since=since,
        by=by,
        problem=problem,
        refused=None if status.refusal is None else str(status.refusal.revision),
    )


def _verdict(
    status: FleetStatus, fleet: FleetSnapshot, converged: Iterable[HostStatus], *, is_empty: bool
) -> tuple[FleetState, float | None, str, str]:
    """Return the state of a fleet, when it began, who stopped or holds it, and why it does not converge."""
    state = None if status.cluster is None else status.cluster.state
    if state in {ClusterState.STOPPED, ClusterState.HELD}:
        began, by, problem = _stop(status.stops)
        halted = FleetState.STOPPED if state is ClusterState.STOPPED else FleetState.HELD
        return halted, fleet.changed if began is None else began, by, problem or status.summary
    if status.missed:  # hosts failed within the criteria of their groups, and no host starts any more
        return FleetState.STOPPED, None, "", status.rollout or status.summary
    if status.refusal is not None:
        problem = f"the syncer refuses {short(status.refusal.revision)}: {'; '.join(status.refusal.problems)}"
        return FleetState.REFUSED, status.refusal.time, "", problem
    stopped = [str(stop) for stop in status.group_stops]  # hosts that lack their services count as converged
    if status.converged or is_empty:
        times = [time for time in (fleet.changed, *(host.since for host in converged)) if time is not None]
        return FleetState.CONVERGED, max(times, default=None), "", _first_of(stopped)
    failed = [host for host in status.hosts if host.state is HostState.FAILED]
    failing = [f"the {failure.daemon} fails: {failure.message}" for failure in status.failures]
    problems = [*(f"{host.name} failed: {host.error}" for host in failed), *stopped, *failing]
    return FleetState.ROLLING_OUT, fleet.changed, "", _first_of(problems)


def _stop(stops: tuple[Stop, ...]) -> tuple[float | None, str, str]:
    """Return when the first of the stops in force began, who made it, and the reasons."""
    if not stops:
        return None, "", ""
    return stops[0].time, stops[0].by or "", _first_of([str(stop) for stop in stops])


def _first_of(problems: list[str]) -> str:
    """Return the first of several problems, with the number of the others."""
    if not problems:
        return ""
    return problems[0] if len(problems) == 1 else f"{problems[0]} (and {counted(len(problems) - 1, 'other')})"


@dataclass(frozen=True, slots=True)
class PromotionHistory(Record):
    """The last promotions, the newest first."""

    promotions: tuple[PromotionEntry, ...] = ()


@router.get("/fleets", response_model=answer("fleets", FleetsStatus))
def read_fleets(user: Reader, adapters: Adapters) -> Response:
    """Return all fleets under promotion, the worst first, as the promoter last saw them."""
    del user
    reading = adapters.feed.snapshot().reading.of(PROMOTION_PART)
    status = fleets_status(reading, reading.promoter, adapters.clock.now())
    return JSONResponse(with_schema("fleets", status.to_json()))


@router.get("/promotions", response_model=answer("promotions", PromotionHistory))
def read_promotions(user: Reader, adapters: Adapters) -> Response:
    """Return the last promotions, the newest first, with the time at which each fleet had converged."""
    del user
    history = PromotionHistory(adapters.feed.snapshot().reading.of(PROMOTION_PART).history)
    return JSONResponse(with_schema("promotions", history.to_json()))


ROUTERS = (router,)
