"""The sandbox: starts a fleet of the real programs in one directory, and removes it completely."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.machine import process
from zkdeployment.sandbox import layout, samples
from zkdeployment.sandbox import processes as process_cleanup
from zkdeployment.sandbox.layout import HostLayout, Layout, SandboxDescription, SandboxService
from zkdeployment.sandbox.nagios import SandboxNagios
from zkdeployment.sandbox.processes import (
    Deadline,
    SandboxDaemon,
    add_user,
    plain_environment,
    reboot_command,
    reboot_host,
    wait_answering,
    wait_published,
    wait_registered,
    wait_synchronized,
    wait_working,
)
from zkdeployment.sandbox.repositories import Branch, RpmRepository
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, free_port, servers, start_ensemble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.host import Host

#: A part of a sandbox that can be stopped and started by its name.
SandboxMember: TypeAlias = "SandboxDaemon | SandboxNagios | ZooKeeperServer"

#: The user with all rights at the service.
_ADMIN = "sandbox"

#: Seconds to wait for another command that is changing the sandbox.
_LOCK_TIMEOUT = 60.0


class Sandbox:
    """The sandbox in ``directory`` (default: a fixed place under the user's state directory), running or not.

    ``adapt`` may change the configurations and directories of a new sandbox before its daemons start.
    """

    def __init__(
        self, directory: Path | None = None, *, adapt: Callable[[SandboxDescription], None] = lambda _: None
    ) -> None:
        self.layout = Layout((directory or layout.default_directory()).expanduser().resolve())
        self._adapt = adapt

    @property
    def directory(self) -> Path:
        """The directory that contains the whole sandbox."""
        return self.layout.directory

    # Start and end

    def up(  # noqa: PLR0913  the parts of a sandbox
        self,
        hosts: Sequence[Host],
        *,
        servers: int = 1,
        syncer: bool = True,
        with_samples: bool = False,
        service: bool = False,
        follows: str | None = None,
        home: Path | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start a new fleet and return when every agent is registered; ``report`` receives progress messages.

        With ``service``, the service and the worker of host pools are started, too, and answer before the return.
        The syncer follows the branch ``follows``, by default the one that people push, in the repository of the
        sandbox in ``home``, by default in its own.
        Raises ``RefusedError`` if there is a sandbox already. After any other error the sandbox is removed.
        """
        _claim(self.layout)
        try:
            with _exclusive(self.layout):
                SandboxDescription(tuple(hosts), {}, syncer=syncer).save(self.layout.description)
                report("starting ZooKeeper")
                ports = start_ensemble(self.layout, servers)
                own = None if home is None else str(home)
                description = SandboxDescription(tuple(hosts), ports, syncer, follows=follows, home=own)
                if service:
                    description = replace(description, service=_new_service(description.zookeeper))
                description.save(self.layout.description)
                self._make_repositories(description, with_samples=with_samples, report=report)
                self._configure(description)
                self._adapt(description)
                report(f"starting {len(hosts)} agents")
                agents = {host.identity.id: self._agent(host.identity.id) for host in hosts}
                daemons = self._daemons
                for daemon in (daemons["coordinator"], *agents.values()):
                    daemon.start()
                wait_registered(description.zookeeper, agents)
                if syncer:
                    daemons["syncer"].start()
                    if with_samples:
                        report("publishing the sample tree")
                        wait_published(description.zookeeper, daemons["syncer"])
                if description.service is not None:
                    report("starting the service")
                    daemons["server"].start()
                    daemons["pools"].start()
                    wait_working(description.zookeeper, daemons["pools"])
                    wait_answering(description.service.url, daemons["server"])
        except BaseException:
            report("cleaning up")
            self.down()
            raise

    def add_nagios(self) -> None:
        """Start a Nagios with a bridge to the service, and its user; after an error the sandbox is removed."""
        service = self._require_service()
        try:
            with _exclusive(self.layout):
                self._nagios.create(service.url, self._description().zookeeper)
                self._nagios.start()
                wait_synchronized(self._nagios.bridge)
        except BaseException:
            self.down()
            raise

    def add_promoter(self, fleets: Mapping[str, Sandbox]) -> None:
        """Make this sandbox the home of fleets by name, of which it is one, and start their promoter.

        The promoter gets a key of the role ``viewer`` for each fleet, and operators of this sandbox get a key of
        the role ``operator``. After an error the sandbox is removed.
        """
        try:
            with _exclusive(self.layout):
                description = replace(self._description(), fleets=tuple(fleets))
                description.save(self.layout.description)
                self.layout.promoter.mkdir()
                for directory, role in ((self.layout.tokens, "viewer"), (self.layout.operator_tokens, "operator")):
                    directory.mkdir(mode=0o700)
                    for name, sandbox in fleets.items():
                        user = f"fleets-{role}"
                        key = add_user(sandbox.status()["zookeeper"], user, role)
                        layout.write_private(directory / name, f"{user}:{key} 127.0.0.1\n")
                self._configure_tools(description)
                self._daemons["promoter"].start()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End all processes of the sandbox and remove its directory, also after a crash.

        Raises ``RefusedError`` if the directory is not a sandbox.
        """
        # Processes of a sandbox may write files although its directory was removed.
        is_sandbox = self.layout.description.exists() or bool(process_cleanup.sandbox_processes(self.directory))
        if not is_sandbox and self.directory.exists() and any(self.directory.iterdir()):
            raise RefusedError(f"{self.directory} is not a sandbox; nothing was ended or removed")
        process_cleanup.end_processes(self.directory)
        if is_sandbox and self.directory.exists():
            # The description is removed last, so that an interrupted removal can be repeated.
            for entry in self.directory.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
            shutil.rmtree(self.directory)

    # While the fleet runs

    def status(self) -> dict[str, Any]:
        """Return the parts of the sandbox and their process ids."""
        description, daemons = self._description(), self._daemons
        return {
            "directory": str(self.directory),
            "zookeeper": description.zookeeper,
            "tree": self._branch(description).url,
            "branch": description.branch,
            "follows": description.follows or description.branch,
            "repository": str(self._repository(description).directory),
            "config": str(self.layout.config),
            "syncer": daemons["syncer"].pid,
            "coordinator": daemons["coordinator"].pid,
            "server": _service_status(description.service, daemons["server"].pid),
            "pools": daemons["pools"].pid,
            "promoter": daemons["promoter"].pid,
            "fleets": _fleet_directories(description, self.layout),
            "nagios": self._nagios.status(),
            "servers": [
                {"id": f"zookeeper{server.number}", "address": server.address, "pid": server.pid}
                for server in servers(self.layout, description.ports)
            ],
            "hosts": {
                host.identity.id: _host_status(
                    host, self.layout.host(host.identity.id), self._agent(host.identity.id)
                )
                for host in description.hosts
            },
        }

    def push(self, directory: Path, message: str) -> str:
        """Make the files of ``directory`` the content of the tree's branch, and return the revision."""
        description = self._description()
        with _exclusive(self.layout):
            return self._branch(description).push(directory, message)

    def add_rpms(self, files: Sequence[Path]) -> None:
        """Sign RPM files and add them to the repository."""
        description = self._description()
        with _exclusive(self.layout):
            self._repository(description).add(files)

    def start(self, names: Sequence[str]) -> None:
        """Start agents, the other daemons or ZooKeeper servers by name, unless they run."""
        for member in self._members(names):
            with _exclusive(self.layout):
                member.start()

    def stop(self, names: Sequence[str], *, kill: bool = False) -> None:
        """End agents, the other daemons or ZooKeeper servers by name; ``kill`` simulates a crash."""
        for member in self._members(names):
            with _exclusive(self.layout):
                if kill:
                    member.kill()
                else:
                    member.stop()

    def reboot(self, host_id: str) -> None:
        """End all processes of a host, give it a new boot, and start its agent and its sample services."""
        hosts = self.status()["hosts"]
        if host_id not in hosts:
            raise ConfigurationError(f"{host_id} is no host of this sandbox; expected one of {', '.join(hosts)}")
        with _exclusive(self.layout):
            reboot_host(self._agent(host_id), self.layout.host(host_id), self.environment())

    def add_viewer(self, name: str) -> tuple[str, str]:
        """Add a user who may only read to the service, and return the service's address and the user's key.

        Raises ``ConfigurationError`` if the sandbox has no service.
        """
        service = self._require_service()
        with _exclusive(self.layout):
            return service.url, add_user(self._description().zookeeper, name, "viewer")

    def revive(self) -> list[str]:
        """Start the daemons that crashed, here and in the fleets of this home, and return their names."""
        description = self._description()
        daemons = self._daemons | {"nagios": self._nagios.bridge}
        daemons |= {host.identity.id: self._agent(host.identity.id) for host in description.hosts}
        crashed = [name for name, daemon in daemons.items() if daemon.crashed]
        self.start(crashed)
        for fleet in description.fleets[1:]:  # the first one is this sandbox
            crashed += [f"{name} of {fleet}" for name in Sandbox(self.layout.fleet(fleet)).revive()]
        return crashed

    def environment(self) -> dict[str, str]:
        """Return the environment in which commands such as ``zkdeployment status`` use this sandbox."""
        return plain_environment(self.directory) | {
            "ZC_ZK_CONNECTION_STRING": self._description().zookeeper,
            "ZKDEPLOYMENT_CONFIG": str(self.layout.config),
        }

    # Internals

    def enter_shell(self, argv: Sequence[str] = ()) -> None:
        """Replace this process by a shell, or the command ``argv``, in which zkdeployment uses this sandbox."""
        environment = self.environment()
        process.replace(argv or [environment.get("SHELL") or _login_shell()], env=environment)

    def _description(self) -> SandboxDescription:
        return SandboxDescription.load(self.layout.description)

    def _require_service(self) -> SandboxService:
        service = self._description().service
        if service is None:
            raise ConfigurationError(
                "this sandbox has no service; start one with: zkdeployment sandbox up --server"
            )
        return service

    def _branch(self, description: SandboxDescription) -> Branch:
        return Branch(self._home(description).tree, self.layout.mirror, description.branch)

    def _repository(self, description: SandboxDescription) -> RpmRepository:
        return RpmRepository(self._home(description).repository)

    def _home(self, description: SandboxDescription) -> Layout:
        """Return the layout of the sandbox whose repositories this one uses."""
        return self.layout if description.home is None else Layout(Path(description.home))

    @property
    def _daemons(self) -> dict[str, SandboxDaemon]:
        """The daemons beside the agents and the bridge of Nagios, by name."""
        config = str(self.layout.config)
        arguments = {
            "syncer": ["sync", config, "-t", str(self.layout.syncer_tree), "--interval", "1"],
            "coordinator": ["coordinate", config],
            "server": ["serve", config],
            "pools": ["pools", config],
            "promoter": ["promote", "run", config],
        }
        return {
            name: SandboxDaemon(self.directory, self.directory / name, name, argv)
            for name, argv in arguments.items()
        }

    @property
    def _nagios(self) -> SandboxNagios:
        return SandboxNagios(self.directory, self.layout.nagios)

    def _agent(self, host_id: str) -> SandboxDaemon:
        place = self.layout.host(host_id)
        return SandboxDaemon(self.directory, place.directory, "agent", ["agent", str(place.config)])

    def _make_repositories(
        self, description: SandboxDescription, *, with_samples: bool, report: Callable[[str], None]
    ) -> None:
        report("creating the git and the RPM repository")
        branch = self._branch(description)
        branch.create()
        if description.home is None:
            self._repository(description).create()
        if with_samples:
            report("building the sample packages")
            _add_samples(description.hosts, self._repository(description), branch)

    def _configure(self, description: SandboxDescription) -> None:
        for name, daemon in self._daemons.items():
            if name != "promoter":
                daemon.directory.mkdir()
        self._configure_tools(description)
        definitions = self._repository(description).definitions
        for host in description.hosts:
            _configure_host(self.layout, host, description.zookeeper, definitions)

    def _configure_tools(self, description: SandboxDescription) -> None:
        text = layout.tools_configuration(self.layout, description, self._branch(description).url)
        layout.write_private(self.layout.config, text)

    def _members(self, names: Sequence[str]) -> list[SandboxMember]:
        """Return the members with these names; an unknown name is an error before any member changes."""
        description = self._description()
        known: dict[str, SandboxMember] = {
            host.identity.id: self._agent(host.identity.id) for host in description.hosts
        }
        known |= self._daemons
        if description.service is None:
            del known["server"], known["pools"]
        if not description.fleets:
            del known["promoter"]
        if self._nagios.exists:
            known["nagios"] = self._nagios
        known |= {f"zookeeper{server.number}": server for server in servers(self.layout, description.ports)}
        for name in names:
            if name not in known:
                raise ConfigurationError(f"{name} is not in this sandbox; expected one of {', '.join(known)}")
        return [known[name] for name in names]


def _configure_host(place: Layout, host: Host, zookeeper: str, definitions: Path) -> None:
    """Create the directories and the configuration of a host, and give the host its first boot."""
    own = place.host(host.identity.id)
    for directory in (own.root, own.run):
        directory.mkdir(parents=True)
    reboot = [*reboot_command(place.directory, host.identity.id), "--background"]
    agent = layout.agent_configuration(own, host, zookeeper=zookeeper, repositories=definitions, reboot=reboot)
    layout.write_private(own.config, agent)
    own.boot()


def _add_samples(hosts: Sequence[Host], repository: RpmRepository, branch: Branch) -> None:
    """Build the sample packages, and push the sample tree."""
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        repository.add(samples.build(Path(scratch)))
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        text = samples.tree([host.identity for host in hosts])
        (Path(scratch) / "demo.zk").write_text(text, encoding="utf-8")
        branch.push(Path(scratch), "The sample tree")


def _claim(place: Layout) -> None:
    """Create the directory of the new sandbox; raise an error if it cannot be used."""
    if any(character.isspace() for character in str(place.directory)):
        raise ConfigurationError(
            f"{place.directory} contains blanks, which rpm does not allow; use another directory"
        )
    if place.description.exists():
        processes = process_cleanup.sandbox_processes(place.directory)
        state = "a sandbox is running" if processes else "there are remains of a sandbox"
        raise RefusedError(
            f"{state} in {place.directory}; remove it with: zkdeployment sandbox down -d {place.directory}"
        )
    try:
        place.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(place.directory.iterdir()):
            raise ConfigurationError(f"{place.directory} is not empty; a sandbox needs an empty directory")
        place.directory.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(f"cannot create {place.directory}: {error.strerror}") from error


@contextmanager
def _exclusive(place: Layout) -> Iterator[None]:
    """Hold the lock of the sandbox; raises ``RefusedError`` if another command holds it too long."""
    deadline = Deadline(_LOCK_TIMEOUT)
    with place.lock.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if deadline.passed:
                    raise RefusedError(f"another command is changing {place.directory}; try later") from error
                time.sleep(0.05)
        yield


def _login_shell() -> str:
    """Return the shell of this user, for an environment without ``SHELL``."""
    try:
        return pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    except KeyError:  # a container may have no user of this number
        return "/bin/sh"


def _host_status(host: Host, place: HostLayout, agent: SandboxDaemon) -> dict[str, Any]:
    return {
        "name": host.identity.name,
        "role": host.identity.role,
        "root": str(place.root),
        "run-directory": str(place.run),
        "config": str(place.config),
        "log": str(agent.log),
        "pid": agent.pid,
    }


def _fleet_directories(description: SandboxDescription, place: Layout) -> dict[str, str]:
    """Return the directories of all fleets of a home, by name; the home is the first."""
    home, *others = description.fleets or [""]
    return {home: str(place.directory), **{name: str(place.fleet(name)) for name in others}} if home else {}


def _service_status(service: SandboxService | None, pid: int | None) -> dict[str, Any] | None:
    if service is None:
        return None
    return {"url": service.url, "pid": pid, "user": service.user, "key": service.key}


def _new_service(zookeeper: str) -> SandboxService:
    return SandboxService(free_port(), _ADMIN, add_user(zookeeper, _ADMIN, "admin"))
