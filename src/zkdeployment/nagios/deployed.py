"""The instances that the service takes for deployed to a monitoring system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class DeployedInstances:
    """The deployed instances: ``active`` ones, and ``retained`` ones, whose removal failed.

    ``configurations`` has the id of the configuration of each instance. ``removal_allowed`` is whether an operator
    allowed the removal of many unknown checks.
    """

    active: frozenset[str] = frozenset()
    retained: frozenset[str] = frozenset()
    configurations: Mapping[str, str] = field(default_factory=dict)
    removal_allowed: bool = False

    @property
    def instances(self) -> frozenset[str]:
        """All deployed instances."""
        return self.active | self.retained

    def outdated(self, configurations: Mapping[str, str]) -> Collection[str]:
        """Return the active instances that have other configurations than these, which are keyed by instance."""
        return frozenset(
            instance
            for instance, found in configurations.items()
            if instance in self.active and self.configurations.get(instance, found) != found
        )
