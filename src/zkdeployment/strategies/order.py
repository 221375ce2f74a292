"""The simulation of a rollout, and the order in which hosts deploy a tree under its strategy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.host import Facts, is_host_name
from zkdeployment.strategies.permission import Phase
from zkdeployment.strategies.state_machine import GroupVerdict, Rollout, begin, is_closed, next_task, record, width
from zkdeployment.strategies.strategy import unmatched_selectors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.base.host import Host
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets
    from zkdeployment.strategies.state_machine import Task
    from zkdeployment.strategies.strategy import Group, Strategy
    from zkdeployment.tree.values import Value


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
    """Return the hosts that enter a phase, wave by wave, until the group is certain to miss its criteria."""
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


@dataclass(frozen=True, slots=True)
class Turn:
    """One group: the ids of the ``hosts`` that deploy with the group.

    ``before`` are the ids of members that deploy with an earlier group. ``fault`` is the reason why the group
    fails although no host fails.
    """

    group: Group
    hosts: tuple[str, ...]
    before: tuple[str, ...] = ()
    fault: str = ""

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
        return {
            "name": self.group.name,
            "critical": self.group.critical,
            "depends_on": [*self.group.depends_on],
            "manual": self.group.pace.manual,
            "hosts": [*self.hosts],
            "before": [*self.before],
            "fault": self.fault or None,
        }


@dataclass(frozen=True, slots=True)
class Order:
    """The groups in the order of their rollout, then groups that never begin; ``others`` are hosts in no group.

    ``warnings`` name the selectors that match no known host.
    """

    strategy: str
    turns: tuple[Turn, ...]
    others: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def only(self, hosts: Collection[str]) -> Order:
        """Return the order of these hosts alone."""
        turns = (
            replace(turn, hosts=_selected(turn.hosts, hosts), before=_selected(turn.before, hosts))
            for turn in self.turns
        )
        return replace(self, turns=tuple(turns), others=_selected(self.others, hosts))

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
        return {
            "strategy": self.strategy,
            "groups": [turn.to_json() for turn in self.turns],
            "others": [*self.others],
            "warnings": [*self.warnings],
        }


def order(strategy: Strategy, hosts: Iterable[Host], known: Iterable[KnownHost], targets: Targets) -> Order:
    """Return the order for registered ``hosts``, ``known`` hosts and hosts that only targets name."""
    known_hosts = {host.identity.id: host for host in known} | {host.identity.id: host for host in hosts}
    facts = _facts(known_hosts, targets)
    rollout = simulate(strategy, facts, Faults())
    begun = [strategy.group(name) for name in rollout.order]
    turns = []
    for group in (*begun, *(group for group in strategy.groups if group not in begun)):
        progress, members = rollout.progress[group.name], rollout.members[group.name]
        submitted = progress.submitted.get(Phase.PREPARE, ())
        before = tuple(sorted(members.difference(submitted))) if group in begun else ()
        fault = progress.reason if progress.verdict is GroupVerdict.FAILED else ""
        turns.append(Turn(group, submitted if group in begun else tuple(sorted(members)), before, fault))
    grouped = frozenset[str]().union(*rollout.members.values())
    others = tuple(sorted(name for name in facts.keys() - grouped if not facts[name].is_leasable))
    known_facts = {host_id: host.facts for host_id, host in known_hosts.items()}
    return Order(strategy.name, tuple(turns), others, unmatched_selectors(strategy, known_facts))


def _facts(hosts: Mapping[str, Host | KnownHost], targets: Targets) -> Mapping[str, Facts]:
    names = {name for host in hosts.values() for name in host.identity.target_names}
    unknown = {name: Facts() for name in targets if name not in names and is_host_name(name)}
    return unknown | {host_id: host.facts for host_id, host in hosts.items()}


def _selected(hosts: Iterable[str], wanted: Collection[str]) -> tuple[str, ...]:
    return tuple(host for host in hosts if host in wanted)
