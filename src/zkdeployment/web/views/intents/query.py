"""Selects and orders the intents in the list: the whole view is in the page's address."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from zkdeployment.documents.intents.values import ClusterIntents, IntentState, subject_text
from zkdeployment.web.views.parameters import last_value, page_number, search_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.web.views.parameters import Parameters


class IntentSort(Enum):
    """The orders of the intents of a project or of a provider."""

    SUBJECT = "subject"
    STATE = "state"
    SINCE = "since"


@dataclass(frozen=True, slots=True)
class IntentListQuery:
    """A view of the list: intents in one of ``states`` (empty: in any) that contain a text, in order, by pages."""

    states: frozenset[IntentState] = frozenset()
    text: str = ""
    sort: IntentSort = IntentSort.SUBJECT
    descending: bool = False
    page: int = 1

    @classmethod
    def of_parameters(cls, values: Parameters) -> IntentListQuery:
        """Return the view that the parameters of an address describe; a malformed value counts as absent."""
        order = last_value(values, "sort")
        sorts = {sort.value: sort for sort in IntentSort}
        names = values.get("state", ())
        return cls(
            states=frozenset(state for state in IntentState if state.value in names),
            text=search_text(values),
            sort=sorts.get(order.removeprefix("-"), IntentSort.SUBJECT),
            descending=order.startswith("-"),
            page=page_number(values),
        )

    @property
    def address(self) -> str:
        """The address of the list with this view."""
        values = [("state", name) for name in self.state_names]
        values += [("text", self.text)] if self.text else []
        if self.sort is not IntentSort.SUBJECT or self.descending:
            values.append(("sort", f"{'-' if self.descending else ''}{self.sort.value}"))
        values += [("page", str(self.page))] if self.page > 1 else []
        return f"/intents?{urlencode(values)}" if values else "/intents"

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the selected states."""
        return tuple(state.value for state in IntentState if state in self.states)

    @property
    def is_filtered(self) -> bool:
        """Whether the view may leave out intents."""
        return bool(self.states or self.text)

    def with_state(self, state: IntentState) -> IntentListQuery:
        """Return the first page of the view that also shows intents in a state, or no longer does."""
        return replace(self, states=self.states ^ {state}, page=1)

    def sorted_by(self, sort: IntentSort) -> IntentListQuery:
        """Return the first page of the view in another order; the same order is reversed."""
        return replace(self, sort=sort, descending=sort is self.sort and not self.descending, page=1)

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
