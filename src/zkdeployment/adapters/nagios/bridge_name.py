"""The name of a bridge, by which the service knows it again."""

from __future__ import annotations

import re
import socket
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LONGEST = 200


def bridge_name(objects: Path) -> str:
    """Return a name that a bridge keeps when it starts again, and that no bridge of another machine has.

    The name contains the machine, the directory of objects, and the boot, which tells copies of a machine apart.
    """
    try:
        boot = _BOOT_ID.read_text(encoding="ascii")
    except (OSError, ValueError):
        boot = "unknown"
    return re.sub(r"[^ -~]", "?", f"{socket.gethostname()}:{objects} ({boot[:8]})")[-_LONGEST:]
