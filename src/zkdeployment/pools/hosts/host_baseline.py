"""The state of a host before a lease, with which the host is compared after its tenant has left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.model.tree import Value

#: The most differences in a message.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class HostBaseline:
    """The facts about a host before it took the role of a lease, and before a tenant was admitted.

    Each fact is a line of text. ``leased`` is ``None`` until the host ran the role of the lease. ``is_lent`` is
    whether a tenant was admitted since.
    """

    idle: frozenset[str]
    leased: frozenset[str] | None = None
    is_lent: bool = False

    def differences(self, now: frozenset[str]) -> Sequence[str]:
        """Return what differs on the host that has given its role back.

        A fact may come or go with the services of the role: new is what neither state had, and missing is what
        both had.
        """
        leased = self.idle if self.leased is None else self.leased
        new = (f"new: {fact}" for fact in sorted(now - self.idle - leased))
        missing = (f"missing: {fact}" for fact in sorted((self.idle & leased) - now))
        return [*new, *missing]

    def to_json(self) -> dict[str, Value]:
        """Return the baseline as JSON."""
        leased: Value = None if self.leased is None else [*sorted(self.leased)]
        return {"idle": [*sorted(self.idle)], "leased": leased, "lent": self.is_lent}

    @classmethod
    def from_json(cls, value: object) -> HostBaseline | None:
        """Return the baseline that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {"idle": list(idle), "leased": None | list() as leased, "lent": bool(lent)}:
                facts = None if leased is None else frozenset(map(str, leased))
                return cls(frozenset(map(str, idle)), facts, lent)
            case _:
                return None


def shown_differences(differences: Sequence[str]) -> str:
    """Return differences as text for people; of many, the first ones and the number of the others."""
    more = len(differences) - _SHOWN
    return "; ".join(differences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
