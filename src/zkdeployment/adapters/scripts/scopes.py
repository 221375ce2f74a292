"""Scopes: where programs run that must not end with the agent.

systemd ends a service by ending its control group, whoever started what is in there. So where systemd runs the
machine, a program that has to outlive the agent gets a scope: a unit with a control group of its own, while the
program stays our child. Elsewhere its own session and process group, which every such program has, are all there
is.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from zkdeployment.adapters import process
from zkdeployment.errors import ProgramError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from signal import Signals

#: It exists where systemd is process 1: what sd_booted(3) looks at.
BOOTED = Path("/run/systemd/system")

#: One place for ``systemctl status`` and ``systemd-cgls`` to show all of them, and the services they left running.
_SLICE = "system-zkdeployment.slice"

_PATIENCE = 20.0  # seconds for systemd to pass on a signal


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope by the name of its ``unit``; ``None`` where there is no systemd."""

    unit: str | None = None

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` in this scope.

        It becomes the program: process id, output and exit status are the program's own.
        """
        if self.unit is None:
            return list(argv)
        options = ["--scope", "--quiet", "--collect", f"--unit={self.unit}", f"--slice={_SLICE}"]
        return ["systemd-run", *options, "--", *argv]

    def signal(self, group: int, number: Signals) -> None:
        """Send a signal to all that is in this scope, else to the process group ``group``."""
        if self.unit is not None:
            try:
                process.run(["systemctl", "kill", f"--signal={number.name}", self.unit], timeout=_PATIENCE).check()
            except ProgramError as error:  # It has ended meanwhile, or systemd does not answer.
                get_logger().debug("scope-not-signalled", unit=self.unit, reason=str(error))
            else:
                return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)


def new_scope(name: str) -> Scope:
    """Return a scope for one program, called after ``name``, that is no other's.

    Only root may have one of the system's systemd.
    """
    if os.geteuid() != 0 or not BOOTED.is_dir() or shutil.which("systemd-run") is None:
        return Scope()
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-.")[:100]
    return Scope(f"zkdeployment-{words}-{uuid4().hex}.scope")
