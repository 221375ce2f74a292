"""The sandbox's ZooKeeper: one server, or three that elect a leader."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from zkdeployment.errors import ProgramError
from zkdeployment.sandbox.zookeeper import ZooKeeperServer, find_installation, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.sandbox.layout import Layout

_ATTEMPTS = 3


def start_ensemble(layout: Layout, count: int) -> dict[int, tuple[int, int, int]]:
    """Start ``count`` new servers on free ports, and return these ports when all servers serve.

    Raises ``ProgramError`` with the end of a server's log.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        ports = {number: (free_port(), free_port(), free_port()) for number in range(1, count + 1)}
        started = servers(layout, ports)
        try:
            for server in started:
                server.start(wait=False)
            for server in started:
                server.wait()
        except ProgramError:
            # Another program may have taken a port before the server did, so the next attempt uses other ports.
            for server in started:
                server.kill()
            if attempt == _ATTEMPTS:
                raise
            for server in started:
                shutil.rmtree(server.directory, ignore_errors=True)  # some servers may not have created theirs
        else:
            return ports
    raise AssertionError


def servers(layout: Layout, ports: Mapping[int, tuple[int, int, int]]) -> list[ZooKeeperServer]:
    """Return the servers in the order of their numbers, running or not."""
    installation = find_installation()
    several = {
        number: f"127.0.0.1:{peers}:{election}" for number, (_, peers, election) in ports.items() if len(ports) > 1
    }
    return [
        ZooKeeperServer(installation, layout.server(number), port=client, number=number, ensemble=several)
        for number, (client, _, _) in sorted(ports.items())
    ]
