"""The change of the strategy that a publication brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.model.strategy import Group, Strategy
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class StrategyChange:
    """The published strategy and the next one; without a strategy, only locks limit which hosts deploy."""

    before: Strategy | None = None
    after: Strategy | None = None

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def kind(self) -> str:
        """The kind of the change: ``added``, ``changed`` or ``deleted``."""
        return "added" if self.before is None else "deleted" if self.after is None else "changed"

    def describe(self) -> Iterator[str]:
        """Return one line for each changed strategy and group."""
        old, new = _name(self.before), _name(self.after)
        if old == new and self:
            yield f"change strategy {new}"
        elif old != new:
            yield from (f"delete strategy {name}" for name in (old,) if name is not None)
            yield from (f"add strategy {name}" for name in (new,) if name is not None)
        for kind, groups in self._groups().items():
            yield from (f"{_VERBS[kind]} group {group}" for group in groups)

    def to_json(self) -> dict[str, Value]:
        """Return the change as ``-o json`` prints it."""
        return {
            "before": _name(self.before),
            "after": _name(self.after),
            "groups": {kind: [*groups] for kind, groups in self._groups().items()},
        }

    def _groups(self) -> dict[str, list[str]]:
        """Return the names of the groups that are added, changed and deleted, in the order of their documents."""
        old, new = _groups(self.before), _groups(self.after)
        return {
            "added": [name for name in new if name not in old],
            "changed": [name for name in new if name in old and new[name] != old[name]],
            "deleted": [name for name in old if name not in new],
        }


_VERBS = {"added": "add", "changed": "change", "deleted": "delete"}


def _name(strategy: Strategy | None) -> str | None:
    return None if strategy is None else strategy.name


def _groups(strategy: Strategy | None) -> dict[str, Group]:
    return {} if strategy is None else {group.name: group for group in strategy.groups}
