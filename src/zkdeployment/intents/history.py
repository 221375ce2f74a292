"""The history of an intent: its instances with their events, also after the removal of the document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import NotFoundError
from zkdeployment.intents.instance_events import InstanceEvent, events_from_json
from zkdeployment.intents.instances import KEPT_INSTANCES, IntentInstance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord


@dataclass(frozen=True, slots=True)
class InstanceHistory:
    """An instance in the history; the times are seconds since the epoch."""

    id: int
    instantiated: float
    terminated: float | None
    by: str
    events: tuple[InstanceEvent, ...]

    @classmethod
    def of(cls, instance: IntentInstance) -> InstanceHistory:
        """Return what the history keeps of an instance."""
        return cls(instance.id, instance.instantiated, instance.terminated, instance.by, instance.events)

    def to_json(self) -> dict[str, Any]:
        """Return the instance as publications write it, and as the API and the verb print it."""
        return {
            "id": self.id,
            "instantiated": self.instantiated,
            "terminated": self.terminated,
            "by": self.by,
            "events": [event.to_json() for event in self.events],
        }


def merged_history(*parts: Iterable[InstanceHistory]) -> tuple[InstanceHistory, ...]:
    """Return the last instances of several records of one intent, oldest first; later records count."""
    by_id = {instance.id: instance for part in parts for instance in part}
    return tuple(by_id[number] for number in sorted(by_id))[-KEPT_INSTANCES:]


def history_from_json(value: Any) -> tuple[InstanceHistory, ...]:
    """Return the instances that ``to_json`` encoded, without those that are damaged."""
    entries = value[-KEPT_INSTANCES:] if isinstance(value, list) else ()
    return tuple(filter(None, map(_instance, entries)))


def intent_history(
    subject: IntentSubject, record: IntentRecord | None, archived: Iterable[InstanceHistory]
) -> tuple[InstanceHistory, ...]:
    """Return the instances of an intent, newest first; raises ``NotFoundError`` for a subject without a record.

    ``archived`` are those of earlier documents of the subject, which were removed.
    """
    former = tuple(archived)
    if record is None and not former:
        raise NotFoundError(
            f"no publication has an intent {subject_text(subject)}, and none had one with instances: expected one"
            " of those that 'zkdeployment intent list' shows, or one that was removed"
        )
    present = () if record is None else record.instances
    return merged_history(former, map(InstanceHistory.of, present))[::-1]


def _instance(entry: Any) -> InstanceHistory | None:
    try:
        ended = entry["terminated"]
        return InstanceHistory(
            int(entry["id"]),
            float(entry["instantiated"]),
            None if ended is None else float(ended),
            str(entry["by"]),
            events_from_json(entry["events"]),
        )
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
