"""The result of a publication on a host. The records of publications belong to ``publishing``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.records import Key, Record, no_keys

#: The longest error that is kept, in characters.
MAX_ERROR_LENGTH = 300


def _tenths(seconds: float) -> float:
    return round(seconds, 1)


def _shortened(error: str | None) -> str | None:
    return None if error is None else error[:MAX_ERROR_LENGTH]


def _error(value: object) -> str | None:
    """Return an error that was stored: a malformed one must not read as success."""
    return None if value is None else str(value)


@dataclass(frozen=True, slots=True)
class HostResult(Record):
    """The result of a publication on a host.

    ``time`` is when the host finished or failed, in seconds since the epoch; ``seconds`` is the duration of its
    deployment. ``error`` is one line; ``None`` means success. ``failed`` is the failure that ``error`` describes.
    ``unknown`` are the keys that this version does not know.
    """

    is_lenient: ClassVar[bool] = True
    host_id: Annotated[str, Key("id")]
    host_name: Annotated[str, Key("name")]
    time: Annotated[float, Key(write=_tenths)]
    seconds: Annotated[float, Key(write=_tenths)]
    error: Annotated[str | None, Key(read=_error, write=_shortened)] = None
    failed: DeploymentFailure | None = None
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)
