"""The frame of every page, and the common parts of pages: links, moments, parameters and lists."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from zkdeployment.base.durations import ago, ahead
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.service.users.user import Right, User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.fleet.feed.fleet_assembly import FleetReading
    from zkdeployment.fleet.views.columns import Column
    from zkdeployment.service.views.fleet import FleetVerdict


@dataclass(frozen=True)
class ActLink:
    """A link to the form of an act; ``kind`` is ``danger``, ``primary`` or empty, ``key`` opens the form."""

    label: str
    href: str
    kind: str = ""
    key: str = ""


def host_page(host_id: str) -> str:
    """Return the address of the page of a host."""
    return f"/hosts/{quote(host_id, safe='')}"


def service_page(path: str) -> str:
    """Return the address of the page of a service; ``path`` begins with a slash."""
    return f"/services{quote(path)}"


def publication_page(sequence: int) -> str:
    """Return the address of the page of a publication."""
    return f"/history/{sequence}"


def commit_page(commit: str) -> str:
    """Return the address of the page of a commit."""
    return f"/commits/{commit}"


def intent_page(subject: Sequence[str]) -> str:
    """Return the address of the page of a group or a cluster, which differ in the number of names."""
    return "/".join(("/intents", *(quote(name, safe="") for name in subject)))


def act_page(name: str, back: str = "", **values: str) -> str:
    """Return the address of the form of an act; ``back`` is the page to which the form returns."""
    return with_query(f"/acts/{name}", {**values, "back": back})


def with_query(path: str, values: Mapping[str, str]) -> str:
    """Return an address with those of the values that are not empty as its query."""
    query = urlencode({name: value for name, value in values.items() if value})
    return f"{path}?{query}" if query else path


def with_job(address: str, commit: str) -> str:
    """Return the address of a page that shows the state of an act's commit."""
    path, _, query = address.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "job"]
    return f"{path}?{urlencode([*kept, ('job', commit)])}"


def author_name(author: str) -> str:
    """Return the name of a commit's author without the address."""
    return author.partition(" <")[0]


#: A path with an optional query. Browsers read ``//`` and ``/\\`` as the beginning of a foreign address.
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")

_MOST_CHARACTERS = 2000


def local_path(target: str) -> str:
    """Return ``target`` if it is a path of this site with an optional query, else the path of the front page."""
    return target if len(target) <= _MOST_CHARACTERS and _LOCAL.fullmatch(target) else "/"


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: ``machine`` in the format of HTML, ``clock`` for people, in UTC, and its ``age`` in words.

    For a future time, ``age`` is the time until then.
    """

    machine: str
    clock: str
    age: str


def deadline(time: float | None, now: float) -> Moment | None:
    """Return a future time as pages show it; ``None`` if it is unknown or impossible."""
    known = moment(time, now)
    return None if known is None or time is None else replace(known, age=ahead(time, now))


def moment(time: float | None, now: float) -> Moment | None:
    """Return a time in seconds since the epoch as pages show it; ``None`` if it is unknown or impossible."""
    if not time or time < 0:
        return None
    try:
        at = datetime.fromtimestamp(time, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return Moment(at.strftime("%Y-%m-%dT%H:%M:%SZ"), at.strftime("%Y-%m-%d %H:%M:%S UTC"), ago(time, now))


if TYPE_CHECKING:
    Parameters = Mapping[str, Sequence[str]]

#: The longest text to search for.
_LONGEST_TEXT = 200

#: The most digits of a page's number.
_DIGITS = 7


def last_value(values: Parameters, name: str) -> str:
    """Return the last value of a parameter, or an empty text."""
    return (values.get(name) or [""])[-1]


def search_text(values: Parameters) -> str:
    """Return the text to search for, with single spaces."""
    return " ".join(last_value(values, "text").split())[:_LONGEST_TEXT]


def page_number(values: Parameters, name: str = "page") -> int:
    """Return the number of a page, at least 1."""
    page = last_value(values, name)
    return max(1, int(page)) if page.isascii() and page.isdigit() and len(page) <= _DIGITS else 1


State = TypeVar("State", bound=Enum)
Sort = TypeVar("Sort", bound="Enum | Column")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(ABC, Generic[State, Sort]):
    """A view of a list: rows in one of ``states`` (empty: in any) that contain a text, in order, by pages.

    ``PATH`` is the address of the page with the list, ``kept`` are the values of its further parameters ``KEPT``.
    """

    PATH: ClassVar[str]
    KEPT: ClassVar[tuple[str, ...]] = ()

    states: frozenset[State] = frozenset()
    text: str = ""
    sort: Sort
    descending: bool = False
    page: int = 1
    kept: tuple[tuple[str, str], ...] = ()

    @staticmethod
    @abstractmethod
    def _all_states() -> Sequence[State]:
        """Return the states in the order in which the address names them."""

    @staticmethod
    @abstractmethod
    def _all_sorts() -> Sequence[Sort]:
        """Return the orders of the list, the default first."""

    @classmethod
    def of_parameters(cls, values: Parameters) -> Self:
        """Return the view that the parameters of an address describe; a malformed value counts as absent."""
        order = last_value(values, "sort")
        names = values.get("state", ())
        sorts = {sort.value: sort for sort in cls._all_sorts()}
        return cls(
            states=frozenset(state for state in cls._all_states() if state.value in names),
            text=search_text(values),
            sort=sorts.get(order.removeprefix("-"), cls._all_sorts()[0]),
            descending=order.startswith("-"),
            page=page_number(values),
            kept=tuple((name, found) for name in cls.KEPT if (found := last_value(values, name)[:_LONGEST_TEXT])),
        )

    @property
    def address(self) -> str:
        """The address of the list with this view."""
        values = [*self.kept, *(("state", name) for name in self.state_names)]
        values += [("text", self.text)] if self.text else []
        if self.sort is not self._all_sorts()[0] or self.descending:
            values.append(("sort", f"{'-' if self.descending else ''}{self.sort.value}"))
        values += [("page", str(self.page))] if self.page > 1 else []
        return f"{self.PATH}?{urlencode(values)}" if values else self.PATH

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the selected states."""
        return tuple(state.value for state in self._all_states() if state in self.states)

    @property
    def is_filtered(self) -> bool:
        """Whether the view may omit rows."""
        return bool(self.states or self.text)

    def at(self, page: int) -> str:
        """Return the address of another page of the view."""
        return replace(self, page=page).address

    def with_state(self, state: State) -> Self:
        """Return the first page of the view with a state added to the selected ones, or removed from them."""
        return replace(self, states=self.states ^ {state}, page=1)

    def sorted_by(self, sort: Sort) -> Self:
        """Return the first page of the view in another order; the same order is reversed."""
        return replace(self, sort=sort, descending=sort is self.sort and not self.descending, page=1)


Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ListPart(Generic[Row]):
    """The rows on one page of a list, their ``range`` in words, and the pages before and after them."""

    rows: tuple[Row, ...]
    range: str
    previous: str | None
    next: str | None


def last_page(total: int, size: int) -> int:
    """Return the number of the last page of a list."""
    return max(1, -(-total // size))


def list_part(
    rows: Sequence[Row], number: int, size: int, noun: str, address: Callable[[int], str]
) -> ListPart[Row]:
    """Return the part of a list on a page, or on the last page if there are fewer.

    ``size`` is the number of rows of a page, ``noun`` the word for a row (empty: only numbers are shown),
    ``address`` that of the page with a number.
    """
    total, number = len(rows), min(number, last_page(len(rows), size))
    first, end = (number - 1) * size, min(number * size, total)
    all_rows = counted(total, noun, ",") if noun else f"{total:,}"
    is_whole = total <= size and (noun or not rows)
    return ListPart(
        tuple(rows[first:end]),
        (all_rows if noun else "") if is_whole else f"{first + 1:,} to {end:,} of {all_rows}",
        address(number - 1) if number > 1 else None,
        address(number + 1) if end < total else None,
    )


def page_address(address: str, page: int, **values: str) -> str:
    """Return the address of a page of a list with these values."""
    return with_query(address, {**values, "page": str(page) if page > 1 else ""})


def _always(_reading: FleetReading) -> bool:
    return True


class MainPage(NamedTuple):
    """A page with a tab: its name, its path, the key that opens it after ``g``, and its place among the tabs.

    Users with ``right`` see the tab. ``is_used`` returns whether the fleet uses what the page shows; if not, the
    tab is listed below *More*.
    """

    name: str
    path: str
    key: str
    place: int
    right: Right = Right.READ_FLEET
    is_used: Callable[[FleetReading], bool] = _always


#: The tabs of the service itself; features add theirs at places in between.
MAIN_PAGES = (
    MainPage("Fleet", "/", "h", 0),
    MainPage("Services", "/services", "s", 10),
    MainPage("History", "/history", "y", 70),
    MainPage("Locks", "/locks", "l", 80),
    MainPage("Plan", "/plan", "n", 90),
    MainPage("Audit", "/audit", "a", 100, Right.READ_AUDIT),
)


@dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the main pages; ``current`` is whether this page belongs to it.

    A ``spare`` tab is listed below *More*: the fleet does not use what its page shows.
    """

    name: str
    href: str
    current: bool
    key: str = ""
    spare: bool = False


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The frame of a page.

    ``events`` are the kinds of events after which the page is no longer current, separated by spaces; empty for
    pages that never change. ``now`` is the service's time in seconds since the epoch. ``stale`` means
    that ZooKeeper is unreachable: the data are those of ``read_at``. ``token`` protects forms against other sites.
    ``verdict`` is the state of the fleet, for users who may read it, and ``acts`` are the acts on it. A page that
    ``is_front`` shows both itself.
    """

    now: float
    tabs: tuple[Tab, ...] = ()
    events: str = ""
    user: str = ""
    role: str = ""
    token: str = ""
    stale: bool = False
    read_at: Moment | None = None
    verdict: FleetVerdict | None = None
    acts: tuple[ActLink, ...] = ()
    is_front: bool = False
    is_find: bool = False


def page_frame(  # noqa: PLR0913  the facts that all pages show
    path: str,
    user: User | None,
    *,
    now: float,
    main_pages: Iterable[MainPage] = MAIN_PAGES,
    reading: FleetReading | None = None,
    events: str = "",
    token: str = "",
    connected: bool = True,
    read_at: float | None = None,
    verdict: FleetVerdict | None = None,
    acts: tuple[ActLink, ...] = (),
) -> PageFrame:
    """Return the frame of the page at ``path``, for a user, or for a visitor who is not logged in.

    ``reading`` tells which tabs are spare; without a reading, no tab is.
    """
    if user is None:
        return PageFrame(now)
    offered = [page for page in sorted(main_pages, key=attrgetter("place")) if user.may(page.right)]
    return PageFrame(
        now=now,
        tabs=tuple(_tab(page, path, reading) for page in offered),
        events=events,
        user=user.name,
        role=user.role.value,
        token=token,
        stale=not connected,
        read_at=moment(read_at, now),
        verdict=verdict if user.may(Right.READ_FLEET) else None,
        acts=() if "/acts/" in path else acts,
        is_front=path == "/",
        is_find=path == "/find",
    )


def _tab(page: MainPage, path: str, reading: FleetReading | None) -> Tab:
    current = _is_current(page.path, path)
    spare = reading is not None and not current and not page.is_used(reading)
    return Tab(page.name, page.path, current, page.key, spare)


def _is_current(href: str, path: str) -> bool:
    if href == "/":
        return path == "/" or path.startswith("/hosts/")
    return path == href or path.startswith(f"{href}/")
