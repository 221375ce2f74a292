"""Events of instances: who began, changed and ended each, with which revision, content and approval, and why.

They answer who approved what ran. Texts and numbers of events are bounded, because publications write them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from zkdeployment.errors import RefusedError
from zkdeployment.model.act import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.documents.intents.values import Approval

#: The most events of one instance: the first, and the last ones.
KEPT_EVENTS = 30

#: The most characters of a text of an event.
_LONGEST = 300


class InstanceEventKind(Enum):
    """The kind of an event of an instance."""

    INSTANTIATED = "instantiated"
    UPDATED = "updated"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class InstanceEvent:
    """The effect of a publication on an instance.

    ``sequence``, ``time`` and ``revision`` are those of the publication, ``by`` is the author and ``reason`` the
    first line of the message of its commit. ``content`` is the digest of the content. ``approved_by`` approved
    that content, with ``approval_reason``; ``is_verified`` is whether the syncer verified the signature, so that
    ``approved_by`` is the owner of the key.
    """

    kind: InstanceEventKind
    sequence: int
    time: float
    by: str
    revision: str = ""
    reason: str = ""
    content: str = ""
    approved_by: str | None = None
    approval_reason: str = ""
    is_verified: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the event as publications write it, and as the API and the verb print it."""
        value = asdict(self)
        return {"event": value.pop("kind").value, **value}


@dataclass(frozen=True, slots=True)
class InstanceChange:
    """A publication: its sequence, its time in seconds since the epoch, and the author of the revision.

    ``reason`` is the first line of the commit message. ``content`` and ``approval`` are those of the intent in
    this revision; ``is_verified`` is whether the syncer verified the signature of the approval.
    """

    sequence: int
    time: float
    by: str
    revision: str = ""
    reason: str = ""
    content: str = ""
    approval: Approval | None = None
    is_verified: bool = False

    def event(self, kind: InstanceEventKind) -> InstanceEvent:
        """Return the event of this publication."""
        approval = self.approval if self.approval is not None and self.approval.content == self.content else None
        return InstanceEvent(
            kind,
            self.sequence,
            self.time,
            _bounded(self.by),
            _bounded(self.revision),
            _bounded(self.reason),
            self.content,
            None if approval is None else _bounded(approval.by),
            "" if approval is None else _bounded(approval.reason),
            approval is not None and approval.signature is not None and self.is_verified,
        )


def approved_event(instance: int, events: Iterable[InstanceEvent]) -> InstanceEvent:
    """Return the event with the last approved content of an instance; raises ``RefusedError`` without one."""
    begun = [event for event in events if event.kind is not InstanceEventKind.TERMINATED]
    if not begun:
        raise RefusedError(
            f"nothing is known of the content of instance {instance}: none of its events is recorded; restore the"
            " content by hand, then approve it"
        )
    if begun[-1].approved_by is None:
        raise RefusedError(f"the content of instance {instance} was never approved; restore it by hand")
    return begun[-1]


def with_event(events: tuple[InstanceEvent, ...], event: InstanceEvent) -> tuple[InstanceEvent, ...]:
    """Return the events of an instance with another one; of very many, the first and the last are kept."""
    after = (*events, event)
    return after if len(after) <= KEPT_EVENTS else (after[0], *after[-KEPT_EVENTS + 1 :])


def events_from_json(value: Any) -> tuple[InstanceEvent, ...]:
    """Return the events that ``to_json`` encoded, without those that are damaged."""
    entries: Iterable[Any] = value[-KEPT_EVENTS:] if isinstance(value, list) else ()
    return tuple(filter(None, map(_event, entries)))


def _event(entry: Any) -> InstanceEvent | None:
    try:
        approver = entry.get("approved_by")
        texts = {key: _bounded(entry[key]) for key in ("revision", "reason", "content", "approval_reason")}
        return InstanceEvent(
            InstanceEventKind(entry["event"]),
            int(entry["sequence"]),
            float(entry["time"]),
            _bounded(entry["by"]),
            approved_by=None if approver is None else _bounded(approver),
            is_verified=entry["is_verified"] is True,
            **texts,
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return None


def _bounded(text: str) -> str:
    return sanitize(text)[:_LONGEST]
