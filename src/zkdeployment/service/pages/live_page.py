"""Pages that stay current: rendered from templates, refreshed in parts, and shown with the last known values."""

from __future__ import annotations

import contextlib
import hashlib
from enum import Enum
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException

from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.features import installed
from zkdeployment.base.stop import output_place
from zkdeployment.base.text import printable, printable_lines
from zkdeployment.service.access import cookies
from zkdeployment.service.access.identity import session_user
from zkdeployment.service.acts import RollBackFleet, decision_acts, fleet_acts, retry_link
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.views.fleet import fleet_verdict
from zkdeployment.service.views.frame import (
    MAIN_PAGES,
    ActLink,
    MainPage,
    PageFrame,
    author_name,
    moment,
    page_frame,
)
from zkdeployment.service.views.services import WithheldSnapshot
from zkdeployment.strategies.progress import has_failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastapi import Request

    from zkdeployment.base.publication import LeftService
    from zkdeployment.fleet.feed.fleet_assembly import CachedFleet
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.publishing.targets.compiler import ServiceTarget
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.users.user import User
    from zkdeployment.strategies.state import RolloutState


#: The folder of style sheets, scripts and icons.
STATIC = files("zkdeployment.service") / "static"


@cache
def asset(name: str) -> str:
    """Return the address of a static file; it changes with the content, so that browsers keep the file."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:12]}"


def _visible(value: object) -> object:
    """Return a value for a page; escape characters that are invisible or change the direction of text."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _lines(text: str) -> Markup:
    """Return a text of several lines for a page, with its line breaks and tabs."""
    return Markup.escape(printable_lines(text))


_TEMPLATES = Environment(
    loader=ChoiceLoader(
        [
            PackageLoader("zkdeployment.service"),
            *(PackageLoader(name) for places in installed(ServicePlaces) for name in places.template_packages),
        ]
    ),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_visible,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["asset"] = asset
_TEMPLATES.filters["lines"] = _lines
_TEMPLATES.filters["output_place"] = output_place
_TEMPLATES.filters["moment"] = moment
_TEMPLATES.filters["author_name"] = author_name


def render_page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **values: object,
) -> HTMLResponse:
    """Return a page made from a template and its values."""
    text = render(template, request=request, site=cookies.site_of(request), **values)
    return HTMLResponse(text, status, headers=dict(headers or {}))


def render(template: str, **values: object) -> str:
    """Return the text of a page."""
    return _TEMPLATES.get_template(template).render(values)


def error_page(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Return the page that reports an error: in the frame of all pages, if the user is known."""
    adapters: ServerAdapters = request.app.state.adapters
    values: dict[str, Any] = {"title": HTTPStatus(status).phrase, "detail": detail, "unavailable": status == 503}
    values["repeats"] = values["unavailable"] and request.method in cookies.SAFE_METHODS
    user = _visitor(request, adapters)
    if user is not None and not is_fragment(request):
        with contextlib.suppress(UnreachableError):  # the fleet was never read
            page = show_page(request, adapters, user, "error.html", status=status, **values)
            page.headers.update(headers or {})
            return page
    return render_page(request, "error.html", status=status, headers=headers, layout="base.html", **values)


def _visitor(request: Request, adapters: ServerAdapters) -> User | None:
    """Return the user of a request that failed, possibly before its user was read; ``None`` if it is not known."""
    user: User | None = getattr(request.state, "user", None)
    if user is None:
        with contextlib.suppress(UnreachableError, HTTPException):
            user = session_user(request, adapters)
    return user


if TYPE_CHECKING:
    T = TypeVar("T")
    V = TypeVar("V")
    D = TypeVar("D")


class Known(Enum):
    """The values that are remembered: one of each kind, so that the memory is bounded."""

    LOCKS = "locks"
    HISTORY = "history"
    TARGETS = "targets"
    INTENTS = "intents"
    REPORTS = "reports"
    WITHHELD = "withheld"
    LEFT = "left"
    SESSIONS = "sessions that have ended"
    USES = "the use of pools"
    ACTS = "acts"
    FAILED_LOGINS = "failed logins"
    SUMMARIES = "summaries"
    REFUSALS = "refusals"
    PUBLICATION = "publication"
    TRACE = "trace"


class LastKnown:
    """Remembers the last value of each kind. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._values: dict[Known, Any] = {}

    def read(self, kind: Known, read: Callable[[], V], default: D) -> V | D:
        """Return the result of ``read``; while ZooKeeper is unreachable, its last result, or else ``default``."""
        try:
            value = self._values[kind] = read()
        except UnreachableError:
            value = self._values.get(kind, default)
        return value

    def read_of(self, kind: Known, subject: object, read: Callable[[], V]) -> V:
        """Return the result of ``read``; while ZooKeeper is unreachable, the last one for the same subject."""
        value = self.read(kind, lambda: (subject, read()), None)
        if value is None or value[0] != subject:
            raise UnreachableError("ZooKeeper does not answer; the service tries again by itself")
        return value[1]


#: The number of publications that a page searches for the wanted revision and for results of a host.
RECENT = 20

#: The attribute of the parts of an answer that replace the parts of the page with the same ids.
_RENEWED = Markup("data-renewed")

#: The kinds of events that concern a page which shows the fleet.
FLEET_EVENTS = "host publication rollout stop instances"


def is_fragment(request: Request) -> bool:
    """Return whether a page asks for its parts, to refresh itself."""
    return request.headers.get("X-Page-Parts") == "true"


def changed_hosts(request: Request, mark: str) -> frozenset[str] | None:
    """Return the ids of the hosts that changed since the page was made; ``None`` if it needs the whole map.

    ``mark`` is that of the present map.
    """
    if not is_fragment(request) or request.headers.get("X-Map-Mark") != mark:
        return None
    return frozenset(unquote(name) for name in request.headers.get("X-Changed-Hosts", "").split())


def show_page(  # noqa: PLR0913  the facts that all pages show
    request: Request,
    adapters: ServerAdapters,
    user: User,
    template: str,
    *,
    events: str = "",
    status: int = 200,
    address: str = "",
    cached: CachedFleet | None = None,
    **values: object,
) -> HTMLResponse:
    """Return a page, or its parts; ``events`` are the kinds of events after which it refreshes itself.

    ``address`` is that of the page which shows the parts, if it differs from the address of the request.
    ``cached`` is the fleet that the page shows, if it shows one: the frame then shows the same one.
    """
    cached = cached or adapters.feed.snapshot()
    fragment = is_fragment(request)
    layout = {
        "layout": "fragment.html" if fragment else "page.html",
        "fragment": fragment,
        "renewed": _RENEWED if fragment else "",
        "event": getattr(request.state, "event", 0),
        "frame": _frame(request, adapters, user, cached, events, address or view_address(request)),
        "site": cookies.site_of(request),
    }
    return HTMLResponse(render(template, **layout, **values), status)


@cache
def main_pages() -> tuple[MainPage, ...]:
    """Return the pages with a tab, of the service and of all features."""
    return (*MAIN_PAGES, *(page for places in installed(ServicePlaces) for page in places.main_pages()))


def _frame(
    request: Request, adapters: ServerAdapters, user: User, cached: CachedFleet, events: str, address: str
) -> PageFrame:
    """Return the frame of the page at an address, with the state of the fleet and the acts on it."""
    offered: tuple[ActLink, ...] = ()
    if cached.connected:
        offered = (*decision_acts(cached.status, address, user), *fleet_acts(cached.fleet, address, user))
    now = adapters.clock.now()
    return page_frame(
        address.partition("?")[0],
        user,
        now=now,
        main_pages=main_pages(),
        reading=cached.reading,
        events=events,
        token=cookies.form_token(request),
        connected=cached.connected,
        read_at=cached.read_at,
        verdict=fleet_verdict(
            cached.fleet, cached.status, now, stale=not cached.connected, syncer=cached.reading.syncer
        ),
        acts=(*_rollback(request, adapters, user, cached, address), *offered),
    )


def failure_acts(
    request: Request, adapters: ServerAdapters, user: User, cached: CachedFleet
) -> tuple[ActLink, ...]:
    """Return the acts that failed hosts suggest, the safest first: the rollback, and the retry of the only one."""
    return (*_rollback(request, adapters, user, cached, view_address(request)), *retry_acts(request, user, cached))


def retry_acts(request: Request, user: User, cached: CachedFleet) -> tuple[ActLink, ...]:
    """Return the retry of the only failed host, for pages whose frame offers the rollback."""
    return retry_link(cached.fleet, cached.status, view_address(request), user) if cached.connected else ()


def _rollback(
    request: Request, adapters: ServerAdapters, user: User, cached: CachedFleet, back: str
) -> tuple[ActLink, ...]:
    def read() -> Sequence[PublicationRecord]:
        return last_known(request).read(Known.HISTORY, lambda: adapters.feed.history(RECENT), ())

    return rollback_act(adapters, user, cached, back, read)


def rollback_act(
    adapters: ServerAdapters,
    user: User,
    cached: CachedFleet,
    back: str,
    read: Callable[[], Sequence[PublicationRecord]],
) -> tuple[ActLink, ...]:
    """Return the rollback that the failure of the published revision suggests to the user.

    ``read`` returns the last publications, newest first.
    """
    if not cached.connected or adapters.commits is None or not user.may_act(RollBackFleet.RIGHT):
        return ()
    attempts = adapters.feed.rollouts
    return read_or(lambda: rollback_link(read(), attempts, cached.fleet, cached.status, back), ())


#: The most characters of a commit's subject on a button.
_MOST_CHARACTERS = 32


def rollback_link(
    records: Sequence[PublicationRecord],
    attempts: Callable[[int], Sequence[RolloutState]],
    snapshot: FleetSnapshot,
    status: FleetStatus,
    back: str,
) -> tuple[ActLink, ...]:
    """Return the link to the rollback that a failure suggests: to the last revision that succeeded.

    ``records`` are the last publications, newest first; ``attempts`` as in ``last_good_revision``. Nothing is
    suggested without such a revision, or if neither a deployment of a host nor the rollout of the published
    revision failed.
    """
    from zkdeployment.publishing.acts.rollback import last_good_revision, restored_commit  # noqa: PLC0415  rare

    ids = snapshot.failed_deployments
    failed = any(host.state.value == "failed" and host.id in ids for host in status.hosts)
    failed |= snapshot.rollout is not None and has_failed(snapshot.rollout)
    revision = last_good_revision(records, attempts, with_current=snapshot.refusal is not None) if failed else None
    record = next((each for each in records if isinstance(revision, str) and each.revision == revision), None)
    if record is None:
        return ()
    commit, subject = restored_commit(record, records)
    shown = subject if len(subject) <= _MOST_CHARACTERS else f"{subject[: _MOST_CHARACTERS - 1].rstrip()}…"
    label = f"Roll back to {f'“{shown}”' if shown else commit}"
    return (RollBackFleet.link(label, "primary", back, sequence=str(record.sequence), now="yes"),)


def last_known(request: Request) -> LastKnown:
    """Return the values that the application remembers for the time when ZooKeeper is away."""
    memory: LastKnown = request.app.state.last_known
    return memory


def read_withheld(request: Request, adapters: ServerAdapters) -> WithheldSnapshot:
    """Return the services that are withheld, the published intents, and the services that left governance."""
    nothing: frozenset[ServiceTarget] = frozenset()
    withheld = last_known(request).read(Known.WITHHELD, adapters.feed.withheld, nothing)
    none_left: tuple[LeftService, ...] = ()
    left = last_known(request).read(Known.LEFT, adapters.feed.left, none_left)
    return WithheldSnapshot(withheld, adapters.feed.snapshot().reading.governing_records, left)


def read_or(read: Callable[[], T], default: D) -> T | D:
    """Return the result of ``read``, or ``default`` while ZooKeeper is away: the other parts stay useful."""
    try:
        return read()
    except UnreachableError:
        return default


def view_address(request: Request) -> str:
    """Return the path and the query of a page: the view to which the user returns after an act."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path
