"""The invariants of a fleet, checked at each step of a simulation and at its end.

The checks see the machines, the leader of ZooKeeper and the repository from outside. They use the pure compiler of
targets, but nothing that the daemons remember.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from simulation.analyses import AnalysisChecks
from simulation.approval_checks import ApprovalChecks
from simulation.bracket_checks import BracketChecks
from simulation.cut_off_checks import CutOffChecks
from simulation.grant_checks import GrantChecks
from simulation.group_stops import GOVERNED, SYSTEM, GroupStopChecks
from simulation.lease_checks import LeaseChecks
from simulation.live_trees import LiveTrees
from simulation.machine import UNKNOWN
from simulation.maintenance_checks import MaintenanceChecks
from simulation.monitoring_checks import MonitoringChecks
from simulation.order_checks import OrderChecks
from simulation.reboot_checks import RebootChecks
from simulation.retry_checks import RetryChecks
from simulation.signatures import verified_properties
from simulation.systems import OS
from zkdeployment.agent.daemon.plans import read_plan
from zkdeployment.base.errors import TreeError
from zkdeployment.base.plan import Undeploy
from zkdeployment.publishing.store.assignments import read_wanted
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from simulation.green import Process
    from simulation.machine import Machine, ScriptCall
    from simulation.repository import Commit
    from simulation.server_tree import Change
    from simulation.world import World
    from zkdeployment.agent.daemon.plans import HostPlan
    from zkdeployment.base.deployment import DesiredState
    from zkdeployment.base.host import Identity
    from zkdeployment.zookeeper.session import Session

#: Seconds that an agent may take from its last look at the cluster version to the start of a script: while a fault
#: delays its messages, and at other times, with more for each unit of the network's distance.
GRACE_DISTURBED = 20.0
GRACE, GRACE_FOR_DISTANCE = 1.0, 0.032

#: The sequence of a publication that is not complete yet.
_LATER = 2**53

_FAILURE = re.compile(rb"boom-([0-9]+)-")

#: The begin of the violation for an error in a program's code, and such an error in a node.
PROGRAM_DEFECT = "a defect of a program"
_DEFECT = re.compile(rb"unexpected (?:Attribute|Index|Key|Name|Type)Error: [^;]*")


class Checks:
    """The checks of one world. ``violations`` are sentences; a simulation ends with the first.

    ``imported`` are the revisions over which a tree was imported by hand: what they want is no longer known.
    ``pruned`` are the top-level nodes that a publication removed because no file has them, with its sequence.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.scripts = self.commits = 0
        self.imported: set[str] = set()
        self.pruned: dict[str, int] = {}
        self._trees = LiveTrees()
        self._active: dict[str, ScriptCall] = {}
        self._stopped_since: float | None = None
        self._revision: str | None = None
        self._running: object = None  # the cluster version
        self._unreported: dict[int, tuple[Machine, Process, float]] = {}
        self._failures = 0
        self.order = OrderChecks(world, self.fail)
        self.cut_off = CutOffChecks(world, self.fail)
        self.brackets = BracketChecks(self.fail)
        self.analyses = AnalysisChecks(world, self.fail)
        self._approvals = ApprovalChecks(world.theme, self.fail)
        self.retries = RetryChecks(world, self.fail)
        self.groups = GroupStopChecks(world, self.fail)
        self.maintenance = MaintenanceChecks(world, self.fail)
        self.reboots = RebootChecks(world, self.fail, self._commit)
        self._grants = GrantChecks(world, self.fail, self._is_late)
        self.leases = LeaseChecks(world, self.fail, self._is_late_on)
        self.monitoring = MonitoringChecks(world, self.fail)
        self._followers: list[Any] = [self.order, self.groups, self.maintenance, self.reboots, self.cut_off]
        self._followers += [self._approvals, *([self.analyses] if world.theme.analyses else [])]
        self._followers += [self.leases] if world.theme.leases else []
        self._followers += [self.monitoring] if world.theme.checks else []

    def fail(self, sentence: str) -> None:
        """Record a violation."""
        self._world.trace(f"VIOLATION: {sentence}")
        self.violations.append(sentence)

    @property
    def is_stopped(self) -> bool:
        """Whether the fleet is stopped."""
        return self._stopped_since is not None

    # Scripts

    def script_started(self, call: ScriptCall) -> None:
        """Check a script that starts: alone under its lock, wanted, and not after a stop."""
        self._world.trace(f"script starts: {call}")
        self.scripts += 1
        self._write_start(call)
        machine = call.machine
        if machine.claimed_version is not None:
            self.fail(f"{machine.name} runs {call} while its file says version {machine.claimed_version}")
        self.leases.script_started(call)
        self._check_wanted(call)
        self._check_stop(call)
        if not (self._world.theme.signed or call.is_bracket or self._controller_of(call) is not None):
            self._grants.script_started(call)
        if not (
            call.is_bracket or self._controller_of(call) is not None
        ):  # the work under a role's lock is completed
            self.maintenance.script_started(call, lambda since: self._is_late(call, since))
        self.groups.script_started(call, self._commit(call.revision), lambda since: self._is_late(call, since))
        self.order.script_started(call, self._commit(call.revision))
        self._world.programs.check_script(call, self._commit(call.revision), self.fail)
        self.brackets.script_started(call, is_controlled=self._controller_of(call) is not None)
        if self._world.theme.signed:
            self._check_signed(call)
        lock = self._lock_of(call)
        if lock is not None:
            self.reboots.check_free(machine, lock)
            other = self._active.get(lock)
            if other is not None:
                self.fail(f"two hosts in {lock}: {other.machine.name} runs {other}, {machine.name} starts {call}")
            self._active[lock] = call
            self.cut_off.script_started(call, lock)

    def text_for(self, call: ScriptCall) -> object:
        """Return the service's property that a script sees."""
        if call.is_bracket or call.undeploys:
            return UNKNOWN
        if self._world.theme.signed:
            return verified_properties(call.machine, call.path).get("text")
        commit = self._commit(call.revision)
        return UNKNOWN if commit is None or call.path not in commit.tree.nodes else commit.text_of(call.path)

    def script_ended(self, call: ScriptCall) -> None:
        """Note that a script has ended."""
        self._world.trace(f"script ends{' with a failure' if call.fails else ''}: {call} on {call.machine.name}")
        self._world.history.script_ended(call)
        self.brackets.script_ended(call)
        self.groups.script_ended(call, self._commit(call.revision))
        self.monitoring.script_ended(call)
        for lock, active in list(self._active.items()):
            if active is call:
                del self._active[lock]
                self.cut_off.script_ended(lock)

    def script_cut_off(self, call: ScriptCall) -> None:
        """Note that a script was ended in the middle: its machine continues before any other does."""
        locks = [lock for lock, active in self._active.items() if active is call and lock.startswith("service")]
        self.script_ended(call)
        self.cut_off.script_cut_off(call, locks)

    def failure_seen(self, call: ScriptCall) -> str:
        """Return the message with which an agent hears of a failure, which has to be reported from now on.

        A failure that may stop only a group need not be reported: another host may have stopped the group already.
        """
        self._failures += 1
        if self._world.theme.group_stops and not call.is_bracket and call.path in GOVERNED:
            return f"{call} failed"
        process = call.machine.process()
        self._unreported[self._failures] = (call.machine, process, self._world.now)
        return f"boom-{self._failures}- {call} failed"

    def agent_ended(self, process: Process, *, was_killed: bool) -> None:
        """Forget failures that an agent could not keep before it was killed, or on a full disk.

        The agent's successor tries the same deployment again.
        """
        self.retries.agent_ended(process)
        for number, (machine, owner, _) in list(self._unreported.items()):
            is_kept = f"boom-{number}-".encode() in machine.disk.files.get("failure", b"")
            if owner is process and not is_kept and (was_killed or machine.disk.is_full):
                del self._unreported[number]

    def machine_left(self, machine: Machine) -> None:
        """Forget the failures of a machine that was switched off for good, and where it was cut off."""
        self._unreported = {number: entry for number, entry in self._unreported.items() if entry[0] is not machine}
        self.cut_off.machine_left(machine)
        self.reboots.machine_left(machine)

    # Machines

    def machine_changes(self, machine: Machine, what: str) -> None:
        """Check a change that begins: the machine's file must no longer claim a version."""
        if machine.claimed_version is not None:
            self.fail(f"{machine.name} changes its {what} while its file says version {machine.claimed_version}")

    def machine_changed(self, machine: Machine, what: str) -> None:
        """Check the claim of a machine's file after a change."""
        version = machine.claimed_version
        if version is not None:
            self.version_recorded(machine, version, f"its file, after a change of its {what},")

    def version_recorded(self, machine: Machine, version: object, where: str, sequence: int | None = None) -> None:
        """Check that a machine has everything of the version that it claims, and nothing else.

        ``sequence`` is that of the publication that the machine has reached, if it claims one.
        """
        commit = self._commit(version)
        is_controlled = commit is not None and commit.wanted(machine.identity).controller is not None
        self.brackets.version_recorded(machine, is_controlled=is_controlled)
        problems = self.problems(machine, version, sequence)
        if problems:
            self.fail(f"{machine.name}: {where} says version {version}, but {'; '.join(problems)}")

    def problems(self, machine: Machine, version: object, sequence: int | None = None) -> list[str]:
        """Return the missing parts of a machine's version, by default with its last publication (``sequence``)."""
        commit = self._commit(version)
        if commit is None:
            return []
        try:
            wanted = commit.wanted(machine.identity)
        except TreeError:
            return ["its tree is not valid"]
        problems = []
        lacked = self.groups.lacked(machine)
        deployments = {
            (deployment.path, deployment.number): assignment
            for assignment in wanted.assignments
            for deployment in assignment.deployments
            if assignment.path not in lacked
        }
        left = {
            application
            for application, deployment in machine.markers
            if self._is_left(deployment.path, commit, sequence)
        }
        marked = {
            (deployment.path, deployment.number)
            for _, deployment in machine.markers
            if not self._is_left(deployment.path, commit, sequence) and deployment.path not in lacked
        }
        problems += [f"{path} {number} has no marker" for path, number in deployments.keys() - marked]
        problems += [f"{path} {number} is still marked" for path, number in marked - deployments.keys()]
        needed = self._needed(wanted, lacked)
        for package, exact in needed.items():
            if machine.version_of(package) != exact:
                problems.append(f"{package} is {machine.version_of(package)}, not {exact}")
        problems += [
            f"{name} is still installed"
            for name in (*machine.packages.installed(), *machine.checkouts)
            if name not in {*needed, *left, OS.name} and not lacked
        ]
        if wanted.system is not None:
            problems += machine.system.problems(wanted.system)
        for key, assignment in deployments.items():
            instance = machine.instances.get(key)
            if instance is None or instance.version != assignment.version:
                problems.append(f"{key[0]} {key[1]} runs {instance}, not {assignment.version}")
            elif instance.text not in {UNKNOWN, commit.text_of(key[0])}:
                problems.append(f"{key[0]} {key[1]} runs with other properties: {instance}")
            elif instance.identity != machine.identity:
                problems.append(f"{key[0]} {key[1]} runs for {instance.identity}, not for {machine.identity}")
        return sorted(problems)

    def _needed(self, wanted: DesiredState, lacked: Collection[str]) -> dict[str, str | None]:
        """Return the packages of a machine with their versions; ``lacked`` services need none."""
        needed: dict[str, str | None] = {}
        if self._world.theme.group_stops and not lacked:
            needed[SYSTEM.name] = SYSTEM.version
        for assignment in wanted.assignments:
            if assignment.path not in lacked:
                needed |= {assignment.package: assignment.version, **assignment.patches}
        if wanted.controller is not None:
            needed[wanted.controller.package] = wanted.controller.version
        return needed

    def _commit(self, revision: object) -> Commit | None:
        """Return the commit of a revision; ``None`` for a version set by hand."""
        return None if str(revision) in self.imported else self._world.repository.commits.get(str(revision))

    def _is_left(self, path: str, commit: Commit, sequence: int | None) -> bool:
        """Whether a service was published and its file was removed: the service stays until it is pruned."""
        top = "/" + path.split("/")[1]
        if top in self.pruned:
            return top not in commit.tops and sequence is not None and sequence < self.pruned[top]
        return top not in commit.tops and top in self._world.repository.published_tops

    # ZooKeeper

    def committed(self, _zxid: int, changes: Sequence[Change]) -> None:
        """Check a transaction of any client."""
        self.commits += 1
        judged = False
        self._check_defects(changes)
        self._check_failed(changes)
        if not self._world.theme.signed:
            self._grants.committed(changes)
        for change in changes:
            judged |= change.path.startswith((paths.HOSTS, paths.STOPS, paths.TARGETS))
            if change.path.startswith(paths.HOSTS):
                self._host_written(change)
            elif change.path == paths.TARGETS:
                self._targets_written(_properties(change.data))
            elif change.path in self._world.repository.published_tops or change.path in self.pruned:
                self._top_written(change)
            if b"boom-" in change.data and not change.path.startswith(f"{paths.OUTPUTS}/"):
                for number in _FAILURE.findall(change.data):
                    self._unreported.pop(int(number), None)
        if judged:
            self._check_stops()
            self.retries.committed(changes)
        for checks in self._followers:
            checks.committed(changes)
        self._check_work(changes)
        self._trees.note(self._world.network.ensemble.leader.nodes, changes)

    def read_wanted(self, session: Session, identity: Identity, revision: object) -> DesiredState:
        """Read the targets of a host, as agents do, and check that they come from one whole tree."""
        wanted = read_wanted(session, identity, revision)
        if str(revision) not in self._world.repository.commits and not self._trees.had(identity, wanted):
            self.fail(f"{identity.id} reads for {revision} what no tree wanted: {wanted}")
        return wanted

    def read_plan(self, adapters: Any, identity: Identity, revision: object, **facts: Any) -> HostPlan:
        """Plan a deployment, as agents do, and note by which publication."""
        sequence, before, begun = facts["sequence"], self.order.plans.get(identity.id, 0), self._world.now
        if self._world.theme.signed and sequence < before:
            self.fail(f"{identity.id} plans for publication {sequence} after it verified {before}")
        self.order.plans[identity.id] = sequence
        made = read_plan(adapters, identity, revision, **facts)  # type: ignore[arg-type]
        self.order.last[identity.id] = {
            (step.deployment.path, step.deployment.number)
            for step in made.plan.steps
            if isinstance(step, Undeploy) and step.last
        }
        self.groups.planned(self._world.machines[identity.id], self._commit(revision), made.plan, begun)
        return made

    def _targets_written(self, properties: Mapping[str, Any]) -> None:
        commit = self._world.repository.commits.get(str(properties.get("version")))
        if self._world.theme.signed and self._world.faults.are_active:
            self._world.attacker.remember()
        if commit is not None:
            self._world.repository.published_tops |= commit.tops
            self.pruned |= {top: properties["sequence"] for top, since in self.pruned.items() if since == _LATER}
            return
        hosts = self._world.network.ensemble.leader.nodes.get(paths.HOSTS)
        running = {} if hosts is None else _properties(hosts.data)
        if running.get("importing") not in self._world.repository.commits and self._revision is not None:
            self.imported.add(self._revision)  # an import by hand, in one transaction or several

    def _top_written(self, change: Change) -> None:
        """Note that a publication removes a top-level node that no file has, or creates it again."""
        if change.kind == "delete":
            self.pruned[change.path] = _LATER
            self._world.repository.published_tops.discard(change.path)
            self._world.trace(f"{change.path} is pruned")
        elif change.kind == "create":
            self.pruned.pop(change.path, None)

    def _host_written(self, change: Change) -> None:
        if change.kind == "delete" or change.path == paths.HOSTS:
            return
        machine = self._world.machines.get(change.path.rpartition("/")[2])
        properties = _properties(change.data)
        version = properties.get("version")
        node = self._world.network.ensemble.leader.nodes.get(change.path)
        is_forged = node is not None and not node.owner  # an attacker's: the nodes of agents are ephemeral
        if machine is not None and version is not None and machine.claimed_version is not None and not is_forged:
            self.version_recorded(machine, version, "its node", properties.get("sequence"))

    def _check_defects(self, changes: Sequence[Change]) -> None:
        """Check that no program reports an error in its code."""
        for change in changes:
            if (defect := _DEFECT.search(change.data)) is not None:
                self.fail(f"{PROGRAM_DEFECT}: {defect[0].decode()} ({change.path})")

    def _check_failed(self, changes: Sequence[Change]) -> None:
        """Check that a host's failure stops a running fleet only if the fleet has the failed publication."""
        if not any(
            change.path == paths.HOSTS and _properties(change.data).get("version") is None for change in changes
        ):
            return
        running = self._commit(self._running)
        for change in changes:
            failed = (
                _properties(change.data).get("revision") if change.path.startswith(f"{paths.STOPS}/") else None
            )
            commit = self._commit(failed)
            if running is None or commit is None or not running.differs(commit):
                continue
            self.fail(f"a failure of {failed} stops the fleet, which runs at {self._running}")

    def _check_stops(self) -> None:
        """Check that a recorded stop stops the fleet."""
        nodes = self._world.network.ensemble.leader.nodes
        hosts, stops = nodes.get(paths.HOSTS), nodes.get(paths.STOPS)
        version = None if hosts is None else _properties(hosts.data).get("version")
        is_stopped = hosts is not None and version is None
        self._revision = version if isinstance(version, str) else self._revision
        self._running = version
        if is_stopped != (self._stopped_since is not None):
            self._stopped_since = self._world.now if is_stopped else None
            self._world.trace(f"the cluster version is {version}")
            if is_stopped:
                self._world.operators.stopped()
        is_trusted = version in self._world.repository.commits and not self._world.attacker.strikes
        if hosts is not None:
            recorded = sorted(stops.children) if stops is not None and is_trusted else None
            self._world.history.cluster_changed(version, recorded)
        if stops is not None and stops.children and is_trusted:
            self.fail(f"a stop is on record, but the fleet runs at {version}: {', '.join(stops.children)}")

    # The end

    def check_end(self) -> None:
        """Check what must have happened by the end of the simulation."""
        for number, (machine, _, time) in self._unreported.items():
            self.fail(f"the failure boom-{number}- of {machine.name} at {time:.0f} was never reported")

    def _check_wanted(self, call: ScriptCall) -> None:
        commit = self._commit(call.revision)
        sequence = self.order.plans.get(call.machine.name, 0)
        if commit is None or call.is_bracket or self._is_left(call.path, commit, sequence):
            return
        wanted = commit.wanted(call.machine.identity)
        assignment = next((entry for entry in wanted.assignments if entry.path == call.path), None)
        is_wanted = assignment is not None and call.number < assignment.n
        if call.undeploys == is_wanted:
            self.fail(
                f"{call.machine.name} runs {call} for {call.revision}, whose tree"
                f" {'wants' if is_wanted else 'does not want'} this instance there"
            )
        elif assignment is not None and not call.undeploys:
            have = call.machine.version_of(assignment.package)
            if have != assignment.version:
                self.fail(f"{call.machine.name} runs {call} with version {have}, expected {assignment.version}")

    def _check_signed(self, call: ScriptCall) -> None:
        """Check that a script does only work that a syncer signed, with the signed properties."""
        commit = self._world.repository.commits.get(str(call.revision))
        if commit is None:
            self.fail(f"{call.machine.name} runs {call} for {call.revision}, which no syncer signed")
        elif not call.is_bracket and not call.undeploys:
            properties = verified_properties(call.machine, call.path)
            if properties != commit.tree.nodes[call.path]:
                self.fail(f"{call.machine.name} runs {call} with properties that no syncer signed: {properties}")

    def _write_start(self, call: ScriptCall) -> None:
        process, now = call.machine.process(), self._world.now
        disturbed = self._world.network.disturbed_until(process)
        last = process.frozen_until if disturbed > now else disturbed
        self._world.history.script_started(
            call,
            self._lock_of(call),
            reachable=max(last, self.retries.ended(call.machine.name)),
            despite_stop=call.is_bracket or self._controller_of(call) is not None or self.retries.permits(call),
        )

    def _check_stop(self, call: ScriptCall) -> None:
        if self._stopped_since is None or call.is_bracket or self._controller_of(call) is not None:
            return  # a stop does not interrupt the work under a role's lock
        if self.retries.permits(call):
            self.retries.script_started(call)
            return
        stopped_since = max(self._stopped_since, self.retries.ended(call.machine.name))
        if self._is_late(call, stopped_since):
            self.fail(f"{call.machine.name} starts {call} {self._world.now - stopped_since:.0f} s after the stop")

    def _is_late(self, call: ScriptCall, since: float) -> bool:
        """Whether a script starts too long after a moment for its agent not to have seen it."""
        return self._is_late_on(call.machine, since)

    def _is_late_on(self, machine: Machine, since: float) -> bool:
        """Whether a machine acts too long after a moment for its agent not to have seen it."""
        network, process = self._world.network, machine.process()
        disturbed = network.disturbed_until(process)
        if disturbed > self._world.now:
            since, grace = max(since, process.frozen_until), GRACE_DISTURBED
        else:
            since, grace = max(since, disturbed), GRACE + GRACE_FOR_DISTANCE * network.distance
        return self._world.now - since > grace

    def _check_work(self, changes: Sequence[Change]) -> None:
        """Check that no host releases the lock of a service while its script runs under the lock."""
        for change in changes:
            if change.kind == "delete" and change.path.startswith(f"{paths.BUSY}/"):
                path = "/" + change.path.rpartition("/")[2].replace(",", "/")
                self._world.history.lock_released(f"service {path}")
                call = self._active.get(f"service {path}")
                if call is not None:
                    self.fail(f"the lock of {path} is released while {call.machine.name} runs {call}")

    def _lock_of(self, call: ScriptCall) -> str | None:
        """Return the lock under which a script has to run; ``None`` if it needs none."""
        controller = self._controller_of(call)
        commit = self._commit(call.revision)
        if not call.is_bracket and call.undeploys:
            if commit is None:
                known = f"{call.path}/deploy" in self._world.network.ensemble.leader.nodes
            else:
                known = call.path in commit.services
            if not known:
                return None  # a service that is gone from the tree
        is_last = call.undeploys and (call.path, call.number) in self.order.last.get(call.machine.name, ())
        return f"service {call.path}" if controller is None or is_last else f"role {controller}"

    def _controller_of(self, call: ScriptCall) -> str | None:
        role = call.machine.identity.role
        commit = self._commit(call.revision)
        if role is None:
            return None
        if commit is None:
            return role if call.machine.version_of(f"ctl-{role}") is not None else None
        return role if commit.wanted(call.machine.identity).controller is not None else None


def _properties(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
