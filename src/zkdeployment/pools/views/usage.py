"""The page of the use of pools: the held nodes over time, and the waiting times of requests."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.values import dataclass
from zkdeployment.pools.views.page import usage_page
from zkdeployment.service.views.frame import last_value
from zkdeployment.service.views.hosts import count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.pools.rules.usage import PoolUsage, TenantUsage, UsageWindow
    from zkdeployment.service.views.frame import Parameters

_DAY = 86400.0

#: The windows that the page offers: the word of the address, the label, and the seconds.
_RANGES = (
    ("day", "24 hours", _DAY),
    ("week", "7 days", 7 * _DAY),
    ("month", "30 days", 30 * _DAY),
    ("quarter", "90 days", 90 * _DAY),
    ("year", "a year", 366 * _DAY),
)
_USUAL = _RANGES[2]

#: The tenants or pools with a colour of their own; the others share one.
_MOST_SERIES = 7

#: The rows of the plot of waiting times, and the longest name beside a bar.
_MOST_BARS = 12
_LONGEST_NAME = 32

#: The vertical measures of the plot of nodes, in pixels: its top line, its bottom line, and its height.
_TOP, _BOTTOM, _HEIGHT = 18, 198, 220

#: The vertical measures of the plot of waiting times: its head, a row, and where the bar of a row begins.
_HEAD, _ROW, _BAR = 20, 34, 18


@dataclass(frozen=True, slots=True)
class UsageLink:
    """A link to another part of the use of pools."""

    label: str
    href: str
    selected: bool


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A line of a plot with its label; ``place`` is in pixels or, with a percent sign, a part of the width."""

    place: str
    label: str


@dataclass(frozen=True, slots=True)
class StackPart:
    """A part of a bar: the class of its colour, its top and its height in pixels."""

    colour: str
    top: float
    height: float


@dataclass(frozen=True, slots=True)
class PeriodBar:
    """The bar of a period: its place and width in percent, its description, and the numbers of its series."""

    x: float
    width: float
    when: str
    label: str
    parts: tuple[StackPart, ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldPlot:
    """The plot of the nodes that were held: a bar for each period, with a part for each series.

    ``top``, ``bottom`` and ``height`` are in pixels.
    """

    description: str
    top: int
    bottom: int
    height: int
    series: tuple[tuple[str, str], ...]
    lines: tuple[PlotLine, ...]
    bars: tuple[PeriodBar, ...]


@dataclass(frozen=True, slots=True)
class WaitBar:
    """The waiting times of a tenant for a pool: two widths in percent, and two places in pixels."""

    name: str
    label: str
    median: float
    longest: float
    text: int
    top: int


@dataclass(frozen=True, slots=True)
class WaitPlot:
    """The plot of waiting times: a bar for each tenant and pool, the longest wait first."""

    description: str
    height: int
    lines: tuple[PlotLine, ...]
    bars: tuple[WaitBar, ...]
    more: int


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of the table of tenants and pools; ``href`` leads to the use of the tenant alone."""

    tenant: str
    href: str
    pool: str
    sessions: str
    hours: str
    most: str
    median: str
    longest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageView:
    """The page of the use of pools; ``held`` is ``None`` if no node was held, ``waits`` if no session began.

    ``tenant`` is the tenant to whom the page is limited, or empty; ``all_tenants`` leads back to all.
    """

    headline: str
    ranges: tuple[UsageLink, ...]
    pools: tuple[UsageLink, ...]
    tenant: str
    all_tenants: str
    held: HeldPlot | None
    waits: WaitPlot | None
    rows: tuple[UsageRow, ...]
    shows_tenants: bool


def usage_seconds(parameters: Parameters) -> float:
    """Return the length of the requested window, in seconds before now; a month by default."""
    return _range(parameters)[2]


def usage_view(
    usage: PoolUsage, parameters: Parameters, pools: Collection[str], *, shows_tenants: bool
) -> UsageView:
    """Return the page; ``pools`` are the names of pools that a link may select.

    ``shows_tenants`` is whether the user may see the use of all tenants.
    """
    chosen, tenant = last_value(parameters, "pool"), last_value(parameters, "tenant") if shows_tenants else ""
    word, label, _ = _range(parameters)
    hours = sum(row.node_hours for row in usage.tenants)
    names = sorted({*pools, *(row.pool for row in usage.tenants), *([chosen] if chosen else [])})
    return UsageView(
        headline=f"{_number(hours)} node-hours in {label}" if usage.tenants else f"No node was held in {label}",
        ranges=tuple(UsageLink(each, _address(key, chosen, tenant), key == word) for key, each, _ in _RANGES),
        pools=(
            UsageLink("All pools", _address(word, "", tenant), not chosen),
            *(UsageLink(name, _address(word, name, tenant), name == chosen) for name in names),
        ),
        tenant=tenant,
        all_tenants=_address(word, chosen, ""),
        held=_held_plot(usage, by_tenant=shows_tenants and not tenant) if usage.tenants else None,
        waits=_wait_plot(usage.tenants, shows_tenants=shows_tenants),
        rows=tuple(_row(row, _address(word, chosen, row.tenant)) for row in usage.tenants),
        shows_tenants=shows_tenants,
    )


def _range(parameters: Parameters) -> tuple[str, str, float]:
    word = last_value(parameters, "range")
    return next((known for known in _RANGES if known[0] == word), _USUAL)


def _address(word: str, pool: str, tenant: str) -> str:
    return usage_page(range="" if word == _USUAL[0] else word, pool=pool, tenant=tenant)


def _row(usage: TenantUsage, href: str) -> UsageRow:
    return UsageRow(
        tenant=usage.tenant,
        href=href,
        pool=usage.pool,
        sessions=f"{usage.sessions:,}",
        hours=_number(usage.node_hours),
        most=f"{usage.most:,}",
        median="unknown" if usage.median_wait is None else age(usage.median_wait),
        longest="unknown" if usage.longest_wait is None else age(usage.longest_wait),
    )


def _held_plot(usage: PoolUsage, *, by_tenant: bool) -> HeldPlot:
    series = _series(usage.tenants, by_tenant=by_tenant)
    totals = [sum(each) for each in zip(*(numbers for _, numbers in series), strict=True)]
    top = _nice(max(totals, default=0.0))
    window, count = usage.window, len(totals)
    colours = [f"series{number}" for number in range(1, len(series) + 1)]
    if len(series) > _MOST_SERIES:
        colours[-1] = "others"
    bars = tuple(
        _period_bar(number, count, _moment(begin, window), series, colours, top)
        for number, (begin, _) in enumerate(window.periods)
    )
    what = "tenant" if by_tenant else "pool"
    return HeldPlot(
        description=f"Bars of the average number of nodes by {what}, from {_moment(window.begin, window)} to"
        f" {_moment(window.end, window)} (UTC). The highest bar is {_number(max(totals, default=0.0))}. The table"
        " below has all numbers.",
        top=_TOP,
        bottom=_BOTTOM,
        height=_HEIGHT,
        series=tuple(zip((name for name, _ in series), colours, strict=True)),
        lines=tuple(
            PlotLine(str(_height(top - value, top) + _TOP), _number(value)) for value in (top, top / 2, 0.0)
        ),
        bars=bars,
    )


def _series(rows: Sequence[TenantUsage], *, by_tenant: bool) -> list[tuple[str, list[float]]]:
    """Return the average numbers of nodes by tenant or by pool, the largest first; small ones are added up."""
    found: dict[str, list[float]] = {}
    for row in rows:
        name = row.tenant if by_tenant else row.pool
        before = found.get(name, [0.0] * len(row.held))
        found[name] = [one + more for one, more in zip(before, row.held, strict=True)]
    ordered = sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))
    rest = [numbers for _, numbers in ordered[_MOST_SERIES:]]
    others = [("others", [sum(each) for each in zip(*rest, strict=True)])] if rest else []
    return [*ordered[:_MOST_SERIES], *others]


def _period_bar(
    number: int,
    count: int,
    when: str,
    series: Sequence[tuple[str, Sequence[float]]],
    colours: Sequence[str],
    top: float,
) -> PeriodBar:
    """Return the bar of a period, its first series at the bottom."""
    parts, edge = [], float(_BOTTOM)
    values = [numbers[number] for _, numbers in series]
    for value, colour in zip(values, colours, strict=True):
        height = _height(value, top)
        edge = round(edge - height, 2)
        if value:
            parts.append(StackPart(colour, edge, height))
    held = ", ".join(f"{name} {_number(value)}" for (name, _), value in zip(series, values, strict=True) if value)
    width = 100 / count
    return PeriodBar(
        x=round(number * width + width * 0.1, 3),
        width=round(width * 0.8, 3),
        when=when,
        label=f"{when}: {held or 'no nodes'}",
        parts=tuple(parts),
        numbers=tuple(map(_number, values)),
    )


def _height(value: float, top: float) -> float:
    return round((_BOTTOM - _TOP) * value / top, 2)


def _wait_plot(rows: Sequence[TenantUsage], *, shows_tenants: bool) -> WaitPlot | None:
    waited = [(row.longest_wait, row.median_wait or 0.0, row) for row in rows if row.longest_wait is not None]
    if not waited:
        return None
    waited.sort(key=lambda item: (-item[0], item[2].tenant, item[2].pool))
    top = max(1.0, waited[0][0])
    bars = tuple(
        WaitBar(
            name=_shortened(f"{row.tenant}, {row.pool}" if shows_tenants else row.pool),
            label=f"{row.tenant}, {row.pool}: median {age(median)}, longest {age(longest)}",
            median=round(100 * median / top, 2),
            longest=round(100 * longest / top, 2),
            text=_HEAD + number * _ROW + _BAR - 4,
            top=_HEAD + number * _ROW + _BAR,
        )
        for number, (longest, median, row) in enumerate(waited[:_MOST_BARS])
    )
    more = len(waited) - len(bars)
    return WaitPlot(
        description=f"Bars of the waiting times in {count_text(len(bars), 'row')} of the table below: the solid"
        " part is the median, the whole bar the longest wait. The table has all numbers.",
        height=_HEAD + len(bars) * _ROW,
        lines=(PlotLine("0%", "0"), PlotLine("100%", age(top))),
        bars=bars,
        more=more,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _nice(value: float) -> float:
    """Return the least number with one digit of 1, 2, 4, 6 or 8 that is not less than a value."""
    if value <= 0:
        return 1.0
    size = 10.0 ** floor(log10(value))
    digit = next(digit for digit in (1, 2, 4, 6, 8, 10) if ceil(round(value / size, 6)) <= digit)
    return round(digit * size, 6)


def _number(value: float) -> str:
    """Return a number with at most two digits behind the point, and without zeros at the end."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _moment(time: float, window: UsageWindow) -> str:
    """Return the beginning of a period in UTC: its date and, for periods shorter than a day, its hour."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d" if window.step >= _DAY else "%m-%d %H:%M")
