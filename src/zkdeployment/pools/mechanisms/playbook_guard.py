"""The program that runs one playbook, and ends it and all its programs when its worker is gone.

The arguments are ``PLACE DESCRIPTOR``. ``PLACE`` is the directory of the run, with the file ``job.json``; the
result is written to ``outcome.json``. The worker writes the number of seconds that the playbook may still run into
a pipe, whose reading end is ``DESCRIPTOR``. When that time is over, and when the worker closes the pipe or dies,
the playbook is killed. Programs that a playbook leaves behind become children of the guard. If the playbook failed
or was killed, the guard ends only after all of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ansible_runner
import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The names of the files in the directory of a run.
JOB = "job.json"
OUTCOME = "outcome.json"

#: ``PR_SET_CHILD_SUBREAPER`` of ``prctl``: orphans below this process become its children.
_SUBREAPER = 36

#: The names of the module that sets facts.
_SET_FACT = frozenset({"set_fact", "ansible.builtin.set_fact", "ansible.legacy.set_fact"})

#: Seconds between two attempts to kill programs, and between two reads of the clock.
_AGAIN = 0.05
_LOOK = 0.25

#: The most bytes that are read from the pipe at once.
_CHUNK = 65536


class RunningTime:
    """The permission to run, which the worker extends through a pipe; ``is_over`` becomes true once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._deadline = _now() + float(os.read(descriptor, _CHUNK).split()[-1])
        self._over = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the playbook must end."""
        return self._over.is_set()

    def watch(self) -> None:
        """Read extensions until the permission is over, then kill all programs below this one."""
        while _now() < self._deadline:
            if select.select([self._descriptor], [], [], _LOOK)[0]:
                given = os.read(self._descriptor, _CHUNK)
                if not given:
                    break
                self._deadline = _now() + float(given.split()[-1])
        self._over.set()
        end_programs()


def end_programs() -> None:
    """Kill all programs below this one, until none is left."""
    while programs := [child for child in psutil.Process().children(recursive=True) if _is_alive(child)]:
        for program in programs:
            with contextlib.suppress(psutil.Error):
                program.kill()
        time.sleep(_AGAIN)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _now() -> float:
    """Return seconds that also pass while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _last_output(events: Sequence[Any]) -> tuple[bool, object]:
    """Return whether the fact was set, and its last value."""
    for event in reversed(events):
        data = event.get("event_data") or {}
        result = data.get("res") or {}
        if event.get("event") == "runner_on_ok" and data.get("task_action") in _SET_FACT:
            facts = result.get("ansible_facts") or {}
            if "duffy_out" in facts:
                return True, facts["duffy_out"]
    return False, None


def _lines(events: Iterable[Any]) -> list[str]:
    return [line for event in events for line in str(event.get("stdout", "")).splitlines() if line.strip()]


def main() -> None:
    """Run the playbook and write its outcome."""
    place, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the worker decides when the playbook ends
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(descriptor, False)
    permission = RunningTime(descriptor)
    watching = threading.Thread(target=permission.watch, daemon=True)
    watching.start()
    job = json.loads((place / JOB).read_text(encoding="utf-8"))
    run = ansible_runner.run(
        private_data_dir=str(place),
        json_mode=True,
        quiet=True,
        cancel_callback=lambda: permission.is_over,
        **job,
    )
    if permission.is_over or run.status != "successful":
        end_programs()
    events = list(run.events)
    found, output = _last_output(events)
    outcome = {
        "successful": run.status == "successful" and not permission.is_over,
        "rc": run.rc,
        "found": found,
        "output": output,
        "lines": _lines(events),
    }
    (place / OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")


if __name__ == "__main__":
    main()
