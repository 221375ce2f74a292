"""The choice of a strategy in a configuration, and the keys that resemble a choice without being one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.forms import Fault
    from zkdeployment.documents.yaml_values import Way

_CHOICE = "deployment_strategy"
_CHOICES: tuple[Way, ...] = (("data", _CHOICE), ("data", "physical_provisioner", _CHOICE))


def choice_faults(value: Any) -> Iterator[Fault]:
    """Return faults of keys that look like the choice of a strategy but are not, and of contradicting choices."""
    yield from _near_choices((), value)
    named = {way: name for way, name in _choices(value) if isinstance(name, str)}
    if len(set(named.values())) > 1:
        yield _CHOICES[1], f"expected one strategy, found {' and '.join(named.values())}"


def choice(value: Any) -> tuple[Way, str | None]:
    """Return the place and the name of the strategy that a valid configuration chooses."""
    return next(_choices(value), (("data",), None))


def _choices(value: Any) -> Iterator[tuple[Way, Any]]:
    for way in _CHOICES:
        place = value
        for key in way:
            place = place.get(key) if isinstance(place, dict) else None
        if place is not None:
            yield way, place


def _near_choices(way: Way, value: object) -> Iterator[Fault]:
    if not isinstance(value, dict):
        return
    import difflib  # noqa: PLC0415  agents need less memory without it

    for key, content in value.items():
        here = (*way, key)
        name = key.lower().replace("-", "_")
        if here not in _CHOICES and difflib.get_close_matches(name, [_CHOICE], cutoff=0.85):
            yield here, f"{key} chooses no strategy here; expected {_CHOICE} in data"
        yield from _near_choices(here, content)
