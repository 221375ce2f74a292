"""The people of a fleet: they push, rewind, stop, hold, resume, add and remove machines, and repair at the end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from simulation.repository import EXTRA, MISSING_VERSION, VERSIONS, ServicePlan, TreePlan
from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.model.act import Act
from zkdeployment.model.publication import GuardOverrides
from zkdeployment.rollout.state import Directive
from zkdeployment.wiring.operator import operator_adapters

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.world import World
    from zkdeployment.ports.operator import OperatorAdapters

_STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {{schema: metadata/Document/v1, name: deployment-strategy}}
data:
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{{node_tags: [canary], node_names: [], node_labels: [], rack_names: []}}]
      success_criteria: {{percent_successful_nodes: 100}}
      bake_time: {bake}
    - name: rest
      critical: {critical}
      depends_on: [canary]
      selectors: []
      max_parallel: {parallel}
      success_criteria: {{maximum_failed_nodes: {tolerated}}}
"""

#: Kinds of acts and how often they come.
_WEIGHTS = {
    "change": 40,
    "missing version": 5,
    "strategy": 8,
    "rewind": 6,
    "stop": 5,
    "hold": 2,
    "resume": 16,
    "resume latest": 10,
    "direct": 6,
    "join": 4,
    "leave": 3,
}

#: Seconds between two looks at the fleet after the last fault.
_LOOK = 30.0


class Operators:
    """The operators. ``converged`` and ``obstacle`` say how the fleet stands after the last fault."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.converged = False
        self.obstacle = "the operators have not finished"
        self._plan = TreePlan()
        self._plans: dict[str, TreePlan] = {}
        self._adapters: OperatorAdapters | None = None
        self._last_repair = 0.0

    @property
    def _acts(self) -> OperatorAdapters:
        assert self._adapters is not None
        return self._adapters

    def push_first(self) -> None:
        """Push the first tree."""
        chance, options = self._world.chance, self._world.options
        for number in range(options.services):
            self._plan.services[number] = ServicePlan(chance.choice(VERSIONS), self._targets())
        if chance.random() < 0.5:
            self._plan.controllers[chance.choice(self._world.roles)] = chance.choice(VERSIONS)
        if chance.random() < 0.3:
            self._choose_strategy()
        self._push()

    def work(self) -> None:
        """Act at random while there are faults; then repair until the fleet has converged."""
        world = self._world
        with Session("zk1:2181", session_timeout=10.0, create_chroot=True) as session:
            self._adapters = operator_adapters(session)
            end = world.now + world.options.faults
            pace = world.chance.choice([10.0, 40.0, 120.0])
            while world.now < end and not world.options.calm:
                world.network.scheduler.sleep(world.chance.expovariate(1 / pace))
                self._attempt(self._act)
            world.faults.end()
            if world.options.faults:
                self._change()
                self._push()
            while not self.converged:
                world.network.scheduler.sleep(_LOOK)
                obstacle = self._find_obstacle()
                self.converged = obstacle is None
                if obstacle is not None:
                    self.obstacle = obstacle
                    self._attempt(self._repair)

    def _attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except ZkdeploymentError as error:
            self._world.trace(f"an act fails: {error}")

    def _act(self) -> None:
        world, chance = self._world, self._world.chance
        kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        world.trace(f"act: {kind}")
        match kind:
            case "change":
                self._change()
                self._push()
            case "missing version":
                chance.choice(list(self._plan.services.values())).version = MISSING_VERSION
                self._push()
            case "strategy":
                self._choose_strategy()
                self._push()
            case "rewind":
                commit = chance.choice(list(world.repository.commits.values()))
                self._plan = self._plans[commit.revision].copy()
                if world.repository.published_tops <= commit.tops:
                    world.repository.rewind(commit)
                else:
                    self._push(rewritten=True)
                self._resume_latest()
            case "stop":
                self._acts.cluster.stop(self._act_of("stop"))
            case "hold":
                self._acts.cluster.hold(self._act_of("hold"))
            case "resume":
                self._acts.cluster.resume(self._act_of("resume"))
            case "resume latest":
                self._resume_latest()
            case "direct":
                directive = chance.choice(list(Directive))
                self._acts.rollouts.direct(directive, self._act_of("rollout"), "rest")
            case "join" if len(world.machines) < 2 * world.options.hosts:
                world.add_machine(len(world.machines))
            case "leave" if len(world.present_machines()) > 2:
                world.remove_machine(chance.choice(world.present_machines()[1:]))

    def _change(self) -> None:
        """Change the planned tree a little; nothing of it is missing afterwards."""
        chance, plan = self._world.chance, self._plan
        for service in plan.services.values():
            if service.version == MISSING_VERSION:
                service.version = VERSIONS[0]
        for _ in range(chance.choice([1, 1, 2, 3])):
            number = chance.randrange(self._world.options.services + EXTRA)
            kind = chance.choice(["version", "version", "targets", "text", "remove", "controller"])
            if kind == "controller":
                role = chance.choice(self._world.roles)
                if plan.controllers.pop(role, None) is None or chance.random() < 0.5:
                    plan.controllers[role] = chance.choice(VERSIONS)
            elif number not in plan.services:
                plan.services[number] = ServicePlan(chance.choice(VERSIONS), self._targets())
            elif kind == "version":
                plan.services[number].version = chance.choice(VERSIONS)
            elif kind == "targets":
                plan.services[number].targets = self._targets()
            elif kind == "text":
                plan.services[number].text = str(chance.randrange(1000))
            elif len(plan.services) > 1:
                del plan.services[number]

    def _targets(self) -> dict[str, int]:
        chance, world = self._world.chance, self._world
        hosts = [f"h{number}" for number in range(world.options.hosts) if world.role_of[number] is None]
        names = [*hosts, *world.roles]
        chosen = chance.sample(names, chance.randint(1, max(2, len(names) // 2)))
        return {name: chance.choice([1, 1, 2]) for name in chosen}

    def _choose_strategy(self) -> None:
        chance = self._world.chance
        self._plan.strategy = None
        if chance.random() < 0.7:
            self._plan.strategy = _STRATEGY.format(
                bake=chance.choice(["1s", "30s"]),
                critical=chance.choice(["true", "false"]),
                parallel=chance.choice([1, 2, 5]),
                tolerated=chance.choice([0, 1, 2, 9]),
            )

    def _push(self, *, rewritten: bool = False) -> None:
        commit = self._world.repository.push(self._plan.copy(), rewritten=rewritten)
        self._plans[commit.revision] = self._plan.copy()
        self._world.trace(f"push of revision {commit.number}, {commit.revision}")

    def _resume_latest(self) -> None:
        overrides = GuardOverrides(rewind=True, mass_removal=True)
        self._acts.cluster.resume_latest(self._act_of("resume"), timeout=60.0, overrides=overrides)

    def _act_of(self, what: str) -> Act:
        return Act("ann@ops", what, "because", self._world.network.modules.time.time())

    # After the last fault

    def _find_obstacle(self) -> str | None:
        """Return why the fleet has not converged, ``None`` if it has."""
        world, nodes = self._world, self._world.network.ensemble.leader.nodes
        tip = world.repository.fetch()
        version = _value(nodes, paths.HOSTS, "version")
        if version != tip:
            return f"the cluster version is {version}, the tip {tip}"
        for machine in world.present_machines():
            node = f"{paths.HOSTS}/{machine.name}"
            if _value(nodes, node, "version") != tip or machine.recorded_version != tip:
                step = _value(nodes, node, "step") or _value(nodes, node, "error")
                return f"{machine.name} is at {machine.recorded_version}, not at {tip} (its node says: {step})"
            if problems := world.checks.problems(machine, tip):
                return f"{machine.name}: {'; '.join(problems)}"
        return None

    def _repair(self) -> None:
        """Do what an operator does in a fleet that does not converge: release locks, resume."""
        world = self._world
        gone = {machine.name for machine in world.machines.values() if not machine.present}
        for lock in self._acts.locks.locks():
            holder = lock.contenders[0] if lock.contenders else None
            if holder is not None and holder.host_id in gone:
                self._acts.locks.release(holder.node, self._act_of("locks release"))
        rollout = self._acts.rollouts.rollout()
        if rollout is not None and rollout.paused:
            self._acts.rollouts.direct(Directive.RESUME, self._act_of("rollout resume"))
        nodes = world.network.ensemble.leader.nodes
        running = _value(nodes, paths.HOSTS, "version") == world.repository.fetch()
        if not running and world.now - self._last_repair > 4 * _LOOK:
            self._last_repair = world.now
            self._resume_latest()


def _value(nodes: dict, path: str, name: str) -> object:
    node = nodes.get(path)
    if node is None or not node.data:
        return None
    value = json.loads(node.data)
    return value.get(name)
