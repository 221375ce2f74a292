"""ZooKeeper connection strings: servers, with an optional chroot."""

from __future__ import annotations

import re

_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(?P<port>[0-9]{1,10}))?")
_CHROOT = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._+:@~=-]+)+")


def connection_problem(connection: str) -> str | None:
    """Return the reason why a connection string is invalid; ``None`` for a valid one."""
    servers, slash, chroot = connection.partition("/")
    for server in servers.split(","):
        match = _SERVER.fullmatch(server)
        if match is None:
            return f"expected HOST:PORT[,HOST:PORT…][/CHROOT], found {connection!r}"
        if match["port"] is not None and not 0 < int(match["port"]) < 65536:
            return f"expected a port from 1 to 65535 in {server!r}, found {match['port']}"
    if slash and chroot and _CHROOT.fullmatch(f"/{chroot}") is None:
        return f"expected a path like /chroot after the servers, found {'/' + chroot!r}"
    return None
