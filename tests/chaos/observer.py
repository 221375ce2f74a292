"""Observes a fleet from outside: the scripts' record, ZooKeeper past all proxies, hosts' files, and logs."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from chaos.histories import HistoryWriter
from chaos.observations import (
    AgentEnded,
    Attacked,
    ClusterSeen,
    HostBooted,
    HostWentDown,
    RebootsSeen,
    ReportsSeen,
    ScriptBegan,
    ScriptEnded,
    UnexpectedErrorLogged,
    VersionClaimed,
    read_record,
    unexpected_errors,
)
from chaos.publication_reader import read_publication, read_reboots, read_registrations
from chaos.systems import SYSTEM_NAMES
from chaos.trace import uptime
from zkdeployment.agent.files.markers import deployment_of
from zkdeployment.agent.files.run_directory import lasting_directory
from zkdeployment.base.errors import ProgramError, ZkdeploymentError
from zkdeployment.base.machine import process
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chaos.checks import Checks
    from chaos.observations import Observation, ScriptCall
    from chaos.world import World
    from zkdeployment.zookeeper.session import Session


#: Seconds between two looks at ZooKeeper.
_INTERVAL = 0.3

#: The RPM database of a host, in its root directory.
_DATABASE = "/var/lib/rpm"


class Observer:
    """Makes observations, and gives them to ``checks`` in order. Threads may use it at the same time.

    ``reboots`` counts the reboots of hosts for steps, ``missing`` the hosts that were reported not to be back.
    """

    def __init__(self, world: World, checks: Checks, session: Session) -> None:
        self._world = world
        self._checks = checks
        self._history = HistoryWriter(world.trace.file.with_name("history"), world.repository.tree)
        self._session = session
        self._lock = threading.RLock()
        self._reading = threading.Lock()
        self._read = 0
        self._running: dict[int, ScriptCall] = {}
        self._claimed: dict[str, tuple[int, int]] = {}
        self._logged: dict[str, int] = {}
        self._version: object = object()
        self._published = 0
        self._boots: dict[str, tuple[str, float]] = {}
        self.reboots = 0
        self.missing: set[tuple[str, str]] = set()

    def see_reboot(self, observation: HostWentDown | HostBooted | RebootsSeen) -> None:
        """Write an observation of reboots, which the history judges."""
        with self._lock:
            self._history.see(observation)
            if isinstance(observation, HostWentDown):
                self.reboots += 1
            elif isinstance(observation, RebootsSeen):
                self.missing |= {(host, boot) for host, (boot, failed) in observation.boots.items() if failed}

    def see(self, observation: Observation) -> None:
        """Check an observation, and trace a finding."""
        with self._lock:
            self._history.see(observation)
            before = len(self._checks.findings)
            self._checks.see(observation)
            for finding in self._checks.findings[before:]:
                self._world.trace.note(f"FINDING: {finding}")

    @contextmanager
    def following(self) -> Iterator[None]:
        """Read the cluster all the time, also while ZooKeeper answers slowly."""
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(_INTERVAL):
                self.read_cluster()

        with ThreadPoolExecutor(1) as pool:
            followed = pool.submit(follow)
            try:
                yield
            finally:
                ended.set()
        followed.result()

    def look_at_hosts(self) -> None:
        """Read the scripts' record, the claims of hosts, and the logs."""
        with self._lock:
            self.read_record()
            self._read_boots()
            for host in self._world.hosts:
                self._read_claim(host)
            self._read_logs()

    # Scripts

    def read_record(self) -> None:
        """Read what scripts have recorded since the last time."""
        with self._lock:
            with (self._world.shared / "record").open(encoding="utf-8") as record:
                record.seek(self._read)
                text = record.read()
            complete = text[: text.rfind("\n") + 1]
            self._read += len(complete.encode())
            for line in complete.splitlines():
                self._world.trace.note(f"script: {line}")
                event = read_record(line)
                if isinstance(event, HostWentDown):
                    self._read_boots()
                    self.see_reboot(event)
                    continue
                if isinstance(event, ScriptBegan):
                    self._running[event.call.pid] = event.call
                elif isinstance(event, ScriptEnded):
                    self._running.pop(event.call.pid, None)
                self.see(event)

    def _read_boots(self) -> None:
        """Read the boots of hosts since the last time."""
        for host in self._world.hosts:
            booted = self._world.booted(host)
            before = self._boots.setdefault(host, booted)
            if before != booted:
                self._boots[host] = booted
                self._world.trace.note(f"{host} has booted")
                self.see_reboot(HostBooted(booted[1] - time.time() + uptime(), host))

    def script_killed(self, host: str, pid: int) -> None:
        """Note that a script of a host was killed."""
        call = self._running.pop(pid, None)
        if call is not None and call.host == host:
            self._world.trace.note(f"script killed: {call}")
            self.see(ScriptEnded(uptime(), call, killed=True))

    def agent_restarted(self, host: str) -> None:
        """Note that an agent had ended by itself and runs again."""
        self.read_record()
        self.see(AgentEnded(uptime(), host, self.kept_failure(host)))

    def kept_failure(self, host: str) -> str:
        """Return the failure that a host keeps on disk, as text."""
        with suppress(OSError):
            return (lasting_directory(self._world.root(host)) / "failure").read_text(encoding="utf-8")
        return ""

    # ZooKeeper

    def read_cluster(self) -> None:
        """Read the cluster version, the stops and all reports of failures, unless ZooKeeper is out of reach."""
        with self._reading, suppress(ZkdeploymentError):
            self._read_cluster()

    def _read_cluster(self) -> None:
        since = uptime()
        self._session.sync()
        before, after = self._session.get(paths.HOSTS), None
        stops = self._children(paths.STOPS)
        reboots = read_reboots(self._session)
        after = self._session.get(paths.HOSTS)
        if before is None or after is None:
            return
        version = after.properties.get("version")
        if version != self._version:
            self._version = version
            self._world.trace.note(f"the cluster version is {version}")
        self.read_record()
        whole = stops if before.changed == after.changed else None
        text = None if version is None else str(version)
        recorded = None if whole is None else tuple(whole)
        retry, order = after.properties.get("retry"), None
        if isinstance(retry, dict) and retry.get("stamp") == after.version and not retry.get("succeeded"):
            order = str(retry.get("host")), str(retry.get("revision"))
        self.see(ClusterSeen(since, uptime(), text, after.changed, recorded, order))
        if whole is not None and reboots is not None:
            self.see_reboot(reboots)
        self.see(ReportsSeen(uptime(), frozenset(self._reports())))
        self.see(read_registrations(self._session, self._world.hosts))
        targets = self._session.get(paths.TARGETS)
        if targets is not None and targets.changed != self._published:
            self._read_publication(targets.changed)

    def check_publication(self) -> None:
        """Read the publication, although it was read before."""
        with self._reading:
            self._session.sync()
            self._read_publication(0)

    def _read_publication(self, changed: int) -> None:
        publication = read_publication(self._session)
        if publication is not None:
            self._published = changed
            self._world.trace.note(f"publication {publication.revision[:12]} is whole")
            self.see(publication)

    def attack(self, strike: Callable[[], None]) -> None:
        """Let an attacker write to ZooKeeper between two observations, if there is a publication to change."""
        with self._reading:
            if not self._published:
                return
            self.see(Attacked(uptime()))
            strike()

    def _reports(self) -> set[tuple[str, str]]:
        places = [f"{paths.STOPS}/{name}" for name in self._children(paths.STOPS)]
        places += [f"{paths.HOSTS}/{host}" for host in self._world.hosts]
        for rollout in self._children(paths.ROLLOUTS):
            above = paths.reports_path(rollout)
            places += [f"{above}/{name}" for name in self._children(above)]
        nodes = zip(places, self._session.get_many(places), strict=True)
        return {
            (str(node.properties.get("host", path.rpartition("/")[2].rpartition(":")[2])), node.data.decode())
            for path, node in nodes
            if node is not None
        }

    def _children(self, path: str) -> list[str]:
        return self._session.children(path) or []

    # Hosts

    def claim(self, host: str) -> VersionClaimed | None:
        """Return the state of a host whose file claims a version; ``None`` without a claim, or during a change."""
        file = self._world.run(host) / "host_version"
        try:
            before = _identity(file)
            revision = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(revision, str):
                return None
            marked = _marked(self._world.root(host))
            installed = _packages(self._world.root(host))
            if _identity(file) != before:
                return None
        except (OSError, ValueError, ProgramError):
            return None
        system = frozenset(package for package in installed if package[0] in SYSTEM_NAMES)
        return VersionClaimed(uptime(), host, revision, marked, dict(installed - system), system)

    def _read_claim(self, host: str) -> None:
        """Check a claim once for each time that it is written."""
        try:
            identity = _identity(self._world.run(host) / "host_version")
        except OSError:
            return
        if self._claimed.get(host) == identity:
            return
        self._claimed[host] = identity
        self.read_record()  # all scripts that ended before the claim
        if (claim := self.claim(host)) is not None:
            self._world.trace.note(f"{host} has deployed {claim.revision[:12]}")
            self.see(claim)

    # Logs

    def _read_logs(self) -> None:
        for daemon, file in self._world.logs().items():
            with suppress(OSError), file.open(encoding="utf-8", errors="replace") as log:
                log.seek(self._logged.get(daemon, 0))
                text = log.read()
                self._logged[daemon] = log.tell()
                for error in unexpected_errors(text):
                    self.see(UnexpectedErrorLogged(uptime(), daemon, error))


def _identity(file: Path) -> tuple[int, int]:
    """Return a value that changes whenever a file is replaced."""
    status = file.stat()
    return status.st_ino, status.st_mtime_ns


def _marked(root: Path) -> frozenset[tuple[str, int]]:
    """Return the instances that have a marker in a host's root directory."""
    deployments = (deployment_of(file.name) for file in root.glob("etc/app*/*.deployed"))
    return frozenset((found.path, found.number) for found in deployments if found is not None)


def _packages(root: Path) -> set[tuple[str, str]]:
    """Return the names and versions of the installed packages of a host, by the RPM database."""
    argv = ["rpm", "--root", str(root), "--dbpath", _DATABASE, "-qa", "--qf", "%{NAME} %{VERSION}\n"]
    lines = process.run(argv, timeout=30).check().stdout.splitlines()
    pairs = (line.split() for line in lines if not line.startswith("gpg-pubkey"))
    return {(name, version) for name, version in pairs}
