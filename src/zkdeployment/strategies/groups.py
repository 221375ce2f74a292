"""The groups of a rollout: their members, success criteria and time windows."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from zkdeployment.base.host import Facts
    from zkdeployment.strategies.strategy import Criteria, Group, Selector, Strategy, Window


#: Values of a criterion that a message names.
_NAMED = 3


def members(group: Group, hosts: Mapping[str, Facts]) -> frozenset[str]:
    """Return the names of the hosts that match any selector of a group; all hosts if it has no selectors.

    Hosts that can be leased are in no group.
    """
    if not group.selectors:
        return frozenset(name for name, facts in hosts.items() if not facts.is_leasable)
    return frozenset(
        name
        for name, facts in hosts.items()
        if any(is_selected_by(selector, name, facts) for selector in group.selectors)
    )


def is_selected(strategy: Strategy, name: str, facts: Facts) -> bool:
    """Whether a host is in any group of a strategy; a host in no group does not deploy."""
    return any(members(group, {name: facts}) for group in strategy.groups)


def selects_only_by_name(strategy: Strategy, names: Collection[str]) -> bool:
    """Whether all selectors of a strategy select by names, and only by these ``names``."""
    selectors = [selector for group in strategy.groups for selector in group.selectors]
    return all(
        selector.names.issubset(names) and not (selector.tags or selector.labels or selector.racks)
        for selector in selectors
    )


def unmatched_selectors(strategy: Strategy, hosts: Mapping[str, Facts]) -> tuple[str, ...]:
    """Return a warning for each selector of a strategy that matches none of ``hosts``, the known hosts."""
    return tuple(
        f"selector {number} of group {group.name} matches no known host ({_describe(selector)});"
        " correct the selector or the hosts' configuration"
        for group in strategy.groups
        for number, selector in enumerate(group.selectors, 1)
        if not any(is_selected_by(selector, name, facts) for name, facts in hosts.items())
    )


def _describe(selector: Selector) -> str:
    """Return the criteria of a selector as text, each with its first values."""
    criteria = {
        "node_names": selector.names,
        "node_tags": selector.tags,
        "node_labels": [f"{key}: {value}" for key, value in selector.labels],
        "rack_names": selector.racks,
    }
    return "; ".join(f"{name} {_first(values)}" for name, values in criteria.items() if values) or "any host"


def _first(values: Collection[str]) -> str:
    rest = f" or {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return " or ".join(sorted(values)[:_NAMED]) + rest


def is_selected_by(selector: Selector, name: str, facts: Facts) -> bool:
    """Whether a host, given by its id or name and its facts, meets every criterion of a selector."""
    return (
        not facts.is_leasable
        and (not selector.names or name in selector.names or facts.name in selector.names)
        and (not selector.racks or facts.rack in selector.racks)
        and (not selector.tags or not selector.tags.isdisjoint(facts.tags))
        and (not selector.labels or not selector.labels.isdisjoint(facts.labels.items()))
    )


def misses(criteria: Criteria, *, successful: int, failed: int, total: int) -> Iterator[str]:
    """Return a sentence for each criterion that these numbers miss; a group without hosts misses no percentage."""
    percent = criteria.percent_successful
    if percent is not None and successful * 100 < percent * total:
        share = f"{successful * 100 / total:.4g} %"
        yield f"{successful} of {total} hosts successful ({share}), expected at least {percent} %"
    if criteria.minimum_successful is not None and successful < criteria.minimum_successful:
        yield f"{successful} of {total} hosts successful, expected at least {criteria.minimum_successful}"
    if criteria.maximum_failed is not None and failed > criteria.maximum_failed:
        yield f"{failed} of {total} hosts failed, expected at most {criteria.maximum_failed}"


#  A window opens at least once a week, unless a change of the clocks skips its hour.
_DAYS_AHEAD = 15


def is_open(windows: Collection[Window], now: float) -> bool:
    """Whether any window is open at ``now`` (seconds since the epoch), or there are no windows."""
    return not windows or any(start <= now < end for window in windows for start, end in _spans(window, now))


def next_opening(windows: Collection[Window], now: float) -> float:
    """Return when the first of the windows opens after ``now``, in seconds since the epoch."""
    return min(start for window in windows for start, _ in _spans(window, now) if start > now)


def _spans(window: Window, now: float) -> Iterator[tuple[float, float]]:
    """Return when the window opens and closes, from the day before ``now`` on."""
    zone = ZoneInfo(window.zone)
    today = datetime.fromtimestamp(now, zone).date()
    length = (window.end - window.start) % (24 * 60) or 24 * 60
    for ahead in range(-1, _DAYS_AHEAD + 1):
        day = today + timedelta(days=ahead)
        if day.weekday() in window.days:
            begin = datetime.combine(day, time()) + timedelta(minutes=window.start)
            end = begin + timedelta(minutes=length)
            span = begin.replace(tzinfo=zone).timestamp(), end.replace(tzinfo=zone).timestamp()
            if span[0] < span[1]:  # otherwise the change of the clocks skips its hour
                yield span
