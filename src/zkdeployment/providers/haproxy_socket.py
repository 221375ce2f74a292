"""The door to the socket of a running HAProxy: changes of its servers, in place of a reload.

Nothing depends on what the socket was told before: each change compares the file with the servers of the running
HAProxy. Writing the file and reloading belong to ``balancers``.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.log import get_logger
from zkdeployment.providers.haproxy import (
    HaproxyFile,
    ReloadNeededError,
    RunningServer,
    SocketUnusableError,
    first_line,
    needed_commands,
    read_file,
    read_state,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Seconds for all commands of one exchange with the socket, the most bytes of an answer, and of a single read.
_LIMIT = 10.0
_MOST_BYTES = 1 << 23
_AT_ONCE = 1 << 16

#: Seconds after which a reload that has not replaced the process of HAProxy was ignored.
_REPLACED_WITHIN = 30.0

_INFO = "show info"


class RuntimeSocket:
    """The door to the socket of a running HAProxy: an exchange is bounded in time, and an answer in size."""

    def __init__(self, path: Path, limit: float = _LIMIT) -> None:
        self.path, self._limit = path, limit

    def ask(self, commands: Sequence[str]) -> list[str]:
        """Return the answers to commands, each given on a connection of its own.

        Raises ``SocketUnusableError``; then the commands before have been carried out.
        """
        deadline = time.monotonic() + self._limit
        try:
            return [self._answer(command, deadline) for command in commands]
        except TimeoutError:
            problem = f"expected answers within {self._limit:g} seconds, found none"
        except OSError as error:
            problem = error.strerror or str(error)
        raise SocketUnusableError(f"cannot use the socket {self.path} of HAProxy: {problem}")

    def _answer(self, command: str, deadline: float) -> str:
        content = bytearray()
        with socket.socket(socket.AF_UNIX) as channel:
            channel.settimeout(_left(deadline))
            channel.connect(str(self.path))
            channel.sendall(f"{command}\n".encode("ascii"))
            while True:
                channel.settimeout(_left(deadline))
                part = channel.recv(_AT_ONCE)
                if not part:
                    return content.decode("utf-8", errors="replace")
                content += part
                if len(content) > _MOST_BYTES:
                    raise OSError(f"expected an answer of at most {_MOST_BYTES} bytes, found more")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Reading(NamedTuple):
    """The servers of the running HAProxy, and the process that has them."""

    process: str
    servers: Mapping[str, RunningServer]


class RunningServers:
    """Keeps the servers of the running HAProxy equal to those of its file, through its socket.

    The caller reloads HAProxy when this is not possible. A reload may return before a new process has replaced the
    old one; until then, a change would be lost with the old process, and is refused. A reload has ``patience``
    seconds for that.
    """

    def __init__(self, socket: RuntimeSocket, patience: float = _REPLACED_WITHIN) -> None:
        self._socket, self._patience = socket, patience
        self._content = b""
        self._loaded = read_file(self._content)
        self._replaced: str | None = None
        self._awaited_until = 0.0
        self._repeats = False

    def begin_reload(self, content: bytes) -> None:
        """Note that the caller reloads HAProxy with this file now."""
        if content != self._content:
            self._content, self._loaded, self._repeats = content, read_file(content), True
        try:
            self._replaced = _process_in(*self._socket.ask([_INFO]))
        except SocketUnusableError:
            self._replaced = None
        self._awaited_until = time.monotonic() + self._patience

    def change(self, content: bytes) -> None:
        """Make the running servers equal to those of a new file; raises ``ReloadNeededError``."""
        reading = self._read()
        self._check_replaced(reading)
        self._obey(read_file(content), reading)

    def restore(self, content: bytes) -> bool:
        """Make the running servers equal to those of the file again; return false if HAProxy has to be reloaded.

        Others may have changed the servers, or reloaded HAProxy during a change of the file, and HAProxy ignores
        the request for a reload during another one. A reload that did not help is not repeated.
        """
        try:
            reading = self._read()
        except SocketUnusableError:
            return True  # nothing can be compared; HAProxy reads the file when it starts
        if reading.process == self._replaced and time.monotonic() < self._awaited_until:
            return True
        try:
            self._check_replaced(reading)
            self._obey(read_file(content), reading)
        except ReloadNeededError as error:
            repeats, self._repeats = self._repeats, False
            if repeats:
                get_logger().warning("balancer-differs", socket=str(self._socket.path), reason=str(error))
            return not repeats
        return True

    def _check_replaced(self, reading: _Reading) -> None:
        if reading.process == self._replaced:
            raise ReloadNeededError(
                f"process {reading.process} of HAProxy has not been replaced since the last reload"
            )

    def _obey(self, wanted: HaproxyFile, reading: _Reading) -> None:
        commands = needed_commands(wanted, self._loaded, reading.servers)
        for command, answer in zip(commands, self._socket.ask(commands), strict=True):
            if answer.strip():
                raise SocketUnusableError(f"HAProxy refused {command!r}: {first_line(answer)}")
        if commands:
            if remaining := needed_commands(wanted, self._loaded, self._read().servers):
                raise SocketUnusableError(f"HAProxy did not carry out {remaining[0]!r}")
            get_logger().info("balancer-servers-changed", socket=str(self._socket.path), commands=len(commands))
        self._repeats = True

    def _read(self) -> _Reading:
        sections = self._loaded.sections
        info, *states = self._socket.ask([_INFO, *(f"show servers state {name}" for name in sections)])
        servers = (pair for name, state in zip(sections, states, strict=True) for pair in read_state(name, state))
        return _Reading(_process_in(info), dict(servers))


def _process_in(info: str) -> str:
    """Return the process in an answer to ``show info``: its id, and its start, since ids are used again."""
    facts = dict(line.partition(": ")[::2] for line in info.split("\n"))
    process = " ".join(filter(None, (facts.get("Pid"), facts.get("Start_time_sec"))))
    if not process:
        raise SocketUnusableError(f"expected the process of HAProxy from its socket, found {first_line(info)}")
    return process
