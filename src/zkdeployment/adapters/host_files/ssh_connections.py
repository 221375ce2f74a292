"""The SSH connections to this host: the processes of its sshd, besides the one that listens."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROCESSES = Path("/proc")

#: The beginnings of the titles that sshd gives the processes of connections, and a part of its listener's title.
_TITLES = (b"sshd: ", b"sshd-session: ")
_LISTENER = b"[listener]"


def end_connections(root: Path) -> None:
    """End the connections to the host whose root directory is ``root``, but not one that this process belongs to.

    A process counts only if its root directory is ``root``: that excludes the containers on the host. For a
    directory that stands for ``/``, it excludes the machine's own connections.
    """
    ended = 0
    own = set(_ancestors())
    for process in _PROCESSES.iterdir():
        if process.name.isdecimal() and int(process.name) not in own and _is_connection(process, root):
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(int(process.name), signal.SIGTERM)
                ended += 1
    if ended:
        get_logger().info("ssh-connections-ended", processes=ended)


def _is_connection(process: Path, root: Path) -> bool:
    try:
        title = (process / "cmdline").read_bytes()
        return title.startswith(_TITLES) and _LISTENER not in title and (process / "root").samefile(root)
    except OSError:
        return False


def _ancestors() -> Iterator[int]:
    """Yield the ids of this process and those above it."""
    process = os.getpid()
    while process > 1:
        yield process
        try:
            lines = (
                (_PROCESSES / str(process) / "status").read_text(encoding="ascii", errors="replace").splitlines()
            )
        except OSError:
            return
        process = next((int(line.split()[1]) for line in lines if line.startswith("PPid:")), 0)
