"""An agent's knowledge of a rollout: the phases, the grant of its host, and the reports that it writes.

Agents import this module and ``outline`` only. Everything else here is for coordinators.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Phase(Enum):
    """The phases of a group, in order: the hosts prepare the deployment, then they deploy."""

    PREPARE = "prepare"
    DEPLOY = "deploy"


@dataclass(frozen=True, slots=True)
class Grant:
    """The phase that a host may enter; a grant without a phase is a withdrawn one, with the ``reason``."""

    group: str
    phase: Phase | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The outcome of a phase on a host, without ``error`` a success; ``time`` is in seconds since the epoch."""

    time: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """The grant of one host in a rollout and the host's own reports; ``rollout`` is ``None`` before it begins."""

    rollout: str | None = None
    grant: Grant | None = None
    reports: Mapping[Phase, PhaseReport] = field(default_factory=dict)

    def allows(self, phase: Phase) -> bool:
        """Whether the host may run a phase; a grant to deploy includes preparing."""
        return self.grant is not None and self.grant.phase in {phase, Phase.DEPLOY}

    @property
    def is_excluded(self) -> bool:
        """Whether the rollout continues without the host."""
        return self.grant is not None and self.grant.phase is None

    @property
    def failure(self) -> str | None:
        """The host's error in this rollout, or why the rollout excluded it; ``None`` if the host may continue."""
        error = next((report.error for report in self.reports.values() if report.error is not None), None)
        if error is None and self.grant is not None and self.is_excluded:
            return f"rollout {self.rollout} continues without this host: {self.grant.reason}"
        return error

    @property
    def obstacle(self) -> str:
        """The reason for which a phase is not granted to the host."""
        if self.rollout is None:
            return "no rollout of this publication is under way"
        if self.failure is not None:
            return self.failure
        if self.grant is None or self.grant.phase is None:
            return f"rollout {self.rollout} has not reached this host yet"
        phase, group = self.grant.phase.value, self.grant.group
        return f"rollout {self.rollout} has granted it only to {phase}, with group {group}"
