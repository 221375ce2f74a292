"""The order in which hosts would deploy a tree under its strategy, if no host failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.model.host import Facts, is_host_name
from zkdeployment.rollout.groups import unmatched_selectors
from zkdeployment.rollout.permission import Phase
from zkdeployment.rollout.simulation import Faults, simulate
from zkdeployment.rollout.state_machine import GroupVerdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.strategy import Group, Strategy
    from zkdeployment.model.tree import Value


@dataclass(frozen=True, slots=True)
class Turn:
    """One group: the ids of the ``hosts`` that deploy with the group.

    ``before`` are the ids of members that deploy with an earlier group. ``fault`` is why the group fails although
    no host fails.
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
