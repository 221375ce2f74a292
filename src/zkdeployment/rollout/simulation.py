"""A rollout without hosts: the engine, told which of them fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.rollout.engine import Phase, Rollout, Verdict, begin, next_task, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.strategy import Facts, Strategy


@dataclass(frozen=True, slots=True)
class Faults:
    """The hosts that fail in a phase, and the phases that end for none of a group's hosts in time."""

    prepare: frozenset[str] = frozenset()
    deploy: frozenset[str] = frozenset()
    times_out: frozenset[tuple[str, Phase]] = frozenset()


def simulate(strategy: Strategy, hosts: Mapping[str, Facts], faults: Faults) -> Rollout:
    """Return the rollout at its end."""
    rollout = begin(strategy, hosts)
    while (task := next_task(rollout)) is not None:
        late = bool(task.hosts) and (task.group, task.phase) in faults.times_out
        failing = faults.prepare if task.phase is Phase.PREPARE else faults.deploy
        succeeded = frozenset() if late else frozenset(task.hosts) - failing
        fault = f"{len(task.hosts)} of {len(task.hosts)} hosts did not end in time" if late else ""
        rollout = record(rollout, task, succeeded, fault=fault)
    return rollout


def summarize(rollout: Rollout) -> dict[str, object]:
    """Return a rollout that is at its end as plain data."""
    return {
        "members": {name: sorted(hosts) for name, hosts in rollout.members.items()},
        "order": list(rollout.order),
        "sent": {
            name: {phase.value: list(course.sent.get(phase, ())) for phase in Phase}
            for name, course in rollout.courses.items()
        },
        "groups": {group.name: _summarize_group(rollout, group.name) for group in rollout.strategy.groups},
        "hosts": {name: state.value for name, state in rollout.hosts.items()},
        "critical_failed": rollout.critical_failed,
        "result": rollout.result.value,
    }


def _summarize_group(rollout: Rollout, name: str) -> dict[str, object]:
    course = rollout.courses[name]
    failed = course.verdict is Verdict.FAILED
    return {
        **{phase.value: course.verdicts[phase].value for phase in Phase},
        "result": (Verdict.FAILED if failed else Verdict.SUCCESS).value,
        "critical": rollout.strategy.group(name).critical,
        "reason": course.reason,
    }
