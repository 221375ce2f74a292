"""A shell for pages of the manual that start a sandbox, with a home directory of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support.manual import HERE, Shell
from support.sandboxes import SandboxCommands, ended_with_the_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The default directory of the sandbox, relative to the home directory.
SANDBOX = ".local/state/zkdeployment/sandbox"


@contextmanager
def opened_shell(place: Path) -> Iterator[Shell]:
    """Yield a shell with its own checkout and home directory; a sandbox that it started is ended."""
    home = Path(tempfile.mkdtemp(dir=place))
    checkout = home / "checkout"
    checkout.mkdir()
    (checkout / ".venv").symlink_to(sys.prefix)
    (checkout / "etc").symlink_to(HERE / "etc")
    ours = {**os.environ, "HOME": str(home), "SHELL": "/bin/bash", "COLUMNS": "200"}
    foreign = ("ZKDEPLOYMENT_", "ZC_ZK_", "XDG_")
    with ended_with_the_tests(home / SANDBOX):
        shell = Shell(checkout, {name: value for name, value in ours.items() if not name.startswith(foreign)})
        try:
            yield shell
        finally:
            shell.close()
            SandboxCommands(home / SANDBOX).sandbox("down")
