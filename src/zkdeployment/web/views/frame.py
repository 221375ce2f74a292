"""The frame of every page around its content: the tabs, the user, and how old the data are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.user import Right
from zkdeployment.web.views.moments import moment

if TYPE_CHECKING:
    from zkdeployment.model.user import User
    from zkdeployment.web.views.moments import Moment

#: The tabs in their order.
_TABS = (
    ("Fleet", "/"),
    ("Services", "/services"),
    ("Intents", "/intents"),
    ("Checks", "/checks"),
    ("Pools", "/pools"),
    ("Rollout", "/rollout"),
    ("History", "/history"),
    ("Locks", "/locks"),
    ("Plan", "/plan"),
)

_AUDIT = ("Audit", "/audit")

#: The tab of users who may not read the fleet.
_POOLS = (("Pools", "/pools"),)


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the main pages; ``current`` is whether this page belongs to it."""

    name: str
    href: str
    current: bool


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The frame of a page.

    ``events`` are the kinds of events after which the page is no longer current, separated by spaces; empty for
    pages that never change. ``now`` is the service's time in seconds since the epoch. ``stale`` means
    that ZooKeeper is unreachable: the data are those of ``read_at``. ``token`` protects forms against other sites.
    """

    now: float
    tabs: tuple[Tab, ...] = ()
    events: str = ""
    user: str = ""
    role: str = ""
    token: str = ""
    stale: bool = False
    read_at: Moment | None = None


def page_frame(  # noqa: PLR0913  the facts that all pages show
    path: str,
    user: User | None,
    *,
    now: float,
    events: str = "",
    token: str = "",
    connected: bool = True,
    read_at: float | None = None,
) -> PageFrame:
    """Return the frame of the page at ``path``, for a user, or for a visitor who is not logged in."""
    if user is None:
        return PageFrame(now)
    offered = _TABS if user.may(Right.READ_FLEET) else _POOLS
    offered = (*offered, _AUDIT) if user.may(Right.READ_AUDIT) else offered
    return PageFrame(
        now=now,
        tabs=tuple(Tab(name, href, _is_current(href, path)) for name, href in offered),
        events=events,
        user=user.name,
        role=user.role.value,
        token=token,
        stale=not connected,
        read_at=moment(read_at, now),
    )


def _is_current(href: str, path: str) -> bool:
    if href == "/":
        return path == "/" or path.startswith("/hosts/")
    return path == href or path.startswith(f"{href}/")
