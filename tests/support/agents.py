"""Hosts with real agents, real scripts and a real ZooKeeper, in scratch directories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NodeExistsError, NoNodeError

from support.forks import ForkedProgram, run_forked
from support.hosts.packages import AvailablePackage, FakePackageManager
from support.waiting import PATIENCE, wait_until
from support.zookeeper import expire_owner
from zkdeployment.base.daemon.control import Control
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.base.machine.clock import SystemClock
from zkdeployment.config.settings import load
from zkdeployment.programs.agent import build_agent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kazoo.client import KazooClient

    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.agent.daemon.agent import Agent
    from zkdeployment.base.inventory import Packages

#: A deploy script that records its start and end in the fleet's journal, waits while its host is blocked, and
#: fails for the arguments in the file ``fail``.
SCRIPT = """\
#!/bin/sh
journal="$ZKDEPLOYMENT_ROOT/../../journal"
echo "$ZKDEPLOYMENT_HOST_ID start $*" >> "$journal"
echo "working on $*"
while [ -e "$ZKDEPLOYMENT_ROOT/block" ]; do sleep 0.02; done
if [ -e "$ZKDEPLOYMENT_ROOT/fail" ] && grep -qxF -e "$*" "$ZKDEPLOYMENT_ROOT/fail"; then
  echo "boom on purpose" >&2
  echo "$ZKDEPLOYMENT_HOST_ID fail $*" >> "$journal"
  exit 3
fi
echo "$ZKDEPLOYMENT_HOST_ID end $*" >> "$journal"
"""

#: The same script for role controllers; the journal shows the script's name.
CONTROLLER_SCRIPT = SCRIPT.replace("$*", "${0##*/} $*")


class HostPackages(FakePackageManager):
    """The fake package manager, which also writes the scripts of packages below ``root``."""

    def __init__(self, root: Path, available: Sequence[AvailablePackage]) -> None:
        super().__init__(available)
        self._root = root

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        return frozenset(name for name in packages if not any((self._root / "opt" / name).glob("bin/*")))

    def commit(self, transaction: Transaction) -> None:
        super().commit(transaction)
        known = {package.name for package in self.available}
        for name in known & (transaction.before.keys() | transaction.after.keys()):
            if name not in transaction.after:
                for script in (self._root / "opt" / name / "bin").glob("*"):
                    script.unlink()
            elif name.startswith("ctl"):
                put_controller(self._root, name)
            else:
                put_script(self._root, name)


def put_script(root: Path, package: str, text: str = SCRIPT, mode: int = 0o755) -> Path:
    """Write the deploy script of a package."""
    script = root / "opt" / package / "bin" / "zookeeper-deploy"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text)
    script.chmod(mode)
    return script


def put_controller(root: Path, package: str) -> None:
    """Write the scripts of a role controller's package."""
    for name in ("starting-deployments", "ending-deployments"):
        script = root / "opt" / package / "bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(CONTROLLER_SCRIPT)
        script.chmod(0o755)


def called(*calls: str, host: str = "h1") -> list[str]:
    """Return the journal's lines for these calls if all of them succeed."""
    return [f"{host} {moment} {call}" for call in calls for moment in ("start", "end")]


class Fleet:
    """A cluster in a real ZooKeeper, which tests change and inspect directly, and the journal of its scripts."""

    def __init__(self, directory: Path, connection: str, client: KazooClient) -> None:
        self.directory = directory
        self.connection = connection
        self.client = client
        self.journal = directory / "journal"

    def host(self, host_id: str, **options: str) -> AgentHost:
        """Return a host of this fleet without a running agent."""
        return AgentHost(self, host_id, options)

    def ready_host(self, host_id: str = "h1", *, version: str = "1.0", n: int = 1) -> AgentHost:
        """Return a host with the software foo, of which r1 has ``n`` deployments."""
        host = self.host(host_id)
        put_script(host.root, "foo")
        self.service("/who/myfoo", "foo", version, **{host_id: n})
        self.set_version("r1")
        return host

    def service(self, path: str, kind: str, version: str | None, **targets: int) -> None:
        """Write a service node that is deployed to exactly ``targets`` (number of instances by name)."""
        self._put(path, {"type": kind} | ({} if version is None else {"version": version}))
        self.remove(f"{path}/deploy")
        self._put(f"{path}/deploy", {})
        for target, n in targets.items():
            self._put(f"{path}/deploy/{target}", {"n": n})

    def write(self, path: str, properties: Mapping[str, object]) -> None:
        """Write the properties of any node of the tree, with links as in znodes."""
        self._put(path, properties)

    def controller(self, role: str, package: str, version: str) -> None:
        """Write a role's controller and the parent node of its lock."""
        self._put(f"/roles/{role}", {"type": package, "version": version})
        self.client.ensure_path(f"/role-locks/{role}")

    def requests(self, role: str) -> list[dict[str, Any]]:
        """Return the contenders for a role's lock, in order."""
        directory = f"/role-locks/{role}"
        return [self.get(f"{directory}/{name}") for name in sorted(self.client.get_children(directory))]

    def lease(self, host_id: str, role: str, number: int, *keys: str) -> None:
        """Write the lease of a host."""
        self._put(f"/zkdeployment/pools/leases/{host_id}", {"role": role, "number": number, "keys": [*keys]})

    def remove(self, path: str) -> None:
        """Delete a node and its descendants."""
        self.client.delete(path, recursive=True)

    def set_version(self, version: object, **more: object) -> None:
        """Set the cluster version."""
        self._put("/hosts", {"version": version, **more})

    @property
    def version(self) -> object:
        """The cluster version."""
        return self.get("/hosts")["version"]

    def get(self, path: str) -> dict[str, Any]:
        """Return a node's properties; an empty dictionary if there is no such node."""
        try:
            data = self.client.retry(self.client.get, path)[0]  # servers come and go in some tests
        except NoNodeError:
            return {}
        return json.loads(data) if data else {}

    def calls(self) -> list[str]:
        """Return the lines of the journal."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def _put(self, path: str, properties: Mapping[str, object]) -> None:
        """Set a node's properties; a new node never exists without them, because agents may be reading it."""
        data = json.dumps(properties).encode()
        self.client.ensure_path(path.rpartition("/")[0] or "/")
        try:
            self.client.retry(self.client.create, path, data)
        except NodeExistsError:  # an agent, too, creates nodes that are missing
            self.client.retry(self.client.set, path, data)


class AgentHost:
    """A host's directories and configuration, and ways to run its agent."""

    def __init__(self, fleet: Fleet, host_id: str, options: Mapping[str, str]) -> None:
        self.fleet = fleet
        self.id = host_id
        self.root = fleet.directory / host_id / "root"
        self.run = fleet.directory / host_id / "run"
        self.lasting = self.root / "var/lib/zkdeployment"
        self.log = fleet.directory / host_id / "agent.log"
        self.config = fleet.directory / host_id / "agent.cfg"
        self.root.mkdir(parents=True)
        values = {
            "host-id": host_id,
            "host-name": f"{host_id}.example.com",
            "run-directory": str(self.run),
            "root": str(self.root),
            "zookeeper": fleet.connection,
            "packages": "none",
        } | {key.replace("_", "-"): value for key, value in options.items()}
        lines = (f"{key} = {value}\n" for key, value in values.items())
        self.config.write_text("[zkdeployment]\n" + "".join(lines))
        self.packages = HostPackages(
            self.root,
            [
                AvailablePackage(name=name, version=version)
                for name in ("foo", "bar", "ctl", "ctl2")
                for version in ("1.0", "2.0")
            ],
        )

    @property
    def node(self) -> dict[str, Any]:
        """The properties of the host's node."""
        return self.fleet.get(f"/hosts/{self.id}")

    @property
    def status(self) -> str:
        """The last part of the status file."""
        try:
            return (self.run / "status").read_text().rstrip("\n").split(" ", 3)[3]
        except OSError:
            return ""

    @property
    def version_on_disk(self) -> object:
        """The content of ``RUN/host_version``; ``None`` if the host has no version."""
        file = self.run / "host_version"
        return json.loads(file.read_text()) if file.exists() else None

    @property
    def markers(self) -> list[str]:
        """The names of all markers."""
        return sorted(path.name for path in (self.root / "etc").glob("*/*.deployed"))

    def has_finished(self, version: object) -> bool:
        """Return whether the node and the status file show that the host finished a version."""
        return self.node.get("version") == version and self.status == "done"

    def wait_for_version(self, version: object, timeout: float = PATIENCE) -> None:
        """Wait until the host has finished a version."""
        wait_until(lambda: self.has_finished(version), f"{self.id} finishes {version}", timeout)

    def wait_for_error(self) -> str:
        """Wait until the host's node has an error, and return the error."""
        errors: list[str] = []

        def is_shown() -> bool:
            errors.extend(filter(None, [self.node.get("error")]))
            return bool(errors)

        wait_until(is_shown, f"{self.id} reports an error")
        return errors[0]

    @property
    def software(self) -> list[str]:
        """The names of the directories of packages and checkouts on the host."""
        return sorted(path.name for path in (self.root / "opt").iterdir())

    def end_session(self) -> None:
        """End the session of the host's agent at once, as ZooKeeper does after a silence of some seconds."""
        expire_owner(self.fleet.client, self.fleet.connection, f"/hosts/{self.id}")

    def block(self) -> Path:
        """Block the scripts of this host until the test removes the returned file."""
        file = self.root / "block"
        file.touch()
        return file

    def fail(self, arguments: str) -> Path:
        """Fail the script with exactly these arguments until the test removes the returned file."""
        file = self.root / "fail"
        file.write_text(f"{arguments}\n")
        return file

    @contextmanager
    def agent(self, **options: float) -> Iterator[RunningAgent]:
        """Run the agent in a thread, with the fake package manager; ``options`` are those of ``build_agent``."""
        agent = RunningAgent(self, options)
        try:
            yield agent
        finally:
            agent.stop()

    @contextmanager
    def process(self, *options: str, failpoints: str = "", **more: str) -> Iterator[ForkedProgram]:
        """Run the agent as a process, with ``more`` variables; its packages' scripts must exist below ``/opt``."""
        environment = {**os.environ, VARIABLE: failpoints, **more}
        with self.log.open("ab") as log:
            child = ForkedProgram(["agent", *options, str(self.config)], environment, output=log)
        with _ended(child):
            yield child

    @contextmanager
    def new_process(self, *options: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the agent as ``process`` does, in a new Python."""
        argv = [sys.executable, "-m", "zkdeployment", "agent", *options, str(self.config)]
        environment = {**os.environ, **more}
        with self.log.open("ab") as log:
            child = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        with _ended(child):
            yield child

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run the agent as a process and wait for its end."""
        return run_forked("agent", *options, str(self.config))


@contextmanager
def _ended(child: ForkedProgram | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGCONT)
            child.kill()
        child.wait()


def wait_for_versions(hosts: Sequence[AgentHost], version: object) -> None:
    """Wait until all hosts have finished a version."""
    for host in hosts:
        host.wait_for_version(version)


class ObservedControl(Control):
    """The control of an agent, which knows whether the agent's thread has nothing to do."""

    #: Seconds: the thread continues by itself after a shorter wait.
    _SHORTEST_REST = 1.0

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self._observed = threading.Lock()
        self.resting = False

    def wake(self) -> None:
        with self._observed:
            self.resting = False
            super().wake()

    def wait(self, timeout: float) -> bool:
        with self._observed:
            self.resting = timeout > self._SHORTEST_REST and self._wakes.empty()
        try:
            return super().wait(timeout)
        finally:
            self.resting = False


class RunningAgent:
    """An agent in a thread."""

    def __init__(self, host: AgentHost, options: Mapping[str, Any]) -> None:
        self._host = host
        self._options = options
        self._control: ObservedControl | None = None
        self.agent: Agent | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"agent-{host.id}")
        self._thread.start()

    def _run(self) -> None:
        try:
            settings = load(self._host.config)
            control = ObservedControl()
            built = build_agent(settings, packages=self._host.packages, control=control, **self._options)
            with built as (agent, _):
                self._control = control
                self.agent = agent
                agent.run()
        except Exception as error:  # noqa: BLE001  the test looks at it
            self.error = error

    @property
    def ended(self) -> bool:
        """Whether the agent has ended."""
        return not self._thread.is_alive()

    def wait_until_idle(self) -> None:
        """Wait until the agent has seen what ZooKeeper holds now, and nothing is left to do."""
        control = self._control
        assert control is not None
        control.wake()
        wait_until(lambda: control.resting or self.ended, f"the agent of {self._host.id} is idle")

    def reload(self) -> None:
        """Ask the agent to reload its configuration, as SIGHUP does."""
        assert self._control is not None
        self._control.reload()

    def stop(self) -> None:
        """Stop the agent and wait for its end."""
        wait_until(lambda: self._control is not None or self.ended, "the agent is built")
        if self._control is not None:
            self._control.stop()
        self._thread.join()
