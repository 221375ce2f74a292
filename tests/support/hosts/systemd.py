"""Replacements for ``systemd-run`` and ``systemctl``, as far as scopes need them.

They behave as those of systemd 239 to 257 in this:

``systemd-run --scope --quiet --collect --unit=NAME.scope --slice=NAME.slice [OPTION] -- PROGRAM ARGUMENT…``
    registers its own process with systemd, which moves it to a new control group, then executes the program in
    its place: process id, working directory, open files and exit status are the program's, and so is the
    environment, to which it adds ``INVOCATION_ID``. A program that is not there is an exit status of 1, as is the
    name of a unit that there is. With ``--collect`` a unit is forgotten when its last process has ended. The
    options are ``--property=SETTING``, which matter only when the machine shuts down.

``systemctl kill --signal=SIGNAL NAME.scope``
    sends the signal to every process in the unit's control group, whatever session or group it is in; it exits
    with a status other than 0 if there is no such unit.

Instead of a control group, an inherited environment variable marks the processes of a unit.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zkdeployment.base.machine import systemd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


_COMMON = """\
#!{python}
import json, os, sys, uuid
import psutil
UNITS = {units!r}
words = sys.argv[1:]
with open(os.path.join(UNITS, "calls"), "a") as calls:
    calls.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")

def members(unit):
    for found in psutil.process_iter():
        try:
            if found.pid != os.getpid() and found.environ().get("UNIT") == unit:
                yield found
        except psutil.Error:
            pass
"""

_RUN = """
options, program = words[:words.index("--")], words[words.index("--") + 1:]
assert options[:3] == ["--scope", "--quiet", "--collect"], options
unit, slice = (word.partition("=")[2] for word in options[3:5])
assert options[3:5] == [f"--unit={unit}", f"--slice={slice}"] and unit.endswith(".scope"), options
settings = ("Before", "TimeoutStopSec")
assert all(word.startswith(tuple(f"--property={name}=" for name in settings)) for word in options[5:]), options
assert len(unit) < 256 and slice.endswith(".slice"), options
if any(members(unit)):
    sys.exit(f"Failed to start transient scope unit: Unit {unit} already exists.")
environment = {**os.environ, "UNIT": unit, "INVOCATION_ID": uuid.uuid4().hex}
os.execvpe(program[0], program, environment)
"""

_CONTROL = """
verb, signal, unit = words
assert verb == "kill" and signal.startswith("--signal=SIG"), words
import signal as signals
found = list(members(unit))
if not found:
    sys.exit(f"Failed to kill unit {unit}: Unit {unit} not loaded.")
for one in found:
    one.send_signal(signals.Signals[signal.partition("=")[2]])
"""


class BootedMachine:
    """The replacements in ``directory``, which record their calls."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._calls = directory / "calls"
        for name, text in (("systemd-run", _RUN), ("systemctl", _CONTROL)):
            program = directory / name
            common = _COMMON.replace("{python}", sys.executable).replace("{units!r}", repr(str(directory)))
            program.write_text(common + text)
            program.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """The command lines of all calls, in order."""
        return [json.loads(line) for line in self._calls.read_text().splitlines()] if self._calls.exists() else []


def boot(directory: Path, monkeypatch: pytest.MonkeyPatch) -> BootedMachine:
    """Make this process detect systemd; write the replacements into ``directory`` and put it on the path."""
    machine = BootedMachine(directory / "systemd")
    monkeypatch.setattr(systemd, "BOOTED", directory)
    monkeypatch.setenv("PATH", str(directory / "systemd"), prepend=":")
    return machine


@contextmanager
def heard(address: Path) -> Iterator[list[str]]:
    """Yield the messages that daemons send to the supervisor at ``NOTIFY_SOCKET``."""
    messages: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(address))

        def listen() -> None:
            while message := supervisor.recv(1000):
                messages.append(message.decode())

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            yield messages
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
                end.sendto(b"", str(address))
            listening.join()
