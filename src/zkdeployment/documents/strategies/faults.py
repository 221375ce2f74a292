"""The faults of valid forms of strategies: unknown references, contradictions, and advice."""

from __future__ import annotations

import graphlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.forms import Fault, one_of
from zkdeployment.model.strategy import Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zkdeployment.documents.yaml_values import Way
    from zkdeployment.model.strategy import Group


def group_faults(groups: list[dict[str, Any]]) -> Iterator[Fault]:
    """Return the faults of groups of a valid form.

    These are names given twice, unknown or circular dependencies, impossible windows, checks without bake time.
    """
    times = Counter(group["name"] for group in groups)
    for number, group in enumerate(groups):
        way: Way = ("data", "groups", number)
        if times[group["name"]] > 1:
            yield (*way, "name"), f"there are {times[group['name']]} groups {group['name']}; expected one"
        for position, parent in enumerate(group["depends_on"]):
            if parent not in times:
                yield (*way, "depends_on", position), f"there is no group {parent}; expected {one_of(times)}"
        if group.get("healthy_checks") and not _lasts(group.get("bake_time", 0)):
            yield (*way, "healthy_checks"), "expected a bake_time, in which the checks must become OK; found none"
        for position, window in enumerate(group.get("windows", ())):
            yield from window_faults((*way, "windows", position), window)
    try:
        graphlib.TopologicalSorter({group["name"]: group["depends_on"] for group in groups}).prepare()
    except graphlib.CycleError as error:
        circle = list(reversed(error.args[1]))  # graphlib lists a group before the groups that depend on it
        number = next(number for number, group in enumerate(groups) if group["name"] == circle[0])
        message = f"groups depend on each other in a circle: {' > '.join(circle)}"
        yield ("data", "groups", number, "depends_on"), message


def group_advice(groups: Iterable[Group]) -> Iterator[Fault]:
    """Return advice for the critical groups that succeed if their selectors match no host."""
    for number, group in enumerate(groups):
        selective = group.selectors and all(selector != Selector() for selector in group.selectors)
        if group.critical and selective and group.require_hosts is None:
            way = ("data", "groups", number, "selectors")
            yield (
                way,
                f"critical group {group.name} may be empty; add require_hosts: N, the hosts that it waits for",
            )


def _lasts(duration: float | str) -> bool:
    """Return whether a duration, in seconds or with a unit, is longer than 0."""
    return float(duration.rstrip("smhd") if isinstance(duration, str) else duration) > 0


def window_faults(way: Way, window: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield an unknown time zone, and a window that ends when it starts."""
    from zoneinfo import ZoneInfo  # noqa: PLC0415  agents need less memory without it

    try:
        ZoneInfo(window.get("zone", "UTC"))
    except (KeyError, ValueError, OSError):
        yield (*way, "zone"), f"there is no time zone {window['zone']}; expected a name as in Europe/Berlin"
    if window["from"] == window["to"]:
        yield way, "the window ends when it starts; expected two different times"
