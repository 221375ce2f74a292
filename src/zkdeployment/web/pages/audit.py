"""``/audit``: who acted on the fleet and on its users, and who failed to log in."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from zkdeployment.fleet.audit import audit_records
from zkdeployment.model.user import Right, User
from zkdeployment.web.access.rights import require
from zkdeployment.web.dependencies import ConnectedAdapters
from zkdeployment.web.pages.live_page import show_page
from zkdeployment.web.views.audit import SHOWN, audit_view

router = APIRouter(include_in_schema=False)


@router.get("/audit")
def show_audit(
    request: Request,
    adapters: ConnectedAdapters,
    user: Annotated[User, Depends(require(Right.READ_AUDIT))],
    who: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Return the page of acts and failed logins; ``who`` selects those of a user, an operator or an address."""
    who = who.strip()
    records = audit_records(adapters.feed.acts(), adapters.logins.failed_logins(), who=who, limit=SHOWN)
    view = audit_view(records, who, adapters.clock.now())
    return show_page(request, adapters, user, "audit.html", view=view)
