"""The network between processes and the servers, and the faults of both."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any
from unittest import mock

from simulation.ensemble import Ensemble
from simulation.green import Killed, Scheduler
from simulation.machine_time import SimulatedModules
from simulation.requests import is_write
from simulation.simulated_client import SimulatedClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from simulation.ensemble import Server
    from simulation.green import Process


class Network:
    """Connects clients with servers.

    ``distance`` multiplies the time that messages take. ``lost`` is the share of writes whose request or answer is
    lost with the connection, ``crashes`` the share of writes at which the client's process is killed.
    """

    def __init__(self, chance: Random, *, servers: int = 3, scheduler: Scheduler | None = None) -> None:
        self.chance = chance
        self.scheduler = scheduler or Scheduler(chance)
        self.modules = SimulatedModules(self.scheduler, chance)
        self.ensemble = Ensemble(self.scheduler, chance, servers=servers)
        self.clients: dict[Process, dict[SimulatedClient, None]] = {}
        self.distance = 1.0
        self.lost = 0.0
        self.crashes = 0.0
        self.unreachable: dict[Process, float] = {}
        self.slowness: dict[Server, float] = {}
        self.elections = 0
        self._elected_at = 0.0
        self.slow_until: dict[Server, float] = {}
        self._denied: dict[str, float] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Let the code under test use this network and its time during the block."""
        connection = "zkdeployment.zookeeper.connection"
        with (
            self.modules.installed(),
            mock.patch(f"{connection}.KazooClient", self.make_client),
            mock.patch(f"{connection}.probe"),
            mock.patch(f"{connection}.newest_transaction", return_value=None),
            mock.patch(f"{connection}.ThreadHandler"),
        ):
            yield

    def make_client(self, **options: Any) -> SimulatedClient:
        """Return a new client of the running process."""
        process = self.scheduler.process
        assert process is not None, "only green threads make clients"
        process.check()
        options.pop("handler", None)  # that of threads
        return self.client_of(process, **options)

    def client_of(self, process: Process, **options: Any) -> SimulatedClient:
        """Return a new client of a process."""
        return SimulatedClient(self, process, **options)

    def carry(self, _client: SimulatedClient, _request: Any, due: float, arrive: Callable[[], None]) -> None:
        """Let a request arrive at its server at a time."""
        self.scheduler.at(due, arrive)

    def latency(self, server: Server | None = None) -> float:
        """Return the seconds that a message takes."""
        slow = 0.0 if server is None else self.slowness.get(server, 0.0)
        return self.distance * self.chance.uniform(0.0002, 0.002) + (slow and self.chance.uniform(0, slow))

    def disturbed_until(self, process: Process) -> float:
        """Return when the last fault ended, or ends, that delayed what a process sends or reads."""
        clients = self._clients_of(process)
        blocked = [client.blocked_until for client in clients]
        slow = [self.slow_until.get(client.connected_to, 0.0) for client in clients if client.connected_to]
        return max(process.frozen_until, self._elected_at, self.unreachable.get(process, 0.0), *blocked, *slow)

    def reachable(self, process: Process) -> bool:
        """Whether a process can reach the servers."""
        return max(self._elected_at, self.unreachable.get(process, 0.0)) <= self.scheduler.now

    def choose_server(self, process: Process) -> Server | None:
        """Return the server to which a process connects; ``None`` if it can reach none."""
        up = [server for server in self.ensemble.servers if not server.down]
        return self.chance.choice(up) if up and self.reachable(process) else None

    def before_write(self, client: SimulatedClient, _request: Any) -> None:
        """Kill the client's process now and then, before it sends a write."""
        if client.process.crash_countdown is not None and self.is_fatal_moment(client.process):
            self.scheduler.kill(client.process)
            raise Killed

    def is_fatal_moment(self, _process: Process, _point: str = "") -> bool:
        """Decide whether a process is killed at the point that it has reached."""
        return self.crashes > 0 and self.chance.random() < self.crashes

    def fate_of(self, client: SimulatedClient, request: Any) -> str:
        """Decide whether a request or its answer is lost, or whether its process dies before the answer."""
        if not is_write(request):
            return "arrive"
        if self.lost and self.chance.random() < self.lost:
            return self.chance.choice(["lose-request", "lose-answer"])
        if client.process.crash_countdown is not None and self.is_fatal_moment(client.process):
            self.scheduler.kill(client.process)
            return "outlive"
        return "outlive" if self.chance.random() < 0.5 else "arrive"  # if the connection breaks meanwhile

    # Faults

    def partition(self, process: Process, seconds: float) -> None:
        """Separate a process from all servers for some time; neither side notices at once."""
        until = self.scheduler.now + seconds
        self.unreachable[process] = max(until, self.unreachable.get(process, 0.0))
        for client in self._clients_of(process):
            client.block(seconds)

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for some time."""
        self.scheduler.freeze(process, seconds)
        for client in self._clients_of(process):
            client.block(seconds)

    def drop(self, process: Process) -> None:
        """Break the connections of a process, which may connect again at once."""
        for client in self._clients_of(process):
            client.lose_connection()

    def expire(self, process: Process) -> None:
        """End the sessions of a process."""
        for client in self._clients_of(process):
            if client.server_session is not None:
                self.ensemble.end_session(client.server_session)

    def take_down(self, server: Server, seconds: float) -> None:
        """Stop a server that does not lead for some time; its clients connect to other servers."""
        assert not server.leads
        server.down = True
        for clients in list(self.clients.values()):
            for client in list(clients):
                if client.connected_to is server:
                    client.lose_connection()

        def start() -> None:
            server.down = False

        self.scheduler.after(seconds, start)

    def elect(self, seconds: float) -> None:
        """Let the servers elect a leader for some time.

        All connections break, and writes on their way are lost with the former leader: it has not committed them.
        The time of each session begins anew with the leader that is elected.
        """
        self.elections += 1
        self._elected_at = max(self._elected_at, self.scheduler.now + seconds)
        for clients in list(self.clients.values()):
            for client in list(clients):
                client.lose_connection()
        for session in self.ensemble.sessions.values():
            self.ensemble.hear(session)

        def lead() -> None:
            if self._elected_at <= self.scheduler.now:
                for session in self.ensemble.sessions.values():
                    self.ensemble.miss(session)

        self.scheduler.after(seconds, lead)

    def slow_down(self, server: Server, seconds: float, lag: float) -> None:
        """Let a server follow the leader late, and answer late, for some time."""
        server.lag = self.slowness[server] = lag
        self.slow_until[server] = self.scheduler.now + seconds + lag

        def recover() -> None:
            server.lag = self.slowness[server] = 0.0

        self.scheduler.after(seconds, recover)

    def deny(self, path: str, seconds: float) -> None:
        """Let the servers deny all writes at and below a path for some time, as a wrong access list does."""
        self._denied[path] = max(self._denied.get(path, 0.0), self.scheduler.now + seconds)

    def denies(self, path: str) -> bool:
        """Whether a write of a node is denied."""
        now = self.scheduler.now
        return any(until > now and f"{path}/".startswith(f"{denied}/") for denied, until in self._denied.items())

    def heal(self) -> None:
        """End the faults that have no end of their own, and those of servers; partitions end by themselves."""
        self.lost = self.crashes = 0.0
        self._denied.clear()
        for server in self.ensemble.servers:
            server.down = False
            server.lag = self.slowness[server] = 0.0

    def _clients_of(self, process: Process) -> list[SimulatedClient]:
        return list(self.clients.get(process, ()))
