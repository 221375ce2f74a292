"""Selects and orders the intents in the list: the whole view is in the page's address."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import ClusterIntents, IntentState, subject_text
from zkdeployment.web.views.list_query import ListQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.intents.instances import IntentRecord


class IntentSort(Enum):
    """The orders of the intents of a project or of a provider."""

    SUBJECT = "subject"
    STATE = "state"
    SINCE = "since"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentListQuery(ListQuery[IntentState, IntentSort]):
    """A view of the list of intents."""

    PATH = "/intents"

    sort: IntentSort = IntentSort.SUBJECT

    @staticmethod
    def _all_states() -> Sequence[IntentState]:
        return tuple(IntentState)

    @staticmethod
    def _all_sorts() -> Sequence[IntentSort]:
        return tuple(IntentSort)

    def select(self, records: Iterable[IntentRecord]) -> list[IntentRecord]:
        """Return all intents of the view: the groups by project, then the clusters by provider."""
        text = self.text.casefold()
        selected = [
            record
            for record in records
            if (not self.states or record.state in self.states)
            and text in subject_text(record.intent.subject).casefold()
        ]
        selected.sort(key=lambda record: record.intent.subject)
        if self.sort is not IntentSort.SUBJECT or self.descending:
            selected.sort(key=self._key, reverse=self.descending)
        selected.sort(key=lambda record: (isinstance(record.intent, ClusterIntents), record.intent.subject[0]))
        return selected

    def _key(self, record: IntentRecord) -> tuple[float, tuple[str, ...]]:
        match self.sort:
            case IntentSort.STATE:
                return float(list(IntentState).index(record.state)), ()
            case IntentSort.SINCE:
                return -(changed_at(record) or 0.0), ()
        return 0.0, record.intent.subject


def changed_at(record: IntentRecord) -> float | None:
    """Return when the newest instance began or ended, in seconds since the epoch; ``None`` without an instance."""
    if not record.instances:
        return None
    last = record.instances[-1]
    return last.instantiated if last.terminated is None else last.terminated
