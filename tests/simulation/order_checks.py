"""Checks the order between services: which hosts wait, and which keep a service until other hosts have it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from zkdeployment.base.publication import OrderEntry
from zkdeployment.publishing.store.service_order import decode_entry
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.repository import Commit
    from simulation.server_tree import Change, ZNode
    from simulation.world import World


class OrderChecks:
    """Checks each script that starts. ``plans`` are the sequences by which hosts planned, by host id,
    and ``last`` the instances that they undeploy last, under the locks of the services.

    Hosts are awaited that were registered before the publication, and have been since.
    """

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self.plans: dict[str, int] = {}
        self.last: dict[str, set[tuple[str, int]]] = {}
        self._entries: dict[str, ZNode] = {}

    def committed(self, changes: Sequence[Change]) -> None:
        """Keep the orders of publications: a host follows the order of its plan, also after its removal."""
        for change in changes:
            if change.path.startswith(f"{paths.ORDER}/") and (node := self._nodes.get(change.path)) is not None:
                self._entries[change.path] = copy(node)

    def script_started(self, call: ScriptCall, commit: Commit | None) -> None:
        """Check a script for a revision whose tree is ``commit``, if that is known."""
        if commit is None or call.is_bracket:
            return
        if call.undeploys:
            self._check_undeployment(call, commit)
            return
        assignments = commit.wanted(call.machine.identity).assignments
        for path in next((entry.after for entry in assignments if entry.path == call.path), ()):
            for machine in self._awaited(call, path, gaining=False):
                if not _has(machine, path, commit):
                    self._fail(f"{call.machine.name} starts {call} before {machine.name} has {path}")

    def _check_undeployment(self, call: ScriptCall, commit: Commit) -> None:
        gaining = self._entry(call, call.path).gaining
        for machine in self._awaited(call, call.path, gaining=True):
            if not _has(machine, call.path, commit):
                self._fail(f"{call.machine.name} starts {call} before {machine.name}, which gains it, has it")
        if gaining and not any(_has(self._world.machines[name], call.path, commit) for name in gaining):
            self._fail(f"{call.machine.name} starts {call} before any host that gains it has it")

    def _entry(self, call: ScriptCall, path: str) -> OrderEntry:
        node = self._entries.get(paths.awaited_path(self.plans.get(call.machine.name, 0), path))
        return OrderEntry() if node is None else decode_entry(node)[0]  # type: ignore[arg-type]  # it has data

    def _awaited(self, call: ScriptCall, path: str, *, gaining: bool) -> Iterator[Machine]:
        entry = self._entry(call, path)
        order = self._entries.get(paths.order_path(self.plans.get(call.machine.name, 0)))
        for name in entry.gaining if gaining else entry.hosts:
            registration = self._nodes.get(f"{paths.HOSTS}/{name}")
            if order is not None and registration is not None and registration.created < order.created:
                yield self._world.machines[name]

    @property
    def _nodes(self) -> dict[str, ZNode]:
        return self._world.network.ensemble.leader.nodes


def _has(machine: Machine, path: str, commit: Commit) -> bool:
    """Whether a machine runs all instances of a service that a tree wants there."""
    assignments = commit.wanted(machine.identity).assignments
    assignment = next((entry for entry in assignments if entry.path == path), None)
    if assignment is None:
        return True
    instances = (machine.instances.get((path, number)) for number in range(assignment.n))
    return all(instance is not None and instance.version == assignment.version for instance in instances)
