"""A machine on which a real systemd boots, reboots and loses its power."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from support.hosts.machine_room import IMAGE
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.commands import Done
    from support.hosts.machine_room import MachineRoom

#: The directory of the machines in which all of them see the same files.
SHARED = Path("/srv/fleet")

#: systemd-nspawn's exit status when its machine wants to boot again.
_REBOOT = 133

#: Runs a command again while it ends with the first word as its status and the file, the second word, exists.
_AGAIN = """
wanted=$1 file=$2; shift 2
while :; do
    "$@"; code=$?
    [ $code = $wanted ] && [ -e "$file" ] || exit $code
done
"""

_OPTIONS = (
    "--quiet",
    "--boot",
    "--keep-unit",
    "--register=no",
    "--settings=no",
    "--link-journal=no",
    "--resolv-conf=off",
    "--timezone=off",
    "--console=pipe",
)


class BootedMachine:
    """A machine with the name ``name``, whose files are the ``layers`` and, above them, its own in ``directory``.

    ``layers`` are the changes of machines that are switched off, the newest first; below them is the image. The
    machine sees the directory ``shared`` as ``SHARED``. ``address`` is its address on the network of the machines.
    """

    def __init__(
        self, room: MachineRoom, name: str, directory: Path, *, shared: Path, layers: Sequence[Path] = ()
    ) -> None:
        self.name = name
        self._directory = directory
        self._shared = shared
        self._room = room
        self._group = room.group(name)
        self._holder = room.hold(directory, [*layers, IMAGE], room.group(f"{name}-holder"))
        self.address = room.newest_address
        self._container: subprocess.Popen[str] | None = None

    @property
    def changes(self) -> Path:
        """The layer with this machine's changes."""
        return self._directory / "changes"

    @property
    def comes_back(self) -> bool:
        """Whether the machine boots again by itself when its systemd wants that; set it as you like."""
        return self._returning.exists()

    @comes_back.setter
    def comes_back(self, value: bool) -> None:
        if value:
            self._returning.touch()
        else:
            self._returning.unlink(missing_ok=True)

    @property
    def _returning(self) -> Path:
        return self._directory / "comes-back"

    def start(self) -> None:
        """Switch the machine on; return when all its services have started or failed."""
        holder = f"/proc/{self._holder.pid}"
        words = ["nsenter", f"--mount={holder}/ns/mnt", "systemd-nspawn", *_OPTIONS]
        words += [
            f"--machine={self._room.name}-{self.name}",
            f"--hostname={self.name}",
            f"--directory={self._directory}/root",
        ]
        words += [f"--network-namespace-path={holder}/ns/net", f"--bind={self._shared}:{SHARED}"]
        again = ("/bin/sh", "-c", _AGAIN, "sh", _REBOOT, self._returning)
        with (self._directory / "console").open("ab") as console:
            self._container = self._room.start(
                self._group.wrap("env", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", *map(str, again), *words),
                stdin=subprocess.DEVNULL,
                stdout=console,
            )
        wait_until(self._is_up, f"{self.name} boots")

    def reboot(self) -> None:
        """Let systemd stop all services and boot again; return as ``start`` does."""
        self.run("systemctl", "--no-block", "reboot")
        assert self._ended() == _REBOOT, self._console()
        self.start()

    def stop(self) -> None:
        """Let systemd stop all services and switch the machine off."""
        self.run("systemctl", "--no-block", "poweroff")
        assert self._ended() == 0, self._console()

    def cut_power(self) -> None:
        """End all processes of the machine at once."""
        self._group.kill()
        self._ended()

    def await_off(self) -> None:
        """Return when the machine has switched itself off, or wants to boot and does not come back."""
        assert self._ended() in {0, _REBOOT}, self._console()

    def boot_id(self) -> str | None:
        """Return the id of the present boot; ``None`` while no systemd runs."""
        with contextlib.suppress(StopIteration, psutil.Error, OSError):
            return self.path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return None

    def run(self, *words: object, check: bool = True) -> Done:
        """Run a program on the machine, as a unit of its systemd; with ``check``, fail the test if it fails."""
        unit = (
            "systemd-run",
            "--quiet",
            "--wait",
            "--pipe",
            "--collect",
            "--service-type=exec",
            "--setenv=HOME=/root",
        )
        done = self._enter(*unit, "--", *map(str, words))
        assert not check or done.returncode == 0, f"{self.name}: {words}: {done.stdout}{done.stderr}"
        return done

    def path(self, name: str) -> Path:
        """Return the path by which this computer reaches a file of the running machine."""
        return Path(f"/proc/{self._leader}/root") / name.lstrip("/")

    def unit(self, name: str) -> dict[str, str]:
        """Return the properties of a unit."""
        shown = self._enter("systemctl", "show", name).stdout
        return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)

    def journal(self, unit: str) -> str:
        """Return the log of a unit since the last boot."""
        return self._enter("journalctl", "--boot", "--output=cat", "--unit", unit).stdout

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Add the end of the journal to the message if the test fails in this block."""
        try:
            yield
        except Exception as error:
            error.add_note(f"the journal of {self.name} ends with:\n{self.journal('zkdeployment*')[-6000:]}")
            raise

    def _enter(self, *words: str) -> Done:
        argv = ["nsenter", "--target", str(self._leader), "--all", "--", *words]
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            check=False,
        )

    @property
    def _leader(self) -> int:
        """The process id of the machine's systemd, as this computer sees it."""
        assert self._container is not None
        below: dict[int, tuple[str, int]] = {}
        for child in psutil.Process(self._container.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # processes of the machine end meanwhile
                below[child.pid] = child.name(), child.ppid()
        parents = {pid for pid, (name, _) in below.items() if name == "systemd-nspawn"}
        return next(pid for pid, (name, parent) in below.items() if name == "systemd" and parent in parents)

    def _is_up(self) -> bool:
        assert self._container is not None
        assert self._container.poll() is None, f"{self.name} does not boot: {self._console()}"
        with contextlib.suppress(StopIteration, psutil.Error):
            return self._enter("systemctl", "is-system-running").stdout.strip() in {"running", "degraded"}
        return False

    def _ended(self) -> int:
        assert self._container is not None
        return self._container.wait(300)

    def _console(self) -> str:
        return (self._directory / "console").read_text(encoding="utf-8", errors="replace")[-2000:]
