"""The people of a fleet: they push, rewind, stop, hold, resume, add and remove machines, and repair at the end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation.analyses import CANARY, canary_metric
from simulation.approval_checks import REST, awaits_approval
from simulation.check_plans import CheckPlan
from simulation.group_stops import FIX, GOVERNED_NUMBERS, GROUPS, SYSTEM
from simulation.leased_machines import IDLE, LENT
from simulation.repository import EXTRA, MISSING_VERSION, VERSIONS, ServicePlan, TreePlan
from simulation.systems import new_systems
from simulation.themes import ACTS
from support.strategies import canary_first
from zkdeployment.base.act import Act
from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.fleet.operator import operator_adapters
from zkdeployment.fleet.views.maintenance import HostSelection
from zkdeployment.publishing.daemon.syncer import Syncer
from zkdeployment.publishing.records import GuardOverrides, SyncOptions
from zkdeployment.publishing.store.store import ZooKeeperPublications
from zkdeployment.strategies.group_analysis import waiting_reason
from zkdeployment.strategies.progress import RecoveryStage
from zkdeployment.strategies.state import Directive
from zkdeployment.tree.values import TreeChange
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.session import Session
from zkdeployment.zookeeper.transactions import Set

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.world import World
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.strategies.state import RolloutState

#: The step of a host that waits for a service; a host that is not registered is named by its id.
_ORDER_STEP = re.compile(r"waits for /s([0-9]+)/app on (\w+)")

#: The most hosts of a fleet in which versions are set by hand: each host then reads the whole tree.
_SHARED_TREE = 1000

#: The most targets of a service.
_MOST_TARGETS = 10

#: Seconds between two looks at the fleet after the last fault.
_LOOK = 30.0


class Operators:
    """The operators. ``converged`` and ``obstacle`` describe the state of the fleet after the last fault."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.converged = False
        self.obstacle = "the operators have not finished"
        self._plan = TreePlan()
        self._plans: dict[str, TreePlan] = {}
        self._left: dict[int, ServicePlan] = {}  # without a file, but perhaps still live
        self._adapters: OperatorAdapters | None = None
        self._last_repair = 0.0
        self._unrecovered = 0  # looks at a fleet that waits for its rollback
        hosts = [f"h{number}" for number in range(world.options.hosts) if world.role_of[number] is None]
        others = (IDLE, LENT) if world.theme.leases else hosts  # hosts that can be leased have a role
        self._names = [*others, *world.roles]

    @property
    def _acts(self) -> OperatorAdapters:
        assert self._adapters is not None
        return self._adapters

    def push_first(self) -> None:
        """Push the first tree."""
        chance, options = self._world.chance, self._world.options
        for number in range(options.services):
            self._plan.services[number] = self._new_service(number)
        if self._world.theme.group_stops:
            self._plan.stopping = frozenset(subject for subject in GROUPS if chance.random() < 0.5)
        if self._world.theme.tolerant:
            self._plan.controllers = {"web": chance.choice(VERSIONS)}
            self._plan.services[0].targets = {"web": 1}
            self._choose_strategy()
        elif self._world.theme.controlled or (self._world.theme.reboots and chance.random() < 0.5):
            self._plan.controllers = {role: chance.choice(VERSIONS) for role in self._world.roles}
        else:
            if chance.random() < 0.5:
                self._plan.controllers[chance.choice(self._world.roles)] = chance.choice(VERSIONS)
            if (
                self._world.theme.retries
                or self._world.theme.checks
                or (chance.random() < 0.3 and not self._world.theme.leases)
            ):
                self._choose_strategy()
        if self._world.theme.reboots:
            self._plan.systems = new_systems(chance, self._names)
        self._plan.checks = CheckPlan.first(chance) if self._world.theme.checks else None
        self._push()

    def work(self) -> None:
        """Act at random while there are faults; then repair until the fleet has converged."""
        world = self._world
        with Session("zk1:2181", session_timeout=10.0, create_chroot=True) as session:
            self._session, self._adapters = session, operator_adapters(session)
            end = world.now + world.options.faults
            pace = world.theme.pace * world.chance.choice([10.0, 40.0, 120.0])
            while world.now < end and not world.options.calm:
                world.network.scheduler.sleep(world.chance.expovariate(1 / pace))
                self.attempt(self._act)
            world.faults.end()
            if world.theme.rollbacks:
                self.attempt(self._fail_a_rollout)
            is_pushed = world.chance.random() < 0.5 and not world.theme.tolerant
            if world.options.faults and (self._lacks_package() or is_pushed):
                self._change()
                self._push()
            if "prune" in world.theme.acts:
                self.attempt(self._prune_removed_file)
            while not self.converged:
                world.network.scheduler.sleep(_LOOK)
                obstacle = self._find_obstacle()
                self.converged = obstacle is None
                if obstacle is not None:
                    self.obstacle = obstacle
                    self.attempt(self._repair)

    def attempt(self, act: Callable[[], None]) -> None:
        """Do something; an error, such as a server that does not answer, ends it."""
        try:
            act()
        except ZkdeploymentError as error:
            self._world.trace(f"an act fails: {error}")

    def _act(self) -> None:
        world, chance = self._world, self._world.chance
        weights = {**ACTS, **world.theme.acts}
        if world.options.hosts > _SHARED_TREE:
            weights["by hand"] = 0
        kind = chance.choices(list(weights), list(weights.values()))[0]
        world.trace(f"act: {kind}")
        getattr(self, f"_{kind.replace(' ', '_')}")()

    # One method for each kind of act

    def _push_change(self) -> None:
        self._change()
        self._push()

    def _missing_version(self) -> None:
        self._world.chance.choice(list(self._plan.services.values())).version = MISSING_VERSION
        self._push()

    def _strategy(self) -> None:
        self._choose_strategy()
        self._push()

    def _rewind(self) -> None:
        repository = self._world.repository
        commit = self._world.chance.choice(list(repository.commits.values()))
        self._plan = self._plans[commit.revision].copy()
        if repository.published_tops <= commit.tops:
            repository.rewind(commit)
        else:
            self._push(rewritten=True)
        self._resume_latest()

    def _stop(self) -> None:
        self._acts.cluster.stop(self._act_of("stop"))

    def _hold(self) -> None:
        self._acts.cluster.hold(self._act_of("hold"))

    def _resume(self) -> None:
        self._acts.cluster.resume(self._act_of("resume"))

    def _retry(self) -> None:
        self._retry_any(self._acts)

    def _retry_any(self, acts: OperatorAdapters) -> None:
        """Let one of the failed hosts try again."""
        if failed := self._failed_hosts():
            acts.cluster.retry(self._world.chance.choice(failed), self._act_of("retry"))

    def _failed_hosts(self) -> list[str]:
        nodes = self._world.network.ensemble.leader.nodes
        machines = self._world.present_machines()
        return [each.name for each in machines if _value(nodes, f"{paths.HOSTS}/{each.name}", "error")]

    def _resume_group(self) -> None:
        """End the stop of a group; sometimes there is none."""
        for group in self._world.checks.groups.stopped[:1]:
            self._acts.cluster.resume_group(group, self._act_of("intent resume"))

    def _regroup(self) -> None:
        """Let failures of a group stop the other of group and fleet, and move and change its services.

        The syncer refuses such a change of an instantiated group without other content, which is approved.
        """
        plan = self._plan
        subject = self._world.chance.choice(list(GROUPS))
        plan.stopping = (plan.stopping or frozenset()) ^ {subject}
        for number in GROUPS[subject]:
            for kind in ("targets", "version", "patches"):
                self._change_service(plan.services[number], kind)
            plan.services[number].text = f"since {self._world.now:.3f}"
        self._push()

    def _cordon(self) -> None:
        """Put a machine into maintenance, mostly for some time; the machine may be in maintenance already."""
        chance, act = self._world.chance, self._act_of("cordon")
        machine = chance.choice(self._world.present_machines())
        until = chance.choice([None, act.time + 5.0, act.time + 60.0, act.time + 600.0])
        self._acts.maintenance.begin(HostSelection((machine.name,)), act, until=until)

    def _uncordon(self) -> None:
        """End the maintenance of a machine; sometimes there is none."""
        for host_id in self._world.checks.maintenance.endless()[:1]:
            self._acts.maintenance.end(HostSelection((host_id,)), self._act_of("uncordon"))

    def _system(self) -> None:
        """Push another release, or another generation, of a system node."""
        systems, chance = self._plan.systems, self._world.chance
        if not systems:
            return
        name = chance.choice(list(systems))
        systems[name] = systems[name].changed(chance)
        if chance.random() < 0.05:
            systems[name] = replace(systems[name], release=MISSING_VERSION, update="all")
        self._push()

    def _no_systems(self) -> None:
        """Push a tree without system nodes, which agents of each version understand; or one with them again."""
        self._plan.systems = {} if self._plan.systems else new_systems(self._world.chance, self._names)
        self._push()

    def _upgrade(self) -> None:
        """Install the newer agent on a machine."""
        self._install_agent(is_older=False)

    def _go_back(self) -> None:
        """Install the older agent on a machine."""
        self._install_agent(is_older=True)

    def _install_agent(self, *, is_older: bool) -> None:
        machines = [each for each in self._world.present_machines() if each.has_older_agent != is_older]
        if machines:
            machine = self._world.chance.choice(machines)
            machine.has_older_agent = is_older
            self._world.trace(f"{machine.name} has the {'older' if is_older else 'newer'} agent")

    def _power_on(self) -> None:
        """Start the machines that are known not to have come back from their reboots."""
        for machine in self._world.present_machines():
            if machine.system.is_off and self._world.checks.reboots.reported(machine):
                machine.system.power_on()

    def _change_checks(self) -> None:
        self._plan.checks = self._plan.checks.changed(self._world.chance, self._world.options.services)
        self._push()

    def _direct(self) -> None:
        self._acts.rollouts.direct(self._world.chance.choice(list(Directive)), self._act_of("rollout"), REST)

    def _approve(self) -> None:
        """Allow the group that waits for an approval to begin; sometimes none waits."""
        self._acts.rollouts.direct(Directive.PROMOTE, self._act_of("rollout promote"), REST)

    def _withhold(self) -> None:
        """Pause the rollout."""
        self._acts.rollouts.direct(Directive.PAUSE, self._act_of("rollout pause"))

    def _release(self) -> None:
        """End the pause of the rollout."""
        self._acts.rollouts.direct(Directive.RESUME, self._act_of("rollout resume"))

    def _join(self) -> None:
        if len(self._world.machines) < 2 * self._world.options.hosts:
            self._world.add_machine(len(self._world.machines))

    def _leave(self) -> None:
        if len(self._world.present_machines()) > 2:
            self._world.remove_machine(self._world.chance.choice(self._world.present_machines()[1:]))

    def _change_role(self) -> None:
        world = self._world
        machines = [
            machine
            for machine in world.present_machines()
            if machine.identity.role is not None and world.daemons[machine.name].wanted
        ]
        if machines:
            machine = world.chance.choice(machines)
            world.change_role(machine, world.chance.choice(world.roles))

    def _rotate_key(self) -> None:
        """Take one step of a rotation of the publishers' keys; syncers start again to use another key."""
        world = self._world
        signed = world.network.ensemble.leader.nodes.get(paths.SIGNED)
        done = world.keys.rotate(b"" if signed is None else signed.data)
        world.trace(done or "the old key is still needed")
        for name in ("syncer1", "syncer2"):
            world.daemons[name].terminate()

    def _publish_again(self) -> None:
        """Change a service's node by hand, and publish the tip again, which corrects that."""
        chance, nodes = self._world.chance, self._world.network.ensemble.leader.nodes
        path = chance.choice(sorted(path for path in nodes if path.endswith("/app")) or [paths.HOSTS])
        if path != paths.HOSTS and chance.random() < 0.7:
            self._change_by_hand(path)
        self._resume_latest()

    def _change_by_hand(self, path: str) -> None:
        """Change the node of a service by hand."""
        node = self._session.get(path)
        if node is not None:
            self._session.commit(Set(path, encode({**node.properties, "drift": self._world.now}), node.version))

    def _remove_file(self) -> None:
        """Push a tree without the file of a service, whose node stays until it is pruned."""
        if len(self._plan.services) > 1:
            number = self._world.chance.choice(list(self._plan.services))
            self._left[number] = self._plan.services.pop(number)
            self._world.repository.without_file.add(number)
            self._push()

    def _prune(self) -> None:
        """Publish the tip again, and remove the nodes that are no longer in a file."""
        syncer = Syncer(self._world.repository, ZooKeeperPublications(self._session), SystemClock())
        overrides = GuardOverrides(rewind=True, mass_removal=True)
        syncer.sync(SyncOptions(force=True, prune=True, overrides=overrides))

    def _prune_removed_file(self) -> None:
        """Remove the file of a service, and prune its node after hosts have the revision."""
        self._remove_file()
        self._resume_latest()
        self._world.take_time(100.0, 300.0)
        self._prune()

    def _rename(self) -> None:
        """Give a machine another name; its agent starts again."""
        world = self._world
        machine = world.chance.choice(world.present_machines())
        name = f"{machine.name}.n{world.chance.randrange(100)}.example.com"
        machine.identity = replace(machine.identity, name=name)
        world.trace(f"{machine.name} is {name}")
        world.daemons[machine.name].kill()

    # What people do

    def _change(self) -> None:
        """Change the planned tree a little; nothing of it is missing afterwards."""
        chance, plan = self._world.chance, self._plan
        self._plan_existing_versions()
        for _ in range(chance.choice([1, 1, 2, 3])):
            number = chance.randrange(self._world.options.services + EXTRA)
            if self._world.theme.fatal_commits and chance.random() < 0.5:
                number = self._world.options.services + chance.randrange(EXTRA)
            kinds = ["version", "version", "targets", "text", "remove", "controller"]
            kind = chance.choice([*kinds, "patches"] if self._world.theme.group_stops else kinds)
            if kind == "controller":
                role = chance.choice(self._world.roles)
                if plan.controllers.pop(role, None) is None or chance.random() < 0.5:
                    plan.controllers[role] = chance.choice(VERSIONS)
            elif number not in plan.services:
                plan.services[number] = self._new_service(number)
            elif kind != "remove":
                self._change_service(plan.services[number], kind)
            elif len(plan.services) > 1 and not (plan.stopping is not None and number in GOVERNED_NUMBERS):
                del plan.services[number]

    def _plan_existing_versions(self) -> None:
        """Replace missing versions and releases in the planned tree."""
        for broken in [service for service in self._plan.services.values() if service.version == MISSING_VERSION]:
            broken.version = VERSIONS[0]
        for name, system in self._plan.systems.items():
            if system.release == MISSING_VERSION:
                self._plan.systems[name] = replace(system, release=VERSIONS[0])

    def _new_service(self, number: int) -> ServicePlan:
        chance = self._world.chance
        service = ServicePlan(chance.choice(VERSIONS), self._targets())
        if chance.random() < self._world.theme.ordered:
            service.rerun = chance.choice(["", "changed"])
            service.undeploy = chance.choice(["", "last"])
            others = [other for other in self._plan.services if other < number]
            service.after = tuple(chance.sample(others, min(len(others), chance.choice([0, 1, 2]))))
        if self._world.theme.group_stops:
            service.patches = self._patches()
        service.reboots = self._world.theme.reboots and chance.random() < 0.5
        return service

    def _change_service(self, service: ServicePlan, kind: str) -> None:
        if kind == "version":
            service.version = self._world.chance.choice(VERSIONS)
        elif kind == "targets":
            service.targets = self._targets()
        elif kind == "patches":
            service.patches = self._patches()
        else:
            service.text = str(self._world.chance.randrange(1000))

    def _patches(self) -> tuple[str, ...]:
        return tuple(name for name in (FIX, SYSTEM.name) if self._world.chance.random() < 0.5)

    def _lacks_package(self) -> bool:
        tip = self._world.repository.tip
        return tip is None or MISSING_VERSION in tip.text or tip.revision in self._world.checks.imported

    def _lacks_file(self) -> bool:
        """Whether a service was published that no file of the tip names, which signed publications refuse."""
        repository = self._world.repository
        return repository.tip is not None and not repository.published_tops <= repository.tip.tops

    def _by_hand(self) -> None:
        """Set a version by hand, and import a change of the tree at about that time."""
        session, chance = self._session, self._world.chance
        live = self._acts.tree.live_tree()
        update: dict[str, dict[str, Any]] = {}
        for path, properties in live.tree.nodes.items():
            if path.endswith("/app"):
                update[path] = {**properties, "version": chance.choice(VERSIONS)}
            elif path.rpartition("/")[0].endswith("/deploy"):
                update[path] = {"n": chance.choice([1, 2])}
        hosts = session.get(paths.HOSTS)
        if hosts is None or not update:
            return
        if chance.random() < 0.7:
            session.commit(Set(paths.HOSTS, encode({"version": f"by-hand-{self._world.now:.0f}"}), hosts.version))
            self._world.take_time(0.0, 20 * self._world.network.latency())
        self._acts.tree.import_tree(TreeChange(update=update), roles=(), versions=live.versions)

    def _version_by_hand(self) -> None:
        """Set the version by hand, and keep the other properties: mostly to stop the fleet at the end."""
        chance, session = self._world.chance, self._session
        for version in chance.choice([[None], [None], [False, None], [f"by-hand-{self._world.now:.0f}", None]]):
            hosts = session.get(paths.HOSTS)
            if hosts is not None:
                session.commit(Set(paths.HOSTS, encode({**hosts.properties, "version": version}), hosts.version))
                self._world.take_time(0.0, chance.choice([0.1, 5.0]))

    def _import_beside_a_retry(self) -> None:
        """Import a node by hand while another operator retries a host."""
        world = self._world

        def retry() -> None:
            with Session("zk1:2181", session_timeout=10.0) as session:
                self._retry_any(operator_adapters(session))

        change = TreeChange(create={f"/by-hand-{world.now:.0f}": {}})
        world.network.scheduler.spawn(world.new_process("another operator"), lambda: self.attempt(retry))
        world.take_time(0.0, 20 * world.network.latency())
        self._acts.tree.import_tree(change, roles=(), versions={})

    def resume_at_once(self) -> None:
        """Resume at about the time of a stop, while other hosts may still record theirs."""
        with Session("zk1:2181", session_timeout=10.0) as session:
            self._world.take_time(0.0, 1.0)
            self.attempt(lambda: operator_adapters(session).cluster.resume(self._act_of("resume")))

    def stopped(self) -> None:
        """Hear of a stop."""
        world = self._world
        if world.faults.are_active and world.chance.random() < world.theme.hasty:
            at_once = self.retry_again_and_again if world.theme.retries else self.resume_at_once
            world.network.scheduler.spawn(world.new_process("hasty"), lambda: self.attempt(at_once))

    def retry_again_and_again(self) -> None:
        """Order retries of failed hosts until one resumes the fleet, both also while a retry is under way.

        A host whose retry succeeded may lose its run directory.
        """
        world = self._world
        with Session("zk1:2181", session_timeout=10.0) as session:
            acts = operator_adapters(session)
            while world.faults.are_active and world.checks.is_stopped:
                world.take_time(0.0, world.chance.choice([1.0, 20.0]))
                succeeded = world.checks.retries.succeeded
                if succeeded is not None and world.chance.random() < 0.5:
                    world.take_time(20.0, 40.0)
                    world.faults.lose_run_directory(succeeded)
                    world.take_time(60.0, 120.0)
                self.attempt(lambda: self._retry_any(acts))
                if world.chance.random() < 0.1:
                    world.take_time(0.0, 10.0)
                    self.attempt(lambda: acts.cluster.resume(self._act_of("resume")))

    def take_back(self) -> None:
        """Take the last push back, at about the time at which a syncer died while it published it."""
        repository = self._world.repository
        known = [commit for commit in repository.commits.values() if repository.published_tops <= commit.tops]
        if not known or not self._world.faults.are_active:
            return
        commit = known[-1] if known[-1] is not repository.tip or len(known) < 2 else known[-2]
        self._world.trace(f"the branch goes back to revision {commit.number}")
        self._plan = self._plans[commit.revision].copy()
        repository.rewind(commit)
        with Session("zk1:2181", session_timeout=10.0) as session:
            self.attempt(
                lambda: operator_adapters(session).cluster.resume_latest(
                    self._act_of("resume"), timeout=60.0, overrides=GuardOverrides(rewind=True, mass_removal=True)
                )
            )

    def _fail_a_rollout(self) -> None:
        """Push a change whose scripts fail, and publish it again while its rollout may be under way."""
        world = self._world
        self._change()
        self._push()
        self._resume_latest()
        world.script_failures = 1.0
        world.take_time(0.0, 20.0)
        self.attempt(self._resume_latest)
        world.take_time(60.0, 90.0)
        world.script_failures = 0.0

    def roll_back(self, revision: str, rollout: str) -> str:
        """Push the tree of an earlier revision, as the coordinator does after a failed rollout."""
        self._plan = self._plans[revision].copy()
        self._push()
        tip = self._world.repository.fetch()
        self._world.repository.rollbacks[tip] = rollout
        return tip

    def _awaits_rollback(self) -> bool:
        """Whether the coordinator has to roll back; after ten minutes without faults, that is a violation."""
        rollout = self._acts.rollouts.rollout()
        recovery = None if rollout is None else rollout.recovery
        is_due = recovery is not None and recovery.stage in {RecoveryStage.DUE, RecoveryStage.COMMITTED}
        is_stopped = _value(self._world.network.ensemble.leader.nodes, paths.HOSTS, "version") is None
        self._unrecovered = self._unrecovered + 1 if is_due and is_stopped else 0
        if self._unrecovered > 20 and rollout is not None:
            self._world.checks.fail(f"the fleet is stopped, and of rollout {rollout.id}: {recovery}")
        return is_due and is_stopped

    def _targets(self) -> dict[str, int]:
        chance, names = self._world.chance, self._names
        chosen = chance.sample(names, chance.randint(1, max(2, min(_MOST_TARGETS, len(names) // 2))))
        return {name: chance.choice([1, 1, 2]) for name in chosen}

    def _choose_strategy(self) -> None:
        chance = self._world.chance
        self._plan.strategy = None
        tolerant = self._world.theme.tolerant
        if tolerant or chance.random() < 0.7:
            canary: dict[str, object] = {"bake_time": chance.choice(["1s", "30s"])}
            canary |= {"healthy_checks": True} if self._world.theme.checks else {}
            if self._world.theme.analyses:
                metric = canary_metric(failure_limit=chance.choice([0, 2]))
                canary = {"bake_time": "5m", "progress_deadline": "5m", "analysis": [metric]}
            rest: dict[str, object] = {
                "critical": chance.choice([True, False]),
                "max_parallel": chance.choice([1, 2, 5]) * max(1, self._world.options.hosts // 20),
                "success_criteria": {"maximum_failed_nodes": 9 if tolerant else chance.choice([0, 1, 2, 9])},
            }
            if self._world.theme.approvals:
                rest["manual"] = chance.random() < 0.8
            on_failure = "rollback" if self._world.theme.rollbacks else "stop"
            self._plan.strategy = canary_first({"node_tags": ["canary"]}, rest, canary, on_failure=on_failure)

    def _push(self, *, rewritten: bool = False) -> None:
        live = TreePlan({**self._left, **self._plan.services}, self._plan.controllers)
        if self._world.repository.commit_of(live).has_circle:
            for service in self._plan.services.values():
                service.after = ()
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
        for overdue in world.checks.reboots.overdue():
            world.checks.fail(overdue)
        version = _value(nodes, paths.HOSTS, "version")
        if version != tip:
            return f"the cluster version is {version}, the tip {tip}"
        for machine in world.present_machines():
            node = f"{paths.HOSTS}/{machine.name}"
            if _value(nodes, node, "version") != tip or machine.recorded_version != tip:
                step = _value(nodes, node, "step") or _value(nodes, node, "error")
                return f"{machine.name} is at {machine.recorded_version}, not at {tip} (its node says: {step})"
            if lacked := world.checks.groups.lacked(machine):
                return f"{machine.name} lacks {', '.join(sorted(lacked))}"
            if problems := world.checks.problems(machine, tip):
                return f"{machine.name}: {'; '.join(problems)}"
            if f"{paths.OUT_OF_SERVICE}/{machine.name}" in nodes:
                return f"{machine.name} is out of service"
        return self._find_request() or world.tenants.obstacle or world.checks.monitoring.obstacle()

    def _find_request(self) -> str | None:
        """Return who blocks the lock of a role although it has the tip."""
        nodes = self._world.network.ensemble.leader.nodes
        for path in nodes:
            if path.startswith(f"{paths.ROLE_LOCKS}/") and path.count("/") == 3:
                name = str(_value(nodes, path, "requestor"))
                if name in self._world.machines and self._world.machines[name].present:
                    return f"{name} still has the request {path}"
        return None

    def _repair(self) -> None:
        """Act as an operator whose fleet does not converge: release locks, resume."""
        world = self._world
        self._release_locks_of_lost_hosts()
        self._power_on()
        self._upgrade()
        self._resume_group()
        self._uncordon()
        rollout = self._acts.rollouts.rollout()
        if rollout is not None and rollout.ending is None:
            self._decide(rollout)
        nodes = world.network.ensemble.leader.nodes
        tip = world.repository.fetch()
        running = _value(nodes, paths.HOSTS, "version") == tip
        over = rollout is not None and rollout.ending is not None and rollout.revision == tip
        if self._awaits_rollback() or world.now - self._last_repair < 4 * _LOOK:
            return
        if not running:
            self._last_repair = world.now
            if world.theme.signed and self._lacks_file():
                self._push()
            self._resume_tip()
        elif over:  # a host whose failure was tolerated tries again with the next change
            self._last_repair = world.now
            self._change()
            self._push()
        elif rollout is not None and rollout.ending is not None and self._failed_hosts():
            self._last_repair = world.now
            self._resume_latest()  # the last push changes nothing for hosts, so that no rollout tries them again
        elif missed := self._services_of_lost_hosts():
            self._last_repair = world.now
            for number in missed:
                self._plan.services[number].targets = {world.chance.choice(self._present_targets()): 1}
            self._push()
            self._resume_latest()

    def _decide(self, rollout: RolloutState) -> None:
        """Take the decisions for which a rollout waits."""
        if rollout.paused:
            self._release()
        if waiting_reason(rollout, CANARY):
            self._acts.rollouts.direct(Directive.PROMOTE, self._act_of("rollout promote"), CANARY)
        if awaits_approval(rollout):
            self._approve()

    def _resume_tip(self) -> None:
        """Publish the tip; add removed files again if the order of their services forbids that."""
        try:
            self._resume_latest()
        except ZkdeploymentError as error:
            if "deploy_after" not in str(error):
                raise
            self._plan.services = {**self._left, **self._plan.services}
            for service in self._plan.services.values():
                service.after = ()
            self._push()
            self._resume_latest()

    def _release_locks_of_lost_hosts(self) -> None:
        gone = {machine.name for machine in self._world.machines.values() if not machine.present}
        for lock in self._acts.locks.locks():
            if lock.holder is not None and lock.holder.host_id in gone:
                self._acts.locks.release(lock.holder.node, self._act_of("locks release"))
            if lock.work is not None and lock.work.kept and lock.work.host_id in gone:
                self._acts.locks.release(lock.record, self._act_of("locks release"))

    def _services_of_lost_hosts(self) -> list[int]:
        """Return the planned services for which hosts wait although the awaited host is switched off for good."""
        world, nodes = self._world, self._world.network.ensemble.leader.nodes
        steps = (_value(nodes, f"{paths.HOSTS}/{machine.name}", "step") for machine in world.present_machines())
        waits = (_ORDER_STEP.match(str(step)) for step in steps)
        awaited = {(int(wait[1]), wait[2]) for wait in waits if wait is not None}
        return sorted(
            number
            for number, name in awaited
            if number in self._plan.services and name in world.machines and not world.machines[name].present
        )

    def _present_targets(self) -> list[str]:
        """Return the targets that name a machine which is not switched off; the first machine never is."""
        present = self._world.present_machines()
        names = {name for machine in present for name in (machine.name, machine.identity.role)}
        return [name for name in self._names if name in names]


def _value(nodes: dict, path: str, name: str) -> object:
    node = nodes.get(path)
    if node is None or not node.data:
        return None
    value = json.loads(node.data)
    return value.get(name)
