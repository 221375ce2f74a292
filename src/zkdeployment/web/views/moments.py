"""Moments as pages show them: an age for people, the exact time for everybody who needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from zkdeployment.fleet.ages import ago, ahead


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: ``machine`` in the format of HTML, ``clock`` for people, in UTC, and its ``age`` in words.

    The age of a time that is to come is the time until then.
    """

    machine: str
    clock: str
    age: str


def deadline(time: float | None, now: float) -> Moment | None:
    """Return a time that is to come, as pages show it; ``None`` if it is unknown or impossible."""
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
