"""Finding and ending all processes of a sandbox, also processes of crashed members.

A process belongs to the sandbox in a directory if its environment names the directory (agents, scripts and their
children inherit it), or if its working directory or an argument is in that directory. A process with a terminal
does not belong to the sandbox: it may be a user's shell or editor.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from zkdeployment.errors import ProgramError
from zkdeployment.sandbox.background import has_ended, wait_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The variable with the sandbox's directory, in the environment of all processes that the sandbox starts.
VARIABLE = "ZKDEPLOYMENT_SANDBOX"

_PLACES = (VARIABLE, "ZKDEPLOYMENT_ROOT", "ZKDEPLOYMENT_CONFIG")

_ROUNDS = 20


def sandbox_processes(directory: Path) -> list[psutil.Process]:
    """Return the processes of the sandbox in ``directory``, except this process and its ancestors."""
    here = str(directory.resolve())
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [target for target in psutil.process_iter() if target.pid not in ours and _belongs(target, here)]


def end_processes(directory: Path, *, grace: float = 2.0) -> None:
    """End all processes of the sandbox: with SIGTERM, and after ``grace`` seconds with SIGKILL.

    The ZooKeeper servers are killed last, so that all other processes can close their sessions. Raises
    ``ProgramError`` with the ids of processes that did not end.
    """
    targets = [target for target in sandbox_processes(directory) if not _is_server(target)]
    for target in targets:
        _signal(target, kill=False)
    wait_ended(targets, grace)
    for _ in range(_ROUNDS):  # an ended process may have started others just before
        targets = sandbox_processes(directory)
        if not targets:
            return
        for target in targets:
            _signal(target, kill=True)
        wait_ended(targets, grace)
    pids = ", ".join(f"{target.pid}" for target in targets)
    raise ProgramError(f"processes of the sandbox in {directory} did not end after SIGKILL: {pids}")


def _signal(target: psutil.Process, *, kill: bool) -> None:
    try:
        if kill:
            target.kill()
        else:
            target.terminate()
    except psutil.Error:
        pass  # It ended by itself, or belongs to another user; the next round decides.


def _is_server(target: psutil.Process) -> bool:
    try:
        return target.name() == "java"
    except psutil.Error:
        return False


def _belongs(target: psutil.Process, here: str) -> bool:
    try:
        if has_ended(target) or _has_terminal(target):
            return False
        return any(_inside(place, here) for place in _places(target, here))
    except (psutil.Error, OSError):
        return False  # It has ended, or belongs to another user.


def _has_terminal(target: psutil.Process) -> bool:
    # psutil knows only terminals under /dev; the kernel's seventh field is set for all terminals.
    fields = Path(f"/proc/{target.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return fields.split()[4] != "0"


def _places(target: psutil.Process, here: str) -> Iterator[str]:
    environment = target.environ()
    yield from (environment[name] for name in _PLACES if name in environment)
    yield target.cwd()
    for word in target.cmdline():
        # ``sandbox status -d DIR`` only refers to the sandbox; ``--installroot=DIR/hosts/…`` works in it.
        value = word.partition("=")[2] if word.startswith("-") else word
        if value != here:
            yield value


def _inside(place: str, here: str) -> bool:
    return place == here or place.startswith(here + os.sep)
