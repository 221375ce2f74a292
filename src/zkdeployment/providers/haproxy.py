"""Decides which commands make the servers of a running HAProxy equal to those of its file, without a reload.

The file states which servers are in use, and their weights. A server that the file no longer has is drained, so
that open connections last, and a server that the file has again is used again. Each other change needs a reload.
The exchange with HAProxy belongs to ``haproxy_socket``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The most characters of an answer in a message.
_MOST_CHARACTERS = 200

#: The words that begin a section of HAProxy's configuration, and those of sections with servers that get requests.
_SECTIONS = frozenset(
    b"acme backend cache crt-store defaults dynamic-update fcgi-app frontend global http-errors listen log-forward"
    b" log-profile mailers peers program resolvers ring traces userlist".split()
)
_WITH_SERVERS = frozenset({b"backend", b"listen"})

#: The names of sections and servers that HAProxy permits; none of their characters has a meaning in a command.
_NAME = re.compile(rb"[A-Za-z0-9_.:-]{1,200}")

#: The characters with which a word of HAProxy's configuration means something else than its text.
_SPECIAL = frozenset(b"\"'\\$#")

_LARGEST_WEIGHT = 256

#: The flags of a server that was disabled and drained by a command.
_DISABLED = 1
_DRAINED = 8

#: The version of the answer to ``show servers state``, the one without the section, and the needed columns.
_STATE_FORM = "1"
_NO_SECTION = "Can't find backend."
_NAME_COLUMN = "srv_name"
_NUMBERS = ("srv_admin_state", "srv_uweight", "srv_check_state", "srv_agent_state")


class ReloadNeededError(ProgramError):
    """The running HAProxy cannot be changed through its socket; the text is the cause."""


class SocketUnusableError(ReloadNeededError):
    """The socket of HAProxy is missing, denies the access, refuses a command, or has no answer in time."""


class ServerLine(NamedTuple):
    """The words of a server's line with ``*`` in place of its weight, and the number of other lines before it.

    ``weight`` is ``None`` if the line states none.
    """

    words: tuple[bytes, ...]
    before: int
    weight: int | None


@dataclass(frozen=True, slots=True)
class HaproxyFile:
    """A file of HAProxy: the servers by ``SECTION/NAME``, and its other lines without comments."""

    servers: Mapping[str, ServerLine]
    others: tuple[bytes, ...]

    @property
    def sections(self) -> list[str]:
        """The sections of the servers."""
        return sorted({name.partition("/")[0] for name in self.servers})


def read_file(content: bytes) -> HaproxyFile:
    """Return the servers of a file; a line that is not plainly that of a server is another line."""
    servers: dict[str, ServerLine] = {}
    others: list[bytes] = []
    section: bytes | None = None
    for line in content.split(b"\n"):
        words = line.split()
        if not words or words[0].startswith(b"#"):
            continue
        if words[0] in _SECTIONS:
            has_servers = words[0] in _WITH_SERVERS and len(words) > 1 and _NAME.fullmatch(words[1])
            section = words[1] if has_servers else None
        elif section is not None and words[0] == b"server" and _is_plain(line, words):
            name = f"{section.decode()}/{words[1].decode()}"
            if name not in servers:
                servers[name] = _server_line(words, len(others))
                continue
        others.append(line.strip())
    return HaproxyFile(servers, tuple(others))


def _is_plain(line: bytes, words: Sequence[bytes]) -> bool:
    return len(words) > 2 and _NAME.fullmatch(words[1]) is not None and _SPECIAL.isdisjoint(line)


def _server_line(words: Sequence[bytes], before: int) -> ServerLine:
    """Return the line of a server; a line with several weights or a wrong one states none."""
    places = [place for place, word in enumerate(words) if word == b"weight" and place > 2]
    value = words[places[0] + 1] if len(places) == 1 and places[0] + 1 < len(words) else b""
    if not re.fullmatch(rb"[0-9]{1,3}", value) or int(value) > _LARGEST_WEIGHT:
        return ServerLine(tuple(words), before, None)
    place = places[0] + 1
    return ServerLine((*words[:place], b"*", *words[place + 1 :]), before, int(value))


class RunningServer(NamedTuple):
    """A server of the running HAProxy: its flags and its weight.

    ``check`` is 0 if HAProxy does not check the server, and ``agent`` if HAProxy asks no agent for its weight.
    """

    flags: int
    weight: int
    check: int
    agent: int


def read_state(section: str, answer: str) -> Iterator[tuple[str, RunningServer]]:
    """Yield the servers in an answer to ``show servers state``; raises ``SocketUnusableError`` for another one."""
    if answer.strip() == _NO_SECTION:
        return
    form, header, *lines = [*answer.split("\n"), ""]
    if form != _STATE_FORM or not header.startswith("# "):
        raise SocketUnusableError(f"expected the servers of {section} from HAProxy, found {first_line(answer)}")
    columns = header[2:].split(" ")
    for line in filter(None, lines):
        cells = dict(zip(columns, line.split(" "), strict=False))
        try:
            server = RunningServer(*(int(cells[column]) for column in _NUMBERS))
            name = cells[_NAME_COLUMN]
        except (KeyError, ValueError):
            raise SocketUnusableError(
                f"expected the state of a server of {section} from HAProxy, found {first_line(line)}"
            ) from None
        yield f"{section}/{name}", server


def first_line(answer: str) -> str:
    """Return the first line of an answer of HAProxy for a message."""
    return ascii(answer.strip().partition("\n")[0][:_MOST_CHARACTERS])


def needed_commands(
    wanted: HaproxyFile, loaded: HaproxyFile, running: Mapping[str, RunningServer]
) -> tuple[str, ...]:
    """Return the commands that make the running servers equal to those of a file.

    ``loaded`` is the file of the last reload: the commands may drain its servers, and no others. A server that an
    operator disabled stays disabled. Raises ``ReloadNeededError`` if the difference is not only one of servers in
    use and weights.
    """
    if wanted.others != loaded.others:
        raise ReloadNeededError("other lines than those of servers differ from the file of the last reload")
    weights, uses = [], []
    for name, line in wanted.servers.items():
        if (former := loaded.servers.get(name)) is None or former[:2] != line[:2]:
            raise ReloadNeededError(f"the line of server {name} differs from the file of the last reload")
        server = _found_server(name, running)
        if line.weight is not None and line.weight != server.weight:
            weights.append(f"set server {name} weight {line.weight}")
        if server.flags & _DRAINED:
            uses.append(f"set server {name} state ready")
            if server.check:  # as after a reload: the next checks decide
                uses.append(f"set server {name} health up")
    gone = sorted((loaded.servers.keys() - wanted.servers.keys()) & running.keys())
    drains = [
        f"set server {name} state drain"
        for name in gone
        if not _found_server(name, running).flags & (_DRAINED | _DISABLED)
    ]
    return (*weights, *uses, *drains)


def _found_server(name: str, running: Mapping[str, RunningServer]) -> RunningServer:
    if (server := running.get(name)) is None:
        raise ReloadNeededError(f"the running HAProxy has no server {name}")
    if server.agent:
        raise ReloadNeededError(f"an agent of HAProxy decides the weight and the state of server {name}")
    return server
