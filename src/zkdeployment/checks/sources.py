"""A snapshot of the sources from which check instances are computed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.checks.basis import CheckBasis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.checks.basis import CheckedHost


@dataclass(frozen=True, slots=True)
class CheckSnapshot:
    """The basis of the instances, the publication that it is from, and the callbacks of the monitoring systems.

    ``publication`` is the sequence that hosts reach with it; 0 before the first publication. ``callbacks`` has
    ``None`` for a monitoring system that polls.
    """

    basis: CheckBasis = field(default_factory=CheckBasis)
    publication: int = 0
    callbacks: Mapping[str, str | None] = field(default_factory=dict)

    def with_hosts(self, hosts: Mapping[str, CheckedHost]) -> CheckSnapshot:
        """Return the snapshot with these hosts."""
        return replace(self, basis=replace(self.basis, hosts=hosts))
