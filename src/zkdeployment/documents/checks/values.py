"""Check configurations: which check concerns which services, and how a monitoring system runs it.

Reading their documents belongs to ``kinds``; which check instances follow from them belongs to
``zkdeployment.checks``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.model.tree import is_below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.strategy import Selector


@dataclass(frozen=True, slots=True)
class MonitoringSystem:
    """A monitoring system; one without a ``callback`` is not notified and polls."""

    name: str
    callback: str | None = None


class Predicate(Enum):
    """The comparison of a measured value with a threshold that raises an alarm."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    LESS = "<"
    LESS_OR_EQUAL = "<="

    @property
    def is_lower_limit(self) -> bool:
        """Whether values below the threshold raise the alarm."""
        return self in {Predicate.LESS, Predicate.LESS_OR_EQUAL}


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold of a level, such as ``warning``."""

    level: str
    predicate: Predicate
    value: float

    @property
    def range(self) -> str:
        """The range of values without an alarm, as plugins read it: ``2`` is an upper limit, ``2:`` a lower."""
        number = format(Decimal(repr(self.value)), "f")
        return f"{number}:" if self.predicate.is_lower_limit else number


@dataclass(frozen=True, slots=True)
class CheckConstraints:
    """The constraints of a configuration; all of them must hold.

    ``packages`` are names of packages or applications. ``selectors`` select hosts. ``properties`` are names and
    values of properties, as text. ``attributes`` are names of properties that must exist; a list has one instance
    for each of its values.
    """

    packages: tuple[str, ...] = ()
    selectors: tuple[Selector, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckConfiguration:
    """A check and the services that it concerns.

    ``path`` is the path of the configuration's object, empty for the root of the tree. ``interval`` is in
    seconds. ``arguments`` are templates (see ``documents.checks.arguments``).
    """

    name: str
    path: str
    monitoring: str
    command: str
    arguments: tuple[str, ...] = ()
    interval: int = 60
    inheritance: bool = True
    children_only: bool = False
    thresholds: tuple[Threshold, ...] = ()
    constraints: CheckConstraints = field(default_factory=CheckConstraints)

    def concerns(self, service: str) -> bool:
        """Whether the check is one of a service node: the object, or a node to which the check is passed down."""
        if service == self.path:
            return not self.children_only
        return self.inheritance and is_below(service, self.path)

    @property
    def ranges(self) -> Mapping[str, str]:
        """The ranges of the thresholds, as plugins read them, by level."""
        return {threshold.level: threshold.range for threshold in self.thresholds}
