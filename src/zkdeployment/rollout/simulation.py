"""The simulation of a rollout: the engine runs with given failures instead of hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.rollout.engine import begin, record
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.state_machine import GroupVerdict, Rollout
from zkdeployment.rollout.tasks import is_closed, next_task, width

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.host import Facts
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state_machine import Task


@dataclass(frozen=True, slots=True)
class Faults:
    """The simulated failures: hosts that fail in each phase, and phases of groups that time out."""

    prepare: frozenset[str] = frozenset()
    deploy: frozenset[str] = frozenset()
    times_out: frozenset[tuple[str, Phase]] = frozenset()


def simulate(strategy: Strategy, hosts: Mapping[str, Facts], faults: Faults) -> Rollout:
    """Return the ended rollout; the hosts of a group enter each phase in waves of ``max_parallel``."""
    rollout = begin(strategy, hosts)
    while (task := next_task(rollout)) is not None:
        required, present = strategy.group(task.group).require_hosts or 0, len(rollout.members[task.group])
        if present < required:
            fault = f"it would wait: requires {required} hosts, found {present}"
            rollout = record(rollout, replace(task, hosts=()), (), fault=fault)
            continue
        times_out = bool(task.hosts) and (task.group, task.phase) in faults.times_out
        failing = faults.prepare if task.phase is Phase.PREPARE else faults.deploy
        entered = _entered(rollout, task, failing, waves=1 if times_out else None)
        succeeded = frozenset() if times_out else frozenset(entered) - failing
        fault = (
            f"{len(task.hosts)} of {len(task.hosts)} hosts did not end in time" if times_out and entered else ""
        )
        rollout = record(rollout, replace(task, hosts=entered), succeeded, fault=fault)
    return rollout


def _entered(rollout: Rollout, task: Task, failing: frozenset[str], waves: int | None) -> tuple[str, ...]:
    """Return the hosts that enter a phase, wave by wave, until the group misses its criteria for certain."""
    size, entered = width(rollout, task.group), 0
    limit = len(task.hosts) if waves is None else waves * size
    while entered < min(limit, len(task.hosts)):
        failed = failing.intersection(task.hosts[:entered])
        if is_closed(rollout, task, begun=entered > 0, failed=failed):
            break
        entered += size
    return task.hosts[:entered]


def summarize(rollout: Rollout) -> dict[str, object]:
    """Return an ended rollout as plain data."""
    return {
        "members": {name: sorted(hosts) for name, hosts in rollout.members.items()},
        "order": list(rollout.order),
        "sent": {
            name: {phase.value: list(progress.submitted.get(phase, ())) for phase in Phase}
            for name, progress in rollout.progress.items()
        },
        "groups": {group.name: _summarize_group(rollout, group.name) for group in rollout.strategy.groups},
        "hosts": {name: state.value for name, state in rollout.hosts.items()},
        "critical_failed": rollout.critical_failed,
        "result": rollout.result.value,
    }


def _summarize_group(rollout: Rollout, name: str) -> dict[str, object]:
    progress = rollout.progress[name]
    failed = progress.verdict is GroupVerdict.FAILED
    return {
        **{phase.value: progress.verdicts[phase].value for phase in Phase},
        "result": (GroupVerdict.FAILED if failed else GroupVerdict.SUCCESS).value,
        "critical": rollout.strategy.group(name).critical,
        "reason": progress.reason,
    }
