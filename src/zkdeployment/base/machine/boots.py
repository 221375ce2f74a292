"""The id of the present boot of a machine or a container."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_BOOT_ID = Path("sys/kernel/random/boot_id")
_INIT = Path("1/stat")

#: The place of the start time among the fields of ``/proc/PID/stat`` that follow the name of the program.
_STARTED = 19


def read_boot_id(proc: Path = Path("/proc")) -> str:
    """Return the id of the present boot, which begins with the id of the kernel's boot.

    Raises ``OSError`` or ``UnicodeDecodeError`` if the kernel's id cannot be read.
    """
    init = ""
    with suppress(OSError, UnicodeDecodeError):  # processes of other users may be hidden
        init = (proc / _INIT).read_text(encoding="ascii")
    return compose_boot_id((proc / _BOOT_ID).read_text(encoding="ascii"), init)


def compose_boot_id(kernel: str, init: str) -> str:
    """Return the id of a boot, from the id of the kernel's boot and the ``/proc/1/stat`` of process 1, if known.

    Containers such as those of LXC share the id of the kernel. When process 1 began, in ticks of the kernel,
    distinguishes their boots. On a machine, that number is the same as long as the kernel runs.
    """
    fields = init.rpartition(")")[2].split()
    return "-".join([kernel.strip(), *fields[_STARTED : _STARTED + 1]])
