"""The operators of a chaos run: they push, rewind, roll back, stop, hold, resume, retry, and repair at the end."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from chaos.attacker import Attacker
from chaos.observations import HostBooted
from chaos.trace import uptime
from chaos.trees import SYNTAX_ERROR, changed_plan, first_plan, repaired_plan, spoilt_plan, strategic_plan, text_of
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine import process
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader
from zkdeployment.fleet.store.forgetting import forget_hosts
from zkdeployment.publishing.records import GuardOverrides
from zkdeployment.publishing.store.reboots import read_reboots
from zkdeployment.strategies.state import Directive
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from chaos.observer import Observer
    from chaos.plan import Planned
    from chaos.trees import TreePlan
    from chaos.world import World
    from zkdeployment.zookeeper.session import Session

#: Seconds in which a syncer has to answer during faults, and afterwards.
_ANSWER = 8.0
_PATIENT_ANSWER = 30.0

#: Seconds between two repairs.
_REPAIR = 10.0

_ANYTHING = GuardOverrides(rewind=True, mass_removal=True, package_problems=True)


class Operators:
    """Acts of people, also of an attacker; one thread at a time uses them."""

    def __init__(self, world: World, observer: Observer, session: Session) -> None:
        self._world = world
        self._observer = observer
        self._session = session
        self._acts = operator_adapters(session)
        self._attacker = Attacker(session, world.hosts)
        self._plan: TreePlan | None = None
        self._plans: dict[str, TreePlan] = {}
        self._repaired = 0.0

    def act(self, planned: Planned) -> None:
        """Perform an act; the trace records an act that fails."""
        self._world.trace.note(f"act: {planned}")
        self._attempt(planned.kind, Random(planned.choice))

    def _attempt(self, kind: str, chance: Random) -> None:
        self._observer.read_cluster()  # a resume forgets the stops that were not looked at
        try:
            getattr(self, f"_{kind.replace(' ', '_')}")(chance)
        except ZkdeploymentError as error:
            self._world.trace.note(f"{kind} fails: {error}")

    # One method for each kind

    def _push(self, chance: Random) -> None:
        hosts = self._world.hosts
        self._publish(first_plan(chance, hosts) if self._plan is None else changed_plan(self._plan, chance, hosts))

    def _push_of_a_syntax_error(self, _: Random) -> None:
        if self._plan is not None:
            self._world.repository.push(text_of(self._plan) + SYNTAX_ERROR, self._plan.strategy)

    def _push_of_a_missing_version(self, chance: Random) -> None:
        if self._plan is not None:
            self._publish(spoilt_plan(self._plan, chance))

    def _push_of_a_strategy(self, chance: Random) -> None:
        if self._plan is not None:
            self._publish(strategic_plan(self._plan, chance, self._world.hosts))

    def _rewind(self, chance: Random) -> None:
        repository = self._world.repository
        known = [revision for revision in repository.history() if revision in self._plans]
        revision = chance.choice(known[:5])
        self._plan = self._plans[revision]
        repository.rewind(revision)
        self._resume_at_the_tip(chance)

    def _rollback(self, chance: Random) -> None:
        known = [revision for revision in self._world.repository.history() if revision in self._plans]
        revision = chance.choice(known[1:5] or known)
        argv = [sys.executable, "-m", "zkdeployment", "rollback", revision, "--reason", "chaos", "--yes"]
        environment = self._world.sandbox.environment()
        environment.pop("PYTHONPATH", None)  # the operator's clock is right
        process.run(argv, env=environment, timeout=60).check()
        tip = self._world.repository.tip
        self._plan = self._plans[tip] = self._plans[revision]

    def _stop(self, _: Random) -> None:
        self._acts.cluster.stop(self._act_of("stop"))

    def _hold(self, _: Random) -> None:
        self._acts.cluster.hold(self._act_of("hold"))

    def _resume(self, _: Random) -> None:
        self._acts.cluster.resume(self._act_of("resume"))

    def _resume_at_the_tip(self, _: Random, timeout: float = _ANSWER) -> None:
        self._acts.cluster.resume_latest(self._act_of("resume"), timeout=timeout, overrides=_ANYTHING)

    def _retry(self, chance: Random) -> None:
        hosts = self._world.hosts
        nodes = zip(hosts, self._session.get_many(f"{paths.HOSTS}/{host}" for host in hosts), strict=True)
        failed = [host for host, node in nodes if node is not None and node.properties.get("error")]
        if failed:
            self._acts.cluster.retry(chance.choice(failed), self._act_of("retry"))

    def _directive(self, chance: Random) -> None:
        self._acts.rollouts.direct(chance.choice(list(Directive)), self._act_of("rollout"), "rest")

    def _declaration_of_a_death(self, chance: Random) -> None:
        failed = [record.host_id for record in read_reboots(self._session) if record.expired]
        dead = [host for host in failed if self._world.is_lost(host) and self._world.pid(host) is None]
        if dead:
            host, before = chance.choice(dead), uptime()
            reader = ZooKeeperFleetReader(self._session)
            forget_hosts(self._session, reader, [host], self._act_of("forget"), force=True)
            self._world.trace.note(f"{host} was declared dead")
            self._observer.see_reboot(HostBooted(before, host))

    def _attack_on_a_target(self, chance: Random) -> None:
        self._observer.attack(lambda: self._attacker.change_target(chance))

    def _attack_on_a_property(self, chance: Random) -> None:
        self._observer.attack(lambda: self._attacker.change_property(chance))

    def _attack_with_a_publication(self, chance: Random) -> None:
        self._observer.attack(lambda: self._attacker.publish(chance))

    def _attack_with_a_replay(self, chance: Random) -> None:
        self._observer.attack(lambda: self._attacker.replay(chance))

    # After the last fault

    def settle(self, chance: Random) -> None:
        """Push a tree whose packages all exist."""
        plan = repaired_plan(self._plan) if self._plan is not None else first_plan(chance, self._world.hosts)
        plan = replace(plan, strategy=None)
        self._publish(changed_plan(plan, chance, self._world.hosts))

    def obstacle(self) -> str | None:
        """Return why the fleet has not converged; ``None`` if it has."""
        tip = self._world.repository.tip
        places = [paths.HOSTS, *(f"{paths.HOSTS}/{host}" for host in self._world.hosts)]
        cluster, *hosts = (node and node.properties for node in self._session.get_many(places))
        version = (cluster or {}).get("version")
        if version != tip:
            return f"the cluster version is {version}, the tip is {tip}"
        for host, properties in zip(self._world.hosts, hosts, strict=True):
            if properties is None:
                return f"{host} is not registered"
            if properties.get("version") != tip:
                step = properties.get("error") or properties.get("step")
                return f"{host} is at {properties.get('version')}: {step}"
            claim = self._observer.claim(host)
            if claim is None or claim.revision != tip:
                return f"{host} does not claim to have deployed {tip}"
        return None

    def repair(self) -> None:
        """Act as an operator whose fleet does not converge: start hosts that are off, and resume the fleet."""
        if time.monotonic() - self._repaired < _REPAIR:
            return
        self._repaired = time.monotonic()
        off = [host for host in self._world.hosts if self._world.pid(host) is None]
        if off:
            self._world.trace.note(f"repair: start {', '.join(off)}")
            self._world.sandbox.start(off)
        node = self._session.get(paths.HOSTS)
        if node is None or node.properties.get("version") != self._world.repository.tip:
            self._world.trace.note("repair: resume at the tip")
            self._resume_patiently()

    def _resume_patiently(self) -> None:
        try:
            self._resume_at_the_tip(Random(0), _PATIENT_ANSWER)
        except ZkdeploymentError as error:
            self._world.trace.note(f"resume fails: {error}")

    # Inside

    def _publish(self, plan: TreePlan) -> None:
        self._plan = plan
        revision = self._world.repository.push(text_of(plan), plan.strategy)
        self._plans[revision] = plan
        self._world.trace.note(f"pushed {revision[:12]}")

    @staticmethod
    def _act_of(what: str) -> Act:
        return Act("ann@ops", what, "chaos", time.time())
