"""``/hosts/ID``: a host, why it is in its state, its plan, its deployments and its history."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from zkdeployment.fleet.explanations.explanation import Cause
from zkdeployment.fleet.explanations.host import explain_host
from zkdeployment.web.access.rights import Reader
from zkdeployment.web.dependencies import Adapters
from zkdeployment.web.pages.last_known import Known
from zkdeployment.web.pages.live_page import FLEET_EVENTS, RECENT, last_known, read_or, read_withheld, show_page
from zkdeployment.web.views.host import host_view
from zkdeployment.web.views.withheld import withheld_of_host

router = APIRouter(include_in_schema=False)


@router.get("/hosts/{host}")
def show_host(request: Request, adapters: Adapters, user: Reader, host: str) -> Response:
    """Return the page of the host with this id or name."""
    feed, now = adapters.feed, adapters.clock.now()
    cached, last = feed.snapshot(), last_known(request)
    status = next((each for each in cached.status.hosts if host in {each.id, each.name}), None)
    if status is None:
        raise HTTPException(404, f"no host with the id or name {host} is known")
    known = read_or(lambda: feed.known_hosts([status.id]), ())
    explanation = explain_host(cached.fleet, last.read(Known.LOCKS, feed.locks, ()), status.id, now=now)
    if explanation.cause is Cause.FAILED:
        output = read_or(lambda: adapters.operator.fleet.failure_output(status.id), None)
        explanation = explanation.with_output(output)
    findings = read_or(lambda: adapters.operator_checks.findings([status.id], now), ())
    explanation = explanation.with_checks(findings)
    view = host_view(
        status,
        explanation,
        cached.fleet,
        known[0] if known else None,
        last.read(Known.TARGETS, feed.targets, {}),
        last.read(Known.HISTORY, lambda: feed.history(RECENT), ()),
        now=now,
    )
    identity = next(each for each in cached.fleet.identities if each.id == status.id)
    withheld = withheld_of_host(read_withheld(request, adapters), identity)
    return show_page(request, adapters, user, "host.html", events=FLEET_EVENTS, view=view, withheld=withheld)
