"""The common parts of requests and responses about host pools: they are those of Duffy 3."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from zkdeployment.documents.durations import (
    DURATION_PATTERN,
    LONGEST_DURATION,
    duration_seconds,
    signed_duration,
)


class LeasingBody(BaseModel):
    """A body with these keys; requests may contain others, as in Duffy."""

    model_config = ConfigDict(extra="ignore")


class GetResult(LeasingBody):
    """An answer that shows something."""

    action: Literal["get"] = "get"


class PostResult(LeasingBody):
    """An answer that shows what was created."""

    action: Literal["post"] = "post"


class PutResult(LeasingBody):
    """An answer that shows what was changed."""

    action: Literal["put"] = "put"


def read_duration(given: object) -> float:
    """Return the seconds of a duration in a request; raises ``ValueError``."""
    seconds: float | None = None
    if isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given) if given <= LONGEST_DURATION else None
    elif isinstance(given, str):
        seconds = float(given) if given.isascii() and given.isdecimal() else duration_seconds(given.strip())
    if seconds is None or not 0 < seconds <= LONGEST_DURATION:
        raise ValueError("expected seconds, or a duration such as 6h or 1h30m, of at most 100 years")
    return seconds


def read_signed_duration(given: object) -> float:
    """Return the seconds of a duration with a sign in a request; raises ``ValueError``."""
    seconds = signed_duration(given) if isinstance(given, str) else None
    if seconds is None:
        raise ValueError("expected a duration with a sign, such as +1h30m or -20m, of at most 100 years")
    return seconds


#: A time that a session or a tenant may have, in seconds.
Lifetime = Annotated[
    float,
    BeforeValidator(read_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DURATION},
                {"type": "string", "pattern": DURATION_PATTERN},
            ]
        }
    ),
]

#: A duration by which a time changes, in seconds.
Delta = Annotated[
    float,
    BeforeValidator(read_signed_duration),
    WithJsonSchema({"type": "string", "pattern": "^[+-]", "examples": ["+1h30m", "-20m"]}),
]


def time_of(seconds: float) -> datetime:
    """Return a time in seconds since the epoch as answers show it."""
    return datetime.fromtimestamp(seconds, UTC)


def optional_time(seconds: float | None) -> datetime | None:
    """Return a time that may be missing."""
    return None if seconds is None else time_of(seconds)
