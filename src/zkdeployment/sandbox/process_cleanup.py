"""Finding and ending every process that belongs to a sandbox, whoever started it, even after a crash.

A process belongs to the sandbox in a directory if its environment says so (agents, scripts and what they
started inherit it), or if it works in, or was given a path of, that directory. Of the latter only those
without a terminal: somebody's shell or editor in the directory is not the sandbox's.
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

#: The variable that holds the sandbox's directory in the environment of all that it starts.
VARIABLE = "ZKDEPLOYMENT_SANDBOX"

_PLACES = (VARIABLE, "ZKDEPLOYMENT_ROOT", "ZKDEPLOYMENT_CONFIG")

_ROUNDS = 20


def sandbox_processes(directory: Path) -> list[psutil.Process]:
    """Return the processes that belong to the sandbox in ``directory``, but for this one and its ancestors."""
    here = str(directory.resolve())
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [found for found in psutil.process_iter() if found.pid not in ours and _belongs(found, here)]


def end_processes(directory: Path, *, grace: float = 2.0) -> None:
    """End all that belongs to the sandbox: SIGTERM, after ``grace`` seconds SIGKILL, until nothing is left.

    The ZooKeeper servers go last and without ceremony, so that all others can end their sessions. Raises
    ``ProgramError`` naming what would not go.
    """
    found = [one for one in sandbox_processes(directory) if not _is_server(one)]
    for one in found:
        _signal(one, kill=False)
    wait_ended(found, grace)
    for _ in range(_ROUNDS):  # What we end may just have started something else.
        found = sandbox_processes(directory)
        if not found:
            return
        for one in found:
            _signal(one, kill=True)
        wait_ended(found, grace)
    names = ", ".join(f"{one.pid}" for one in found)
    raise ProgramError(f"processes of the sandbox in {directory} would not end: {names}")


def _signal(target: psutil.Process, *, kill: bool) -> None:
    try:
        if kill:
            target.kill()
        else:
            target.terminate()
    except psutil.Error:
        pass  # It went by itself, or is not ours to end: the next look tells.


def _is_server(found: psutil.Process) -> bool:
    try:
        return found.name() == "java"
    except psutil.Error:
        return False


def _belongs(found: psutil.Process, here: str) -> bool:
    try:
        if has_ended(found) or _has_terminal(found):
            return False
        return any(_inside(place, here) for place in _places(found, here))
    except (psutil.Error, OSError):
        return False  # Gone meanwhile, or somebody else's.


def _has_terminal(found: psutil.Process) -> bool:
    # psutil knows only terminals that it finds under /dev; the kernel says it in the seventh field.
    fields = Path(f"/proc/{found.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    return fields.split()[4] != "0"


def _places(found: psutil.Process, here: str) -> Iterator[str]:
    environment = found.environ()
    yield from (environment[name] for name in _PLACES if name in environment)
    yield found.cwd()
    for word in found.cmdline():
        # ``sandbox status -d DIR`` talks about the sandbox; ``--installroot=DIR/hosts/…`` works in it.
        value = word.partition("=")[2] if word.startswith("-") else word
        if value != here:
            yield value


def _inside(place: str, here: str) -> bool:
    return place == here or place.startswith(here + os.sep)
