"""What machines with a booted systemd share: an image, control groups, a network, and their end.

A machine is a container of systemd-nspawn with a root directory, a network and a process tree of its own: nothing
in it touches this computer's files, services or interfaces. ``booted_machine`` has the machine itself.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from support.limits import outliving_all_tests, outliving_the_test
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The root directory that ``scripts/lib.sh`` makes of the distribution's packages; nothing writes to it.
IMAGE = Path(__file__).resolve().parents[3] / "build" / "machine"

_CGROUP2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_SYSTEMD_CGROUP = Path("/sys/fs/cgroup/systemd")

#: Ends all processes of the first control group when the test process closes its input or dies; then removes the
#: network and all control groups.
_GUARD = """
bridge=$1; shift
read -r _
echo 1 >"$1/cgroup.kill"
while grep -q 'populated 1' "$1/cgroup.events"; do sleep 0.05; done
ip link delete "$bridge"
for group; do find "$group" -depth -type d -exec rmdir {} ';'; done
"""


#: What systemd-nspawn writes about its machines stays in their namespace.
_PRIVATE = "mkdir -p /run/systemd/nspawn && mount -t tmpfs tmpfs /run/systemd/nspawn"


class MachineRoom:
    """The control groups and the network of machines, which all end with the block or with this process."""

    def __init__(self) -> None:
        hierarchy = _hierarchy()
        name = f"zkd-{secrets.token_hex(4)}"
        self._groups = [hierarchy / name]
        if _SYSTEMD_CGROUP.is_dir() and hierarchy != _CGROUP2[0]:
            self._groups.append(_SYSTEMD_CGROUP / name)
        for group in self._groups:
            group.mkdir()
        self._bridge, self._network = _new_bridge()
        self._machines = 0
        self._processes: list[subprocess.Popen[str]] = []
        words = ["/bin/sh", "-c", _GUARD, "sh", self._bridge, *map(str, self._groups)]
        self._guard = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=outliving_all_tests(),
        )

    @property
    def name(self) -> str:
        """A name that no other room on this computer has."""
        return self._bridge

    @property
    def gateway(self) -> str:
        """The address of this computer, as machines reach it."""
        return f"{self._network}.1"

    @property
    def newest_address(self) -> str:
        """The address of the machine that was made last."""
        return f"{self._network}.{self._machines + 1}"

    def __enter__(self) -> Self:
        command("ip", "address", "add", f"{self.gateway}/24", "dev", self._bridge)
        command("ip", "link", "set", self._bridge, "up")
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.communicate()
        for process in self._processes:
            process.communicate()

    def group(self, name: str) -> MachineGroup:
        """Return the control groups of one machine."""
        groups = tuple(group / name for group in self._groups)
        for group in groups:
            group.mkdir()
        return MachineGroup(groups)

    def start(self, words: Sequence[str], *, stdin: int, stdout: int | IO[bytes]) -> subprocess.Popen[str]:
        """Start and return a program that ends with this room at the latest; ``stdout`` gets its errors, too."""
        process = subprocess.Popen(
            words, text=True, stdin=stdin, stdout=stdout, stderr=subprocess.STDOUT, env=outliving_the_test()
        )
        self._processes.append(process)
        return process

    def hold(self, directory: Path, layers: Sequence[Path], group: MachineGroup) -> subprocess.Popen[str]:
        """Start and return a process with the namespaces of a machine: its mounted root directory and its network.

        The root directory is ``directory/root``: the changes in ``directory/changes`` above the ``layers``.
        """
        for part in ("root", "changes", "work"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        overlay = f"lowerdir={':'.join(map(str, layers))},upperdir={directory}/changes,workdir={directory}/work"
        mount = (
            f"mount -t overlay overlay -o {overlay} {directory}/root && {_PRIVATE} && echo mounted && read -r _"
        )
        words = group.wrap("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", mount)
        holder = self.start(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        answer = holder.stdout.readline()
        assert answer == "mounted\n", (
            f"a machine needs new namespaces and an overlay file system in {directory}, found: {answer.strip()};"
            " run the tests as root outside of a restricted container"
        )
        self._machines += 1
        self._connect(holder.pid)
        return holder

    def _connect(self, holder: int) -> None:
        end = f"{self._bridge}-{self._machines}"
        command("ip", "link", "add", end, "type", "veth", "peer", "name", "host0", "netns", str(holder))
        command("ip", "link", "set", end, "master", self._bridge, "up")
        inside = ("nsenter", "--target", str(holder), "--net", "ip")
        command(*inside, "link", "set", "lo", "up")
        command(*inside, "address", "add", f"{self.newest_address}/24", "dev", "host0")
        command(*inside, "link", "set", "host0", "up")


class MachineGroup:
    """The control groups of one machine; to kill them has the effect of a power failure on its processes."""

    def __init__(self, groups: Sequence[Path]) -> None:
        self._groups = groups

    def wrap(self, *words: str) -> list[str]:
        """Return a command that runs in these control groups."""
        enter = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
        return ["/bin/sh", "-c", enter, "sh", *map(str, self._groups), "--", *words]

    def kill(self) -> None:
        """Kill all processes at once, and return when they have ended."""
        group = self._groups[0]
        (group / "cgroup.kill").write_text("1")
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text(), "the processes end")


def command(*words: str) -> str:
    """Run a program of this computer and return its output; fail the test if the program fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def _hierarchy() -> Path:
    """Return the unified hierarchy of control groups; fail the test, naming all that machines lack here."""
    found = [place for place in _CGROUP2 if (place / "cgroup.controllers").exists()]
    writable = [place for place in found if os.access(place, os.W_OK)]
    lacking = [
        text
        for text, is_there in (
            ("root", os.geteuid() == 0),
            ("systemd-nspawn (package systemd-container)", shutil.which("systemd-nspawn")),
            ("ip (package iproute2)", shutil.which("ip")),
            (f"control groups of version 2 at {' or '.join(map(str, _CGROUP2))}", found),
            ("control groups that may be written (not those of a restricted container)", writable or not found),
            (f"{IMAGE}, which scripts/test makes with mmdebstrap on Debian and Ubuntu", IMAGE.is_dir()),
        )
        if not is_there
    ]
    assert not lacking, f"cannot boot machines with systemd here; missing: {'; '.join(lacking)}"
    return writable[0]


def _new_bridge() -> tuple[str, str]:
    """Make a bridge; return its name and the first three numbers of its addresses, which no other bridge has."""
    for number in range(256):
        bridge = f"zkdeploy{number}"
        made = subprocess.run(
            ["ip", "link", "add", bridge, "type", "bridge"], capture_output=True, text=True, check=False
        )
        if made.returncode == 0:
            return bridge, f"198.18.{number}"
        assert "exists" in made.stderr, f"cannot make a network for machines with systemd: {made.stderr.strip()}"
    raise AssertionError("cannot make a network for machines with systemd: all 256 bridges exist")
