"""A rollout as an agent sees it: its outline, the grant of the agent's host, reports and failures.

Agents that follow a rollout, or wait for the hosts in it, need neither the strategy nor the state machine. Of this
package, they import only this module; all other modules are for coordinators.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.records import OMITTED, Key, Record
from zkdeployment.base.stop import Stop
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_V = TypeVar("_V")


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text: ``0-3 7 9-12``."""
    if len(numbers) == 1:
        return str(numbers[0])
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def hosts_in(hosts: Sequence[str], text: str) -> list[str]:
    """Return the ``hosts`` whose numbers ``ranges`` encoded; raises ``ValueError`` for other text."""
    selected: list[str] = []
    for part in text.split():
        first, _, last = part.partition("-")
        selected += hosts[int(first) : int(last or first) + 1]
    return selected


def values_by_host(hosts: Sequence[str], values: Any) -> Mapping[str, Any]:
    """Return values by host, decoded from a mapping, or from a list of values with their hosts."""
    if isinstance(values, dict):
        return values
    return {host: value for value, text in values for host in hosts_in(hosts, text)}


def without_hosts(values: Mapping[str, _V], hosts: Collection[str]) -> dict[str, _V]:
    """Return values by host without those of the ``hosts``."""
    return {host: value for host, value in values.items() if host not in hosts}


@dataclass(frozen=True)
class RolloutOutline:
    """The hosts of a rollout by their progress.

    ``failures`` are the errors of the hosts that failed. ``under_way`` are the members of the group that runs a
    phase; ``None`` between two groups. ``ended_well``: the rollout has completed without stopping the fleet.
    """

    sequence: int
    succeeded: frozenset[str] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)
    under_way: frozenset[str] | None = None
    late_joiners: frozenset[str] = frozenset()
    ended_well: bool = False


def outline_from_json(value: object) -> RolloutOutline:
    """Return the outline of an encoded state; raises ``ValueError`` for anything else."""
    try:
        return _outline(value)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"not a valid rollout: {type(error).__name__}: {error}") from error


def _outline(value: Any) -> RolloutOutline:
    hosts: list[str] = value["hosts"]
    progress = dict(zip(hosts, value["states"], strict=True))
    errors = values_by_host(hosts, value["errors"])
    failures = {host: str(errors.get(host, "the host failed")) for host, state in progress.items() if state == "f"}
    under_way = None
    if (active := value["stage"]) is not None:
        under_way = frozenset(hosts_in(hosts, value["members"][active["group"]]))
        reports = [(str(error), text) for _, error, text in active["reports"] if error is not None]
        failures |= values_by_host(hosts, reports)
    return RolloutOutline(
        sequence=int(value["sequence"]),
        succeeded=frozenset(host for host, state in progress.items() if state == "s"),
        failures=failures,
        under_way=under_way,
        late_joiners=frozenset(values_by_host(hosts, value["late"])),
        ended_well=value["ended"] is not None and value["ending"] == "completed" and not _critical_failed(value),
    )


def _critical_failed(value: Any) -> bool:
    """Whether a critical group failed, which stopped the fleet."""
    critical = [group["name"] for group in value["strategy"]["data"]["groups"] if group["critical"]]
    return any("failed" in value["courses"][name]["verdicts"].values() for name in critical)


class Phase(Enum):
    """The phases of a group, in order: the hosts prepare the deployment, then they deploy."""

    PREPARE = "prepare"
    DEPLOY = "deploy"


@dataclass(frozen=True, slots=True)
class Grant:
    """The phase that a host may enter; without a phase, the grant was withdrawn for the ``reason``."""

    group: str
    phase: Phase | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The outcome of a phase on a host: a success without ``error``. ``time`` is in seconds since the epoch."""

    time: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RolloutPart(Record):
    """A phase of a rollout, which is named by its id."""

    rollout: str
    phase: Phase


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
    def part(self) -> RolloutPart | None:
        """The part in which a failure belongs now: the first phase without a report; ``None`` before a rollout."""
        phase = Phase.DEPLOY if Phase.PREPARE in self.reports else Phase.PREPARE
        return None if self.rollout is None else RolloutPart(self.rollout, phase)

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


@dataclass(frozen=True, slots=True)
class Failure(Record):
    """A failure of a host, and its effect: the fleet, only the host in a rollout, or only a group.

    ``failed`` is the failure in the form for programs. With ``part``, the failure concerns only the host; with
    ``group``, it stops that group. ``retried``: the host deployed because of a retry. If the fleet was resumed
    meanwhile, the failure is a part of the present rollout.
    """

    stop: Stop
    failed: DeploymentFailure
    part: Annotated[RolloutPart | None, Key(flat=True, omit=True)] = None
    group: Annotated[str | None, OMITTED] = None
    retried: Annotated[bool, OMITTED] = False
