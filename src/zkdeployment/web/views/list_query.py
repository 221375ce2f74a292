"""A view of a list by states, text, order and page: the whole view is in the page's address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar
from urllib.parse import urlencode

from zkdeployment.web.views.parameters import last_value, page_number, search_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from zkdeployment.web.views.parameters import Parameters

State = TypeVar("State", bound=Enum)
Sort = TypeVar("Sort", bound=Enum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery(ABC, Generic[State, Sort]):
    """A view of a list: rows in one of ``states`` (empty: in any) that contain a text, in order, by pages.

    ``PATH`` is the address of the page with the list.
    """

    PATH: ClassVar[str]

    states: frozenset[State] = frozenset()
    text: str = ""
    sort: Sort
    descending: bool = False
    page: int = 1

    @staticmethod
    @abstractmethod
    def _all_states() -> Sequence[State]:
        """Return the states in the order in which the address names them."""

    @staticmethod
    @abstractmethod
    def _all_sorts() -> Sequence[Sort]:
        """Return the orders of the list, the default first."""

    @classmethod
    def of_parameters(cls, values: Parameters) -> Self:
        """Return the view that the parameters of an address describe; a malformed value counts as absent."""
        order = last_value(values, "sort")
        names = values.get("state", ())
        sorts = {sort.value: sort for sort in cls._all_sorts()}
        return cls(
            states=frozenset(state for state in cls._all_states() if state.value in names),
            text=search_text(values),
            sort=sorts.get(order.removeprefix("-"), cls._all_sorts()[0]),
            descending=order.startswith("-"),
            page=page_number(values),
        )

    @property
    def address(self) -> str:
        """The address of the list with this view."""
        values = [("state", name) for name in self.state_names]
        values += [("text", self.text)] if self.text else []
        if self.sort is not self._all_sorts()[0] or self.descending:
            values.append(("sort", f"{'-' if self.descending else ''}{self.sort.value}"))
        values += [("page", str(self.page))] if self.page > 1 else []
        return f"{self.PATH}?{urlencode(values)}" if values else self.PATH

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the selected states."""
        return tuple(state.value for state in self._all_states() if state in self.states)

    @property
    def is_filtered(self) -> bool:
        """Whether the view may leave out rows."""
        return bool(self.states or self.text)

    def with_state(self, state: State) -> Self:
        """Return the first page of the view that also shows rows in a state, or no longer does."""
        return replace(self, states=self.states ^ {state}, page=1)

    def sorted_by(self, sort: Sort) -> Self:
        """Return the first page of the view in another order; the same order is reversed."""
        return replace(self, sort=sort, descending=sort is self.sort and not self.descending, page=1)
