"""The command with which hosts of a chaos run reboot: it records the reboot, and then reboots the host, or not.

A host with a file ``lost-HOST`` in the shared directory goes down, and does not come back by itself. The arguments
are the directory of the sandbox, the id of the host, and the command that reboots it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main(directory: Path, host: str, reboot: list[str]) -> int:
    """Record and perform a reboot, and return the exit status of its command."""
    shared = directory / "shared"
    state = directory / "hosts" / host / "root/var/lib/zkdeployment/system"
    pending = json.loads(state.read_text(encoding="utf-8"))["pending"]
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    words = ["down", f"{now:.2f}", host, "reboot", pending["path"], pending["n"], "-"]
    words += [pending["revision"], "-", os.getpid(), pending["count"]]
    with (shared / "record").open("a", encoding="utf-8") as record:
        record.write(" ".join(map(str, words)) + "\n")
    if not (shared / f"lost-{host}").exists():
        return subprocess.run(reboot, check=False).returncode
    stop = [sys.executable, "-m", "zkdeployment", "sandbox", "stop", host, "-d", str(directory)]
    with (directory / "reboots.log").open("ab") as log:  # this process is one of those that end
        subprocess.Popen(
            stop, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
