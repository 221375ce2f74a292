"""The state machine of a rollout's groups and hosts: its states, the table of its transitions, and its value.

A host proceeds from ``NOT_STARTED`` through ``PREPARED`` to ``SUCCESS``; a failure in either phase leads to
``FAILURE``. A group gets a verdict for each phase. Only ``PHASE_RULES`` defines these transitions. ``engine`` has
the functions that apply them and that select the next task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.strategies.permission import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.strategies.strategy import Strategy


class HostProgress(Enum):
    """The progress of one host in this rollout."""

    NOT_STARTED = "not started"
    PREPARED = "prepared"
    SUCCESS = "success"
    FAILURE = "failure"


class GroupVerdict(Enum):
    """The outcome of a group, or of one of its phases."""

    SUCCESS = "success"
    FAILED = "failed"


class RolloutResult(Enum):
    """The outcome of a rollout."""

    SUCCESS = "success"
    PARTIAL = "success with failures"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """The transitions of one phase.

    ``required`` are the verdicts that a group has when the phase begins. ``eligible`` is the progress of the hosts
    that may enter the phase and ``reached`` their progress when they succeed; a host that fails becomes
    ``FAILURE``. ``successful`` are the states that count as successful when the group is judged.
    """

    required: Mapping[Phase, GroupVerdict]
    eligible: HostProgress
    reached: HostProgress
    successful: frozenset[HostProgress]


#: The transitions of hosts and groups, by phase.
PHASE_RULES: Mapping[Phase, PhaseRule] = {
    Phase.PREPARE: PhaseRule(
        required={},
        eligible=HostProgress.NOT_STARTED,
        reached=HostProgress.PREPARED,
        successful=frozenset({HostProgress.PREPARED, HostProgress.SUCCESS}),
    ),
    Phase.DEPLOY: PhaseRule(
        required={Phase.PREPARE: GroupVerdict.SUCCESS},
        eligible=HostProgress.PREPARED,
        reached=HostProgress.SUCCESS,
        successful=frozenset({HostProgress.SUCCESS}),
    ),
}

#: The phase that a host enters next, by its progress; hosts in other states have finished.
NEXT_PHASE: Mapping[HostProgress, Phase] = {rule.eligible: phase for phase, rule in PHASE_RULES.items()}


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The verdicts on a group's phases, the hosts submitted to each phase, and the reason of a failure."""

    verdicts: Mapping[Phase, GroupVerdict] = field(default_factory=dict)
    submitted: Mapping[Phase, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def verdict(self) -> GroupVerdict | None:
        """The group's verdict; ``None`` before it is known."""
        if GroupVerdict.FAILED in self.verdicts.values():
            return GroupVerdict.FAILED
        return self.verdicts.get(Phase.DEPLOY)


@dataclass(frozen=True, slots=True)
class Task:
    """One phase of one group, for these hosts, sorted by name; the hosts may be empty."""

    group: str
    phase: Phase
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rollout:
    """The progress of a strategy over its hosts.

    ``members`` and ``progress`` are keyed by group, ``hosts`` by host name. ``order`` are the groups that were
    begun, in the order in which they began.
    """

    strategy: Strategy
    members: Mapping[str, frozenset[str]]
    hosts: Mapping[str, HostProgress]
    progress: Mapping[str, GroupProgress]
    order: tuple[str, ...] = ()

    @property
    def critical_failed(self) -> bool:
        """Whether a critical group failed."""
        return any(
            group.critical and self.progress[group.name].verdict is GroupVerdict.FAILED
            for group in self.strategy.groups
        )

    @property
    def result(self) -> RolloutResult:
        """The outcome of the rollout; meaningful once there is no next task."""
        if self.critical_failed:
            return RolloutResult.FAILED
        failed = any(progress.verdict is GroupVerdict.FAILED for progress in self.progress.values())
        return (
            RolloutResult.PARTIAL
            if failed or HostProgress.FAILURE in self.hosts.values()
            else RolloutResult.SUCCESS
        )
