"""The fleet of a chaos run: a sandbox whose daemons connect through proxies, and whose hosts have small disks."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from chaos.attacker import EVIL
from chaos.plan import CONTROL
from chaos.repository import Repository
from chaos.systems import INSTALLED, RELEASES
from chaos.trees import CONTROLLER, PACKAGES, ROLE, VERSIONS, hosts_of_role
from support.hosts.rpms import build_rpm
from support.keys import make_key, make_publishers
from support.proxy import Proxy
from zkdeployment.base.machine import process
from zkdeployment.sandbox import processes
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.layout import SandboxDescription, numbered, write_private
from zkdeployment.sandbox.processes import sandbox_processes, wait_ended
from zkdeployment.sandbox.repositories import RpmRepository
from zkdeployment.sandbox.snapshots import Snapshots
from zkdeployment.sandbox.zookeeper import servers

if TYPE_CHECKING:
    from chaos.trace import Trace
    from zkdeployment.base.host import Host
    from zkdeployment.sandbox.zookeeper import ZooKeeperServer

SERVERS = 3

#: Sizes of the disks of a host: of its root directory with the RPM database, and of the run directory.
_ROOT_SIZE = "64m"
_RUN_SIZE = "1m"

_CLOCK = Path(__file__).parent / "stepped_clock"
_SCRIPT = Path(__file__).parent / "deploy-script"
_REBOOT = Path(__file__).parent / "reboot_command.py"

#: The key of an agent's configuration that every sandbox sets.
_REBOOT_KEY = "reboot-command = "


class World:
    """A running fleet in ``directory``. ``hosts`` are the ids of its hosts, ``daemons`` those and the others."""

    def __init__(self, directory: Path, trace: Trace, count: int) -> None:
        self.directory = directory
        self.trace = trace
        plain = numbered(count)
        self.hosts = tuple(host.identity.id for host in plain)
        others = len(plain) - len(hosts_of_role(self.hosts))
        self._hosts = (*plain[:others], *map(_with_role, plain[others:]))
        self.daemons = (*self.hosts, "syncer", "coordinator")
        self.sandbox = Sandbox(directory, adapt=self._adapt)
        self.repository = Repository(self.sandbox, [host.identity for host in self._hosts])
        self.shared = self.sandbox.directory / "shared"
        self.proxies: dict[str, list[Proxy]] = {}
        self._disks: list[Path] = []

    @property
    def zookeeper(self) -> str:
        """The addresses of the servers, past all proxies."""
        return SandboxDescription.load(self.sandbox.layout.description).zookeeper

    def start(self) -> None:
        """Start the fleet, with packages and without a tree."""
        os.environ["PYTHONPATH"] = str(_CLOCK)  # daemons inherit it
        with ThreadPoolExecutor(1) as pool, tempfile.TemporaryDirectory() as scratch:
            packages = pool.submit(_build_packages, Path(scratch))
            self.sandbox.up(self._hosts, servers=SERVERS, report=self.trace.note)
            self.sandbox.add_rpms(packages.result())

    def end(self) -> None:
        """End all processes, unmount all disks and remove the fleet."""
        self._end_processes()
        self._unmount()
        self.sandbox.down()

    def keep(self) -> None:
        """End all processes and keep all files, including those on the disks of hosts."""
        self._end_processes()
        disks = [disk for disk in self._disks if disk.name != "proc"]
        for disk in disks:
            shutil.copytree(disk, f"{disk}.kept", symlinks=True)
        self._unmount()
        for disk in disks:
            shutil.rmtree(disk)  # the sandbox wrote files there before it was mounted
            Path(f"{disk}.kept").rename(disk)

    # Parts

    def pid(self, name: str) -> int | None:
        """Return the process id of a daemon or a server while it runs."""
        status = self.sandbox.status()
        if name in self.hosts:
            return status["hosts"][name]["pid"]
        servers_pids = {server["id"]: server["pid"] for server in status["servers"]}
        return servers_pids.get(name, status.get(name))

    def server(self, name: str) -> ZooKeeperServer:
        """Return a server by its name."""
        description = SandboxDescription.load(self.sandbox.layout.description)
        return servers(self.sandbox.layout, description.ports)[int(name.removeprefix("zookeeper")) - 1]

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a daemon or a server, if it runs."""
        if (pid := self.pid(name)) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill_script(self, host: str) -> int | None:
        """Kill the script that a host runs, as at a loss of power, and return its process id; ``None`` without."""
        try:
            leader: int = json.loads((self.run(host) / "script").read_text(encoding="utf-8"))["pid"]
            script = psutil.Process(leader)
            os.killpg(leader, signal.SIGKILL)
        except (OSError, ValueError, KeyError, psutil.NoSuchProcess):
            return None
        wait_ended([script], 10)
        return leader

    def cut_power(self, host: str) -> None:
        """Kill all processes of a host whose agent and script are killed, such as transactions of dnf."""
        left = sandbox_processes(self.sandbox.layout.host(host).directory)
        for running in left:
            with suppress(psutil.NoSuchProcess):
                running.kill()
        wait_ended(left, 10)

    def is_lost(self, host: str) -> bool:
        """Whether a host that goes down stays down."""
        return self.lost_file(host).exists()

    def lost_file(self, host: str) -> Path:
        """Return the file with which a host that goes down stays down."""
        return self.shared / f"lost-{host}"

    def switch_on(self, host: str) -> None:
        """Boot a host, unless it runs."""
        if self.pid(host) is None:
            self.sandbox.reboot(host)
            self.sandbox.start([host])

    def booted(self, host: str) -> tuple[str, float]:
        """Return the id of the present boot of a host, and when the boot began, in seconds since the epoch."""
        file = self.root(host) / "proc/sys/kernel/random/boot_id"
        return file.read_text(encoding="ascii").strip(), file.stat().st_mtime

    def root(self, host: str) -> Path:
        """Return the root directory of a host."""
        return self.sandbox.layout.host(host).root

    def run(self, host: str) -> Path:
        """Return the run directory of a host."""
        return self.sandbox.layout.host(host).run

    def logs(self) -> dict[str, Path]:
        """Return the files of the daemons' logs."""
        layout = self.sandbox.layout
        agents = {host: layout.host(host).directory / "agent.log" for host in self.hosts}
        return {
            **agents,
            "syncer": layout.syncer / "syncer.log",
            "coordinator": layout.directory / "coordinator/coordinator.log",
        }

    def step_clock(self, daemon: str, seconds: float | None) -> None:
        """Step the clock of a daemon away from the machine's; ``None`` steps it back."""
        file = self.logs()[daemon].parent / "clock-offset"
        if seconds is None:
            file.unlink(missing_ok=True)
        else:
            write_private(file, f"{seconds}\n")

    def fill(self, disk: Path) -> None:
        """Fill the disk of a directory."""
        with (disk / "filler").open("ab", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while filler.write(bytes(size)):
                        pass

    def empty(self, disk: Path) -> None:
        """Remove the data that fill the disk of a directory."""
        (disk / "filler").unlink(missing_ok=True)

    # Inside

    def _adapt(self, description: SandboxDescription) -> None:
        layout = self.sandbox.layout
        self.shared.mkdir()
        (self.shared / "record").touch()
        snapshots = Snapshots(self.sandbox.directory / "snapshots")
        snapshots.create(dict(RELEASES), RpmRepository(layout.repository).definitions)
        key = make_key(self.sandbox.directory / "keys" / "syncer")
        publishers = make_publishers(key.with_name("publishers"), key)
        for host in self.hosts:
            place = layout.host(host)
            self._mount(place.root, _ROOT_SIZE)
            self._mount(place.run, _RUN_SIZE)
            proc = place.root / "proc"
            proc.mkdir()
            self._mount(proc, _RUN_SIZE)
            snapshots.install(INSTALLED, place.root)
            place.boot()
            self._record_reboots(place.config, host)
            self._reroute(place.config, host, description.zookeeper)
            _set(place.config, "zkdeployment", f"publishers = {publishers}")
        self._reroute(layout.config, CONTROL, description.zookeeper)
        _set(layout.config, "sync", f"publish-key = {key}")

    def _reroute(self, config: Path, member: str, zookeeper: str) -> None:
        """Let the daemons of a configuration connect to proxies."""
        addresses = [address.rpartition(":") for address in zookeeper.split(",")]
        proxies = [Proxy(host, int(port)) for host, _, port in addresses]
        self.proxies[member] = proxies
        text = config.read_text(encoding="utf-8")
        write_private(config, text.replace(zookeeper, ",".join(proxy.address for proxy in proxies)))

    def _record_reboots(self, config: Path, host: str) -> None:
        text = config.read_text(encoding="utf-8")
        command = shlex.join([sys.executable, str(_REBOOT), str(self.sandbox.directory), host])
        write_private(config, text.replace(_REBOOT_KEY, f"{_REBOOT_KEY}{command} "))

    def _mount(self, directory: Path, size: str) -> None:
        argv = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "chaos", str(directory)]
        process.run(argv, timeout=30).check()
        self._disks.append(directory)

    def _unmount(self) -> None:
        for disk in reversed(self._disks):
            process.run(["umount", str(disk)], timeout=30).check()

    def _end_processes(self) -> None:
        for member in self.proxies.values():
            for proxy in member:
                proxy.close()
        self.proxies.clear()
        processes.end_processes(self.sandbox.directory)


def _with_role(host: Host) -> Host:
    return replace(host, identity=replace(host.identity, role=ROLE))


def _set(config: Path, section: str, line: str) -> None:
    """Add a line to a section of a configuration."""
    text = config.read_text(encoding="utf-8")
    write_private(config, text.replace(f"[{section}]\n", f"[{section}]\n{line}\n"))


def _build_packages(directory: Path) -> list[Path]:
    script = _SCRIPT.read_text(encoding="utf-8")
    places = {name: ["bin/zookeeper-deploy"] for name in PACKAGES}
    places[CONTROLLER] = ["bin/starting-deployments", "bin/ending-deployments"]
    wanted = [(name, version, at) for name, at in places.items() for version in VERSIONS]
    wanted.append((EVIL["package"], EVIL["version"], places[PACKAGES[0]]))
    return [
        build_rpm(directory, name, version, script=script.replace("@VERSION@", version), places=at)
        for name, version, at in wanted
    ]
