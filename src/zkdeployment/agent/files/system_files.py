"""The operating system of a host: what the host has completed of its system node, its boot, and its reboot."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError, ProgramError, RebootError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import process
from zkdeployment.base.machine.files import JsonFile
from zkdeployment.base.machine.reboots import SystemState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BOOT_ID = Path("proc/sys/kernel/random/boot_id")

#: Seconds after which a reboot command that has not ended is killed.
_PATIENCE = 60.0


def _none_asks() -> tuple[str, ...]:
    return ()


@dataclass(eq=False, repr=False)
class SystemFiles:
    """The operating system below ``root``. Reads and writes raise ``HostFilesError``.

    ``may_reboot`` is whether the configuration permits reboots, ``command`` the command that reboots the host.
    ``asking`` returns the packages that ask for a reboot.
    """

    root: Path
    may_reboot: bool = False
    command: Sequence[str] = ("systemctl", "reboot")
    asking: Callable[[], tuple[str, ...]] = _none_asks
    _file: JsonFile[SystemState] = field(init=False)

    def __post_init__(self) -> None:
        file = self.root / "var" / "lib" / "zkdeployment" / "system"
        self._file = JsonFile(file, SystemState.from_json, SystemState.to_json, expected="the state of the system")

    def state(self) -> SystemState:
        """Return the completed work; a damaged file counts as missing, so that updates are repeated."""
        return self._file.load() or SystemState()

    def save(self, state: SystemState) -> None:
        """Record what the host has completed, durably."""
        if state != self.state():
            self._file.save(state)

    def boot_id(self) -> str:
        """Return the id of the present boot."""
        for place in (self.root / _BOOT_ID, Path("/") / _BOOT_ID):
            try:
                return place.read_text(encoding="ascii").strip()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise HostFilesError(f"cannot read the boot id {place}: {error}") from error
        raise HostFilesError(f"this machine has no boot id: expected it in /{_BOOT_ID}")

    def reboot(self) -> None:
        """Call the command that reboots the host; raises ``RebootError`` if it fails."""
        get_logger().warning("reboot", command=list(self.command))
        try:
            process.run(self.command, timeout=_PATIENCE).check()
        except ProgramError as error:
            raise RebootError(
                f"the host cannot reboot: {error}; correct reboot-command or the rights of the agent, or set"
                " reboots = no to reboot the host by hand"
            ) from error
