"""Gives dnf's variable ``release``, which addresses of repositories contain, a value for one call of dnf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.command import VARIABLES
from zkdeployment.base.machine import files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.agent.packages.command import DnfCommand

#: The directories of the variables of the machine's own dnf.
_VARIABLES = ("/etc/yum/vars", "/etc/dnf/vars")


def release_options(dnf: DnfCommand, root: Path, release: str, directory: Path) -> Sequence[str]:
    """Return the options with which ``dnf`` for ``root`` uses a release; dnf 4 reads it below ``directory``."""
    if dnf.replays.generation == 5:
        return [f"--setvar=release={release}"]
    variables = directory / "vars"
    variables.mkdir(parents=True, exist_ok=True)
    files.replace(variables / "release", f"{release}\n".encode())
    others = _VARIABLES if root == Path("/") else [str(root / VARIABLES)]
    return [f"--setopt=varsdir={','.join([*others, str(variables)])}"]
