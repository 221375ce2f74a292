"""The invariants of the rollouts of checks, and of rollouts that wait for healthy checks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from simulation.analyses import CANARY
from simulation.approval_checks import REST
from simulation.check_plans import SYSTEMS, WantedCheck, wanted_checks
from simulation.green import EPOCH
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration, InstanceKey
from zkdeployment.checks.rules.listing import is_failed
from zkdeployment.checks.rules.monitoring_system import STALE_AFTER, CheckResult, ResultState
from zkdeployment.checks.rules.workflow import is_open
from zkdeployment.strategies.state_machine import GroupVerdict, HostProgress
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.monitoring import MonitoringSystem
    from simulation.server_tree import Change
    from simulation.world import World
    from zkdeployment.strategies.state import RolloutState

#: Seconds that a coordinator may take from its reads of the results to the record of a verdict.
_GRACE = 60.0

#: Seconds that a coordinator may take for the reads of the cycle in which the bake time begins.
_CYCLE = 10.0

#: The states of a configuration that its monitoring system may have.
_HELD = frozenset(
    {
        CheckState.AWAITING_ROLLOUT,
        CheckState.ROLLOUT_IN_PROGRESS,
        CheckState.ACTIVE,
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
        CheckState.DEPROVISION_FAILED,
    }
)


class _Reported(NamedTuple):
    """A result that was written, with the time of that."""

    time: float
    result: CheckResult


class MonitoringChecks:
    """Follows check instances and their results, and the rollouts that the results decide."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._instances: dict[str, CheckInstance] = {}
        self._results: dict[str, list[_Reported]] = {}
        self._heard: dict[str, list[float]] = {}  # the times of the reports of each monitoring system
        self._deployed: dict[tuple[str, str, int], dict[str | None, float]] = {}  # when each version succeeded
        self._worked: dict[str, float] = {}  # when a script of a machine ended
        self._succeeded: set[str] = set()  # the rollouts whose canary succeeded
        self._bake_times: dict[str, float] = {}
        self._continued: set[str] = set()  # the rollouts that went on after their canary

    def script_ended(self, call: ScriptCall) -> None:
        """Note a deployment that succeeded, and the end of any script."""
        machine = call.machine
        self._worked[machine.name] = self._world.now
        if not (call.fails or call.is_bracket or call.undeploys):
            deployed = self._deployed.setdefault((machine.name, call.path, call.number), {})
            deployed[machine.version_of(call.package)] = self._world.now

    def committed(self, changes: Sequence[Change]) -> None:
        """Check a transaction that wrote instances, results or rollouts."""
        for change in changes:
            directory, _, name = change.path.rpartition("/")
            if change.kind == "delete":
                continue
            if directory == check_paths.INSTANCES:
                for value in unpack(change.data):  # type: ignore[attr-defined]
                    self._instance_written(CheckInstance.from_json(value))
            elif directory.startswith(check_paths.SYSTEMS) and directory.endswith("/results"):
                for instance, value in unpack(change.data).items():  # type: ignore[attr-defined]
                    self._result_written(instance, CheckResult.from_json(value))
            elif directory.startswith(check_paths.SYSTEMS) and name == "contact":
                self._heard.setdefault(directory.rpartition("/")[2], []).append(self._world.now)
            elif change.path.startswith(f"{paths.ROLLOUTS}/"):
                self._rollout_written(change)

    # Check instances

    def _instance_written(self, instance: CheckInstance) -> None:
        before = self._instances.get(instance.id)
        if before == instance:
            return
        self._instances[instance.id] = instance
        states = {found.version: found.state for found in (() if before is None else before.configurations)}
        for configuration in instance.configurations:
            if configuration.state is not states.get(configuration.version):
                self._moved(instance, configuration)
        held = [found for found in instance.configurations if found.state in _HELD]
        if len(held) > 1:
            self._fail(f"{_name(instance)} has {len(held)} configurations at the same time: {_states(instance)}")
        self._check_entries(instance)

    def _moved(self, instance: CheckInstance, configuration: InstanceConfiguration) -> None:
        """Check a configuration that has come into another state."""
        key, system = instance.key, self._system(configuration.system)
        self._world.trace(f"check {_name(instance)} {configuration.version} is {configuration.state.value}")
        match configuration.state:
            case CheckState.AWAITING_ROLLOUT:
                version = configuration.details["arguments"][0]
                if version not in self._deployed.get((key.host, key.path, key.number), {}):
                    self._fail(f"{_name(instance)} is rolled out, but {key.host} has not deployed {version}")
            case CheckState.ACTIVE if (configuration.config_id, True) not in system.done:
                self._fail(f"{_name(instance)} is active, but {configuration.system} has not deployed it")
            case CheckState.DEPROVISIONED if (configuration.config_id, False) not in system.done:
                self._fail(f"{_name(instance)} is deprovisioned, but {configuration.system} has not removed it")

    def _check_entries(self, instance: CheckInstance) -> None:
        """Check that operators and monitoring systems can find an instance that is not complete."""
        nodes = self._world.network.ensemble.leader.nodes
        for system in SYSTEMS:
            is_own = instance.system == system
            expected = {
                "flagged": instance.update_available,
                "open": is_open(instance),
                "failed": is_failed(instance),
            }
            for index, belongs in expected.items():
                path = f"{check_paths.system_path(system)}/{index}/{instance.id}"
                if (path in nodes) != (belongs and is_own):
                    there = "is" if path in nodes else "is not"
                    self._fail(f"{_name(instance)}, {_states(instance)}, {there} among the {index} of {system}")

    def _result_written(self, instance: str, result: CheckResult) -> None:
        results = self._results.setdefault(instance, [])
        if not results or results[-1].result != result:
            results.append(_Reported(self._world.now, result))

    # Rollouts

    def _rollout_written(self, change: Change) -> None:
        rollout, _, child = change.path.removeprefix(f"{paths.ROLLOUTS}/").partition("/")
        if not child:
            self._check_verdict(decode_state(change.data))
        elif child.startswith("grants/") and rollout not in self._continued:
            grant = unpack(change.data)
            if grant["group"] == REST and grant["phase"] is not None:  # type: ignore[index]
                self._continued.add(rollout)
                self._check_bake(rollout)

    def _check_verdict(self, state: RolloutState) -> None:
        """Check a canary that has succeeded: each check of its hosts was OK, and its system was heard of."""
        is_new = CANARY in state.rollout.members and state.id not in self._succeeded
        if not is_new or state.rollout.progress[CANARY].verdict is not GroupVerdict.SUCCESS:
            return
        self._succeeded.add(state.id)
        pace = state.rollout.strategy.group(CANARY).pace
        self._bake_times[state.id] = pace.bake_time
        commit = self._world.repository.commits.get(str(state.revision))
        for host in state.rollout.members[CANARY]:
            if not pace.healthy_checks or commit is None or state.rollout.hosts[host] is not HostProgress.SUCCESS:
                continue
            for wanted in wanted_checks(commit, self._world.machines[host].identity):
                problem = self._problem(wanted)
                if problem is not None:
                    self._fail(f"the canary of {state.id} succeeds, but {_subject(wanted)} {problem}")

    def _problem(self, wanted: WantedCheck) -> str | None:
        """Return why a check did not permit a verdict; ``None`` if it did within the last moments."""
        now, reports = self._world.now, self._results.get(_id(wanted), [])
        ends = [report.time for report in reports[1:]]
        counting = [
            report.result
            for report, end in itertools.zip_longest(reports, ends, fillvalue=now)
            if end >= now - _GRACE
        ]
        deployed = self._deployed.get((wanted.host, wanted.path, wanted.number), {}).get(wanted.version, now)
        if not any(self._is_good(result, wanted, deployed) for result in counting):
            return f"was not OK since its deployment at {deployed:.0f}: {counting}"
        heard = self._heard.get(wanted.planned.system, [0.0])[-1]
        return None if now - heard <= STALE_AFTER + _GRACE else f"was reported {now - heard:.0f} s ago"

    def _is_good(self, result: CheckResult, wanted: WantedCheck, deployed: float) -> bool:
        """Whether a result is OK, of a run since the deployment, and of the wanted configuration."""
        if result.state is not ResultState.OK or (result.checked or 0.0) - EPOCH < deployed:
            return False
        configurations = self._instances[_id(wanted)].configurations
        ran = next((found for found in configurations if found.config_id == result.config_id), None)
        return ran is not None and ran.details["arguments"] == [wanted.version, wanted.host]

    def _check_bake(self, rollout: str) -> None:
        """Check that the canary of a rollout was left alone for its bake time before the next group begins."""
        if rollout not in self._succeeded:
            self._fail(f"{rollout} grants a phase of {REST}, but its canary has not succeeded")
            return
        for machine in self._world.present_machines():
            quiet = self._world.now - self._worked.get(machine.name, 0.0)
            if "canary" in machine.facts.get("tags", ()) and quiet + _CYCLE < self._bake_times[rollout]:
                self._fail(f"{rollout} grants a phase of {REST} {quiet:.0f} s after the last script of its canary")

    # The end

    def obstacle(self) -> str | None:
        """Return why the monitoring systems do not have what the tip wants; ``None`` if they do."""
        return next(self._obstacles(), None) if self._world.theme.checks else None

    def _obstacles(self) -> Iterator[str]:
        tip = self._world.repository.tip
        assert tip is not None
        possible = set()
        for machine in self._world.machines.values():
            for wanted in wanted_checks(tip, machine.identity):
                possible.add(_id(wanted))
                if machine.present:
                    yield from self._lacks(wanted, machine)
        for name in SYSTEMS:
            for instance in self._system(name).deployed.keys() - possible:
                yield f"{name} still has {_name(self._instances[instance])}"
            for index in ("flagged", "open", "failed"):
                node = self._world.network.ensemble.leader.nodes.get(f"{check_paths.system_path(name)}/{index}")
                for instance in () if node is None else sorted(node.children):
                    yield f"{_name(self._instances[instance])} is {index}: {_states(self._instances[instance])}"

    def _lacks(self, wanted: WantedCheck, machine: Machine) -> Iterator[str]:
        """Yield what a check of a machine that is present lacks."""
        planned = wanted.planned
        details = self._system(planned.system).deployed.get(_id(wanted), {})
        found = (details.get("arguments"), details.get("interval"))
        if found != ([wanted.version, machine.name], planned.interval):
            known = self._instances.get(_id(wanted))
            yield f"{planned.system} has for {_subject(wanted)}: {found} ({known and _states(known)})"
            return
        last = self._results.get(_id(wanted), [None])[-1]
        if last is None or last.result.state is not ResultState.OK:
            yield f"{_subject(wanted)} has the result {last}"
        elif last.result.config_id != details["config_id"]:
            yield f"{_subject(wanted)} has the result of another configuration"

    def _system(self, name: str) -> MonitoringSystem:
        assert self._world.monitoring is not None
        return self._world.monitoring.systems[name]


def _id(wanted: WantedCheck) -> str:
    return InstanceKey(wanted.name, wanted.path, wanted.number, wanted.host).id


def _subject(wanted: WantedCheck) -> str:
    return f"{wanted.name} of {wanted.path} {wanted.number} on {wanted.host}"


def _name(instance: CheckInstance) -> str:
    key = instance.key
    return f"{key.check} of {key.path} {key.number} on {key.host}"


def _states(instance: CheckInstance) -> str:
    return ", ".join(f"{found.version} {found.state.value}" for found in instance.configurations)
