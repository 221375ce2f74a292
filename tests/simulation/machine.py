"""A simulated machine: its packages, scripts and files, which survive the kill of its agent.

Packages come from the fake package manager that passes the contract of package managers. The files of the run
directory are written by the agent's own code, to memory.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simulation.green import Event, Killed
from simulation.group_stops import SYSTEM
from simulation.leased_machines import IDLE, MachineKeys, MachineTraces
from simulation.memory_files import Disk, MemoryPath
from simulation.systems import DURABLE, OS, RELEASES, MachineSystem
from support.hosts.packages import Crash, FakePackageManager
from zkdeployment.agent import scripts
from zkdeployment.agent.files.run_directory import RunDirectory, VersionFiles
from zkdeployment.agent.rules.lease import Lease, LeaseRecord
from zkdeployment.base.deployment import REBOOT_STATUS
from zkdeployment.base.errors import ScriptError, ShutdownError
from zkdeployment.base.inventory import Inventory, Marker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from simulation.themes import Theme
    from simulation.world import World
    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.deployment import Deployment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Package, Packages
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.base.system import SystemChange


#: Seconds between two ticks of an agent whose script runs.
_POLL = 5.0

#: The property of a service that is not known.
UNKNOWN = object()


class MachinePackages(FakePackageManager):
    """The packages of a machine: changes take time, and a killed agent leaves a transaction half done."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(installed=_installed(machine.world.theme))
        self.releases = RELEASES
        self._machine = machine
        self._known = machine.world.repository.packages

    def prepare(self, change: PackageChange) -> Any:
        """Resolve a change."""
        self._machine.world.take_time(0.2, 2.0)
        self.available = self._machine.world.repository.offers(change.want)
        return super().prepare(change)

    def prepare_system(self, change: SystemChange) -> Any:
        """Resolve an update of the operating system."""
        self._machine.world.take_time(0.2, 2.0)
        return super().prepare_system(change)

    def installed_since(self, time: float) -> frozenset[str]:  # noqa: ARG002  that of the last boot
        """Return the packages that do not run until the machine boots."""
        return self._machine.system.changed

    def commit(self, transaction: Transaction) -> None:
        """Execute a transaction."""
        machine = self._machine
        machine.point("commit")
        machine.world.take_time(0.5, 4.0)
        machine.before_change("packages")
        self.crash = machine.is_fatal_moment("in a transaction")
        try:
            super().commit(transaction)
        except Crash:
            self.crash = False
            machine.world.network.scheduler.kill(machine.process())
            raise Killed from None
        if OS.name in {item.name for item in transaction.items}:
            machine.system.updated = machine.world.now
        machine.after_change("packages")
        machine.point("committed")

    def recover(self) -> None:
        """Roll back the unfinished change of a killed agent."""
        self._machine.process().check()
        super().recover()


class ScriptCall:
    """A call of a script, which continues when its agent is killed."""

    def __init__(self, machine: Machine, argv: Sequence[str], revision: Revision, *, fails: bool) -> None:
        self.machine = machine
        self.script = argv[0]
        self.arguments = tuple(argv[1:])
        self.revision = revision
        self.fails = fails
        self.text: object = UNKNOWN
        self.identity = machine.identity
        self.ended = Event(machine.world.network.scheduler)

    @property
    def package(self) -> str:
        """The package of the script."""
        return self.script.split("/")[2]

    @property
    def is_bracket(self) -> bool:
        """Whether this is the script of a role controller."""
        return self.script.endswith("-deployments")

    @property
    def begins_bracket(self) -> bool:
        """Whether this is the first script of a role controller."""
        return self.script.endswith("/starting-deployments")

    @property
    def undeploys(self) -> bool:
        """Whether the script removes an instance."""
        return self.arguments[0] == "-u"

    @property
    def path(self) -> str:
        """The path of the service, or of the controller."""
        return self.arguments[0] if self.is_bracket else self.arguments[-2]

    @property
    def number(self) -> int:
        """The number of the instance."""
        return int(self.arguments[-1])

    def __str__(self) -> str:
        return f"{self.script.rpartition('/')[2]} {' '.join(self.arguments)}"


@dataclass(frozen=True)
class Instance:
    """The properties of a deployed instance of a service; ``text`` is ``UNKNOWN`` for a version set by hand.

    ``identity`` is that of the machine when the script began.
    """

    version: str | None
    text: object
    identity: Identity


class MachineScripts:
    """Stands in for ``ScriptRunner``: scripts take time and fail when the world decides so."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.tick: Callable[[], None] = lambda: None

    def run(
        self,
        argv: Sequence[str],
        *,
        name: str,
        revision: Revision,
        directory: str | None = None,
        facts: Mapping[str, str] | None = None,
        last_check: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a script to its end; ``directory`` and ``facts`` have no effect."""
        del directory, facts
        machine, world = self._machine, self._machine.world
        self.wait_for_predecessor()
        output = self._output(name)
        machine.point("script")
        last_check()
        call = ScriptCall(machine, argv, revision, fails=world.script_fails(machine))
        asks_for_reboot = world.checks.reboots.are_allowed(call) and world.script_asks_for_reboot()
        call.fails |= asks_for_reboot
        call.text = world.checks.text_for(call)
        machine.running = call
        world.checks.script_started(call)
        world.network.scheduler.after(world.script_seconds(), lambda: self._end(call))
        with output as opened:
            self._await(call, [] if opened is None else [opened.follow])
        if asks_for_reboot and machine.running is not call:
            raise ScriptError(f"{call} asks for a reboot", status=REBOOT_STATUS)
        if call.fails:
            raise ScriptError(world.checks.failure_seen(call))

    def _output(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """Return the file for the output of a script, in fleets with logs."""
        machine = self._machine
        if not machine.world.theme.logs:
            return contextlib.nullcontext()
        try:
            return scripts.ScriptRunner(environment={}, logs=machine.logs, record=machine.logs / "run")._output(
                name
            )
        except ScriptError as error:
            machine.world.checks.fail(f"{machine.name} starts no script: {error}")
            raise

    def cap_outputs(self) -> None:
        """Do nothing."""

    def wait_for_predecessor(self, announce: Callable[[str, str], None] = lambda _, __: None) -> None:
        """Wait for the script of a killed agent."""
        call = self._machine.running
        if call is not None:
            announce(str(call.revision), str(call))
            scripts.wait_for_end(lambda: call.ended.wait(self._poll), (self.tick,))

    @property
    def _poll(self) -> float | None:
        theme = self._machine.world.theme
        return _POLL if theme.long_scripts or theme.group_stops or theme.logs else None

    def _follow(self) -> None:
        """Follow the output of a script, which a full disk makes impossible."""
        if self._machine.disk.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _await(self, call: ScriptCall, beside: Sequence[Callable[[], None]]) -> None:
        """Wait for the end of a script; cut the script off if the agent has to end."""
        try:
            scripts.wait_for_end(lambda: call.ended.wait(self._poll), (self._follow, self.tick, *beside))
        except ShutdownError:
            self._machine.cut_off()
            raise

    def _end(self, call: ScriptCall) -> None:
        machine = self._machine
        if machine.running is not call:
            return  # the machine was switched off
        machine.running = None
        if not call.fails and not call.is_bracket:
            if call.undeploys:
                machine.instances.pop((call.path, call.number), None)
            else:
                machine.instances[call.path, call.number] = Instance(
                    machine.version_of(call.package), call.text, call.identity
                )
        machine.world.checks.script_ended(call)
        call.ended.set()


class MachineRegistry:
    """A registry of the packages of a machine."""

    def __init__(self, machine: Machine, entries: dict[str, str]) -> None:
        self._machine = machine
        self._entries = entries

    def add(self, entries: Mapping[str, str]) -> None:
        """Add or replace entries."""
        self._machine.write(lambda: self._entries.update(entries))

    def remove(self, packages: Collection[str]) -> None:
        """Remove entries."""
        self._machine.write(lambda: [self._entries.pop(name, None) for name in packages])


class MachineFiles:
    """The software, markers and registries of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.scripts = self.markers = self
        self.managed = MachineRegistry(machine, machine.managed)
        self.originals = MachineRegistry(machine, machine.originals)

    def inventory(self, packages: Packages) -> Inventory:
        """Return the software and the deployments of the machine."""
        machine = self._machine
        checkouts = machine.checkouts
        names = {name for name in packages if name.startswith(("app", "ctl"))} | checkouts.keys()
        controllers = frozenset(name for name in names if name.startswith("ctl"))
        markers = tuple(machine.markers[key] for key in sorted(machine.markers))
        known = {*machine.managed.values(), *checkouts, *(marker.application for marker in markers)}
        return Inventory(
            packages=packages,
            scripts={name: _script(name) for name in sorted(names - controllers)},
            directories=frozenset(names),
            markers=markers,
            managed=dict(machine.managed),
            originals=dict(machine.originals),
            checkouts=checkouts,
            applications=frozenset(machine.etc & known),
            controllers=controllers,
            deployments_started=machine.deployments_started,
        )

    def executable_deploy_script(self, package: str) -> str:
        """Return the path of a deploy script."""
        if not self._machine.version_of(package):
            raise ScriptError(f"{_script(package)} does not exist")
        return _script(package)

    def executable_controller_script(self, package: str, name: str) -> str:
        """Return the path of a controller's script."""
        return f"/opt/{package}/bin/{name}"

    def make_application_directory(self, application: str) -> None:
        """Make ``/etc/APPLICATION``."""
        self._machine.write(lambda: self._machine.etc.add(application))

    def write(self, marker: Marker) -> None:
        """Write a marker."""
        key = (marker.application, marker.deployment)
        self._change(lambda: self._machine.markers.__setitem__(key, marker))

    def remove(self, application: str, deployment: Deployment, _files: Collection[str]) -> None:
        """Remove a marker."""
        self._change(lambda: self._machine.markers.pop((application, deployment), None))

    def clear_software(self, _packages: Collection[str], applications: Collection[str]) -> None:
        """Remove empty directories."""
        self._machine.write(lambda: self._machine.etc.difference_update(applications))

    def record_start(self, _controller: str) -> None:
        """Record the start of the deployments."""
        self._machine.write(lambda: setattr(self._machine, "deployments_started", True))

    def record_end(self) -> None:
        """Remove the record of the start."""
        self._machine.write(lambda: setattr(self._machine, "deployments_started", False))

    def _change(self, act: Callable[[], object]) -> None:
        self._machine.before_change("marker")
        self._machine.write(act)
        self._machine.after_change("marker")


class MachineVersions(VersionFiles):
    """The files with the versions of a machine, whose content is checked when it is written."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(MemoryPath(machine.disk, "run"))  # type: ignore[arg-type]
        self._machine = machine

    def write(self, revision: Revision, sequence: int = 0) -> None:
        """Record the version."""
        self._machine.world.checks.version_recorded(self._machine, revision, "its file", sequence)
        super().write(revision, sequence)


class MachineRunDirectory(RunDirectory):
    """The agent's run directory on a machine's disk."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(MemoryPath(machine.disk, "run"))  # type: ignore[arg-type]
        self.version = MachineVersions(machine)

    @contextlib.contextmanager
    def locked(self, _root: object = None) -> Iterator[None]:
        """Lock nothing: a machine runs one agent."""
        yield


class Machine:
    """One machine of the fleet."""

    def __init__(self, world: World, identity: Identity, **facts: Any) -> None:
        self.world = world
        self._configured = identity
        self.is_leasable = world.theme.leases and identity.role is None
        self.tenant_keys: tuple[str, ...] = ()
        self.keys = MachineKeys(self)
        self.traces = MachineTraces(self)
        self.facts = facts
        self.disk = Disk(self.point)
        self.packages = MachinePackages(self)
        self.system = MachineSystem(self)
        self.scripts = MachineScripts(self)
        self.markers: dict[tuple[str, Deployment], Marker] = {}
        self.etc: set[str] = set()
        self.managed: dict[str, str] = {}
        self.originals: dict[str, str] = {}
        self.deployments_started = False
        self.instances: dict[tuple[str, int], Instance] = {}
        self.running: ScriptCall | None = None
        self.present = False
        self.has_older_agent = False
        self.logs = world.scratch / identity.id / "log"

    @property
    def name(self) -> str:
        """The machine's host id."""
        return self._configured.id

    @property
    def identity(self) -> Identity:
        """The identity of the host, with the role of the lease that it follows."""
        return replace(self._configured, role=self._lease.lease.role) if self.is_leasable else self._configured

    @identity.setter
    def identity(self, identity: Identity) -> None:
        self._configured = identity

    @property
    def _lease(self) -> LeaseRecord:
        content = self.disk.files.get("lease")
        record = None if content is None else LeaseRecord.if_valid(json.loads(content))
        return LeaseRecord(Lease(IDLE, 0), is_reached=True) if record is None else record

    @property
    def recorded_version(self) -> object:
        """The version in the agent's file; ``None`` if it does not exist."""
        content = self.disk.files.get("host_version")
        return None if content is None else json.loads(content)

    @property
    def claimed_version(self) -> object:
        """The version that the machine claims to have in its present role; ``None`` while it changes its role."""
        return None if self.is_leasable and not self._lease.is_reached else self.recorded_version

    @property
    def checkouts(self) -> dict[str, str]:
        """The checkouts with their recorded versions; none unless the theme has checkouts."""
        return {} if self.world.software is None else self.world.software.checked_out(self)

    def version_of(self, package: str) -> str | None:
        """Return the version of an installed package, or of the content of a checkout."""
        if self.world.software is not None and package in self.checkouts:
            return self.world.software.version_in(self)
        have = self.packages.installed().get(package, ())
        return have[0].version if have else None

    def process(self) -> Any:
        """Return the running process, which has to be this machine's agent."""
        process = self.world.network.scheduler.process
        assert process is not None
        return process

    def is_fatal_moment(self, point: str) -> bool:
        """Decide whether the agent is killed at this point."""
        return self.world.network.is_fatal_moment(self.process(), point)

    def point(self, name: str) -> None:
        """Reach a point at which the agent may be killed; nothing is written after the agent's death."""
        process = self.process()
        process.check()
        if self.is_fatal_moment(name):
            self.world.trace(f"killed at {name!r}")
            self.world.network.scheduler.kill(process)
            raise Killed

    def write(self, act: Callable[[], object]) -> None:
        """Do one write, before and after which the agent may be killed."""
        self.point("write")
        act()
        self.point("wrote")

    def before_change(self, what: str) -> None:
        """Check that the machine's record allows a change."""
        self.process().check()
        self.world.checks.machine_changes(self, what)

    def after_change(self, what: str) -> None:
        """Check that the machine's record is true after a change."""
        self.world.checks.machine_changed(self, what)

    def switch_off(self) -> None:
        """End the script that runs, if any, without effect."""
        call, self.running = self.running, None
        if call is not None:
            call.fails = True
            self.world.checks.script_cut_off(call)

    def lose_run_directory(self) -> None:
        """Clear the run directory, as a boot does."""
        for name in self.disk.files.keys() - DURABLE:
            del self.disk.files[name]

    def cut_off(self) -> None:
        """End the script that runs, as an agent does that has to end itself."""
        call = self.running
        self.switch_off()
        assert call is not None
        call.ended.set()


def _installed(theme: Theme) -> list[Package]:
    return [SYSTEM] * theme.group_stops + [OS] * theme.reboots


def _script(package: str) -> str:
    return f"/opt/{package}/bin/zookeeper-deploy"
