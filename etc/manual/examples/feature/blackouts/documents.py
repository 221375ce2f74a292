"""The documents of blackouts, and the decision which of them is in force."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from zkdeployment.base.values import dataclass
from zkdeployment.documents.forms import NAME, TEXT, mapping_form
from zkdeployment.documents.kinds import DocumentKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True)
class Blackout:
    """A time in which rollouts wait; ``until`` is its end in seconds since the epoch."""

    name: str
    until: float
    reason: str


def in_force(blackouts: Iterable[Blackout], now: float) -> Blackout | None:
    """Return the blackout that ends last of those that are in force; ``None`` without any."""
    return max((one for one in blackouts if now < one.until), key=lambda one: one.until, default=None)


def _parse(value: Any) -> Blackout:
    data = value["data"]
    return Blackout(value["metadata"]["name"], datetime.fromisoformat(data["until"]).timestamp(), data["reason"])


def _faults(value: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    until = value["data"]["until"]
    try:
        has_zone = datetime.fromisoformat(until).tzinfo is not None
    except ValueError:
        has_zone = False
    if not has_zone:
        yield ("data", "until"), f"expected a time with a zone, as in 2027-01-02T06:00:00Z, found {until}"


BLACKOUT: DocumentKind[Blackout] = DocumentKind(
    name="blackout",
    schema="example/Blackout/v1",
    form=mapping_form(
        {
            "metadata": mapping_form({"name": NAME}, {}),
            "data": mapping_form({"until": TEXT, "reason": TEXT}, {}),
        },
        {"schema": {}},
    ),
    parse=_parse,
    subject=lambda value: (value["metadata"]["name"],),
    faults=_faults,
)

DOCUMENT_KINDS = (BLACKOUT,)
