"""A fleet of booted machines with the RPM of zkdeployment, and the ZooKeeper, tree and packages that they use."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from support.commands import invoke
from support.hosts.booted_machine import SHARED, BootedMachine
from support.hosts.machine_room import MachineRoom
from support.hosts.rpms import build_rpm, interpreter
from support.proxy import Proxy
from zkdeployment.sandbox.repositories import Branch, RpmRepository, build_packages
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation, free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Self

    from support.commands import Done

#: What an RPM distribution has and the image lacks: the provider of the requirements and of ``more`` names, and
#: the triggers of systemd's package, which make users and directories and load units.
_DISTRIBUTION = """\
Name: distribution
Version: 1
Release: 1
Summary: The RPM distribution around zkdeployment
License: none
BuildArch: noarch
Provides: {python}
Provides: rpm
{more}%description
The RPM distribution around zkdeployment.
%files
%transfiletriggerin -P 1000700 -p <lua> -- /usr/lib/sysusers.d
rpm.execute("/usr/bin/systemd-sysusers")
%transfiletriggerin -P 1000500 -p <lua> -- /usr/lib/tmpfiles.d
rpm.execute("/usr/bin/systemd-tmpfiles", "--create")
%transfiletriggerin -P 900900 -p <lua> -- /usr/lib/systemd/system
rpm.execute("/usr/bin/systemctl", "daemon-reload")
"""

#: The scriptlets of packages whose installation waits on the machines for which there is a file
#: ``hold-packages-HOST``. Each transaction notes in ``transaction-HOST`` that it begins and ends.
SCRIPTLETS = f"""\
%pre -p <lua>
local host = posix.uname("%n")
local notes = io.open("{SHARED}/transaction-" .. host, "a")
notes:write("begins %{{wanted_name}} %{{wanted_version}}\\n")
notes:close()
while posix.stat("{SHARED}/hold-packages-" .. host) do posix.sleep(1) end
%posttrans -p <lua>
local notes = io.open("{SHARED}/transaction-" .. posix.uname("%n"), "a")
notes:write("ends %{{wanted_name}} %{{wanted_version}}\\n")
notes:close()
"""

_REPOSITORY = f"""\
[fleet]
name=fleet
baseurl=file://{SHARED}/rpms
gpgcheck=1
gpgkey=file://{SHARED}/rpms/RPM-GPG-KEY
metadata_expire=1
"""

_CONFIGURATION = """\
[zkdeployment]
host-id = {name}
host-name = {name}.example.com
role = file:///etc/zkdeployment/role
run-directory = /run/zkdeployment
zookeeper = {zookeeper}
stop-timeout = 2
"""

_TOOLS = """\
[zkdeployment]
zookeeper = {zookeeper}
[sync]
url = {url}
tree-directory = {directory}/tree
"""


def build_distribution(directory: Path, names: Iterable[str]) -> Path:
    """Build the package ``distribution``, which provides packages with these names, and return its file."""
    spec = directory / "distribution.spec"
    more = "".join(f"Provides: {name}\n" for name in names)
    spec.write_text(_DISTRIBUTION.format(python=interpreter(), more=more), encoding="utf-8")
    (file,) = build_packages(spec, directory / "distribution")
    return file


class BootedFleet:
    """A fleet whose repository has the packages in the directory ``built``.

    ``shared`` is the directory that the machines see as ``SHARED``.
    """

    def __init__(self, directory: Path, built: Path) -> None:
        self.directory = directory
        self.shared = directory / "shared"
        self.shared.mkdir()
        self._built = built
        self._stack = contextlib.ExitStack()
        self.repository = RpmRepository(self.shared / "rpms")
        self.branch = Branch(self.shared / "tree.git", directory / "push.git")

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.room = stack.enter_context(MachineRoom())
            server = ZooKeeperServer(find_installation(), self.directory / "zookeeper")
            server.start()
            stack.callback(server.kill)
            self.proxy = stack.enter_context(Proxy("127.0.0.1", server.port, interface=self.room.gateway))
            self.branch.create()
            self._serve_tree(stack)
            self.repository.create("fleet")
            distribution = build_distribution(self.directory, ("openssh-clients", "git-core"))
            self.repository.add([distribution, *self._built.glob("*.rpm")])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def tree_url(self) -> str:
        """The URL of the tree's repository for the machines."""
        return f"git://{self.room.gateway}:{self._git_port}/tree.git"

    def machine(self, name: str, *, above: BootedMachine | None = None) -> BootedMachine:
        """Return a running machine with this fleet's repository.

        ``above`` is a machine that is switched off, whose files the new one has at first.
        """
        layers = () if above is None else (above.changes,)
        machine = BootedMachine(self.room, name, self.directory / name, shared=self.shared, layers=layers)
        machine.start()
        if above is None:
            machine.path("/etc/yum.repos.d").mkdir(parents=True)
            machine.path("/etc/yum.repos.d/fleet.repo").write_text(_REPOSITORY)
            machine.run("dnf", "--assumeyes", "--quiet", "install", "distribution")
        return machine

    def configure(
        self, machine: BootedMachine, *, role: str | None = None, host: str = "", more: str = ""
    ) -> None:
        """Write the configuration of a machine; ``host`` are further lines for its agent, ``more`` sections."""
        place = machine.path("/etc/zkdeployment")
        text = _CONFIGURATION.format(name=machine.name, zookeeper=self.proxy.address)
        (place / "zkdeployment.cfg").write_text(text + host + more)
        if role is not None:
            (place / "role").write_text(role)

    def publish(self, tree: str) -> str:
        """Push a tree, ask the syncers to fetch it, and return its revision."""
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "tree.zk").write_text(tree)
            revision = self.branch.push(Path(place), "a push")
        self.zkdeployment("sync", "--notify", self._tools())
        return revision

    @contextlib.contextmanager
    def syncing(self) -> Iterator[None]:
        """Run a syncer on this computer while the context is open."""
        log = (self.directory / "syncer.log").open("ab")
        words = [sys.executable, "-m", "zkdeployment", "sync", "--interval", "1", str(self._tools())]
        with log, subprocess.Popen(words, stdout=log, stderr=log) as syncer:
            try:
                yield
            finally:
                syncer.terminate()

    def _tools(self) -> Path:
        """Write the configuration of this computer's commands and return its path."""
        tools = self.directory / "tools.cfg"
        text = _TOOLS.format(zookeeper=self.proxy.address, url=self.tree_url, directory=self.directory)
        tools.write_text(text)
        return tools

    def status(self) -> str:
        """Return the output of ``zkdeployment status``, whose exit code is the state of the fleet."""
        return self._invoke("status").stdout

    def zkdeployment(self, *words: object) -> str:
        """Run ``zkdeployment`` on this computer for the fleet and return its output; fail the test if it fails."""
        done = self._invoke(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def _invoke(self, *words: object) -> Done:
        return invoke(*words, env={"ZC_ZK_CONNECTION_STRING": self.proxy.address})

    def offer(
        self, name: str, version: str, script: str, places: Sequence[str] = ("bin/zookeeper-deploy",)
    ) -> None:
        """Publish a package with this script at each of the ``places``."""
        package = build_rpm(self.directory, name, version, script=script, places=places, scriptlets=SCRIPTLETS)
        self.repository.add([package])

    def _serve_tree(self, stack: contextlib.ExitStack) -> None:
        self._git_port = free_port()
        words = ["git", "daemon", "--export-all", "--reuseaddr", f"--base-path={self.shared}"]
        words += [f"--listen={self.room.gateway}", f"--port={self._git_port}"]
        daemon = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        stack.callback(daemon.wait)
        stack.callback(daemon.terminate)
