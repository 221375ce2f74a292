"""The state of a check group: how many of its deployments are OK, and which are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.model.listing import listing

if TYPE_CHECKING:
    from zkdeployment.documents.checks.groups import CheckGroup
    from zkdeployment.model.tree import Value

#: How many deployments a sentence names, and how many the JSON form lists.
_NAMED = 3
_LISTED = 100


@dataclass(frozen=True, slots=True)
class CheckGroupState:
    """A group with its deployments: how many are OK, which have no result yet, and which are not OK.

    A deployment is OK if all its checks that count are.
    """

    group: CheckGroup
    ok: int = 0
    pending: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The number of deployments."""
        return self.ok + len(self.pending) + len(self.failing)

    @property
    def state(self) -> str:
        """``ok``; ``pending``, if that depends on checks without a result; or the level of the group."""
        if self.ok >= self.group.at_least:
            return "ok"
        return "pending" if self.ok + len(self.pending) >= self.group.at_least else self.group.level.value

    @property
    def sentence(self) -> str:
        """The state in a sentence."""
        group = self.group
        counted = f"deployments of {group.path or '/'} that are OK: {self.ok} of {self.total}"
        named = listing([*self.failing, *self.pending], _NAMED)
        return f"{counted}, expected at least {group.at_least}" + (f"; not OK: {named}" if named else "")

    def to_json(self) -> dict[str, Value]:
        """Return the state as ``checks summary -o json`` prints it."""
        return {
            "name": self.group.name,
            "object": self.group.path or "/",
            "at_least": self.group.at_least,
            "level": self.group.level.value,
            "state": self.state,
            "total": self.total,
            "ok": self.ok,
            "pending": [*self.pending[:_LISTED]],
            "failing": [*self.failing[:_LISTED]],
        }
