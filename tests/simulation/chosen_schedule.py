"""A network on which a search chooses which request a server executes next, and which faults come with it.

Nothing is random: messages take no time, and everything that a seed would draw has a fixed value. Answers and the
events of watches arrive at once; a late arrival would be the same as a late next request of that client. Time
passes when no request waits.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

from kazoo.protocol import serialization

from simulation.green import Scheduler
from simulation.machine_time import _Module
from simulation.network import Network
from simulation.races import TIME, Step, fingerprint
from simulation.requests import is_write, read_paths, writes_of
from simulation.scenarios import FAULTS
from simulation.server_tree import parent
from simulation.simulated_client import SimulatedClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from simulation.green import Process
    from simulation.scenarios import Scenario
    from simulation.server_tree import Change

#: Seconds for which a frozen process stands still: a little longer than a session and the lock delay together.
FROZEN = 100.0

#: The points at which a daemon may die besides its requests: after writes to its disk, and in a transaction.
_POINTS = ("wrote", "in a transaction", "committed", "rebooting", "a write of the syncer")


class ChoiceError(Exception):
    """A choice that does not exist."""


class Steady(Random):
    """Draws the same values each time."""

    def random(self) -> float:
        """Return a number above each probability of a fault."""
        return 0.75

    def getrandbits(self, _k: int) -> int:
        """Return zero, so that the first of several is chosen."""
        return 0


class ChosenScheduler(Scheduler):
    """Asks its network which step is next when nothing else is due."""

    network: ChosenNetwork

    def run(self, until: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run steps until a time, or until ``is_over`` when no request waits."""
        self.settle()
        while not self.errors and self.now < until:
            if self.network.has_requests():
                self.network.step()
            elif is_over() or not self.network.pass_time():
                return

    def settle(self) -> None:
        """Run everything that is due now."""
        while self._ready or (self._timed and self._timed[0][0] <= self.now):
            if self._ready:
                self._switch(self._ready.popleft())
            else:
                self._pop()()

    def pass_time(self) -> bool:
        """Let time pass until something happens; return whether there is something."""
        if not self._timed:
            return False
        self.now = self._timed[0][0]
        return True

    def _pop(self) -> Callable[[], None]:
        import heapq  # noqa: PLC0415

        return heapq.heappop(self._timed)[2]


class ChosenClient(SimulatedClient):
    """A client whose requests wait until they are chosen."""

    _network: ChosenNetwork
    channel: str
    freezes = False

    def fire(self, kind: str, path: str) -> None:
        """Note that a step reaches this client."""
        self._network.touched(f"process {self.process.name}")
        super().fire(kind, path)

    def _receive_answer(self, async_object: Any, request: Any, answer: Any, zxid: int) -> None:
        super()._receive_answer(async_object, request, answer, zxid)
        if self.freezes:
            self.freezes = False
            self._network.freeze(self.process, FROZEN)


class ChosenNetwork(Network):
    """A network whose steps follow ``choices``, and then the order of names.

    ``steps`` are those that were executed. ``events`` returns the acts and faults that may come with the time that
    passes, and ``bring`` brings one.
    """

    def __init__(self, scenario: Scenario, choices: Sequence[str], *, trace: Callable[[str], None]) -> None:
        super().__init__(Steady(), servers=1, scheduler=ChosenScheduler(Steady()))
        self.scheduler.network = self  # type: ignore[attr-defined]
        self.steps: list[Step] = []
        self.failing: str | None = None
        self.events: Callable[[], list[str]] = list
        self.bring: Callable[[str], None] = trace
        self.scenario = scenario
        self._choices = choices
        self._trace = trace
        self._waiting: dict[str, deque[tuple[ChosenClient, int, Any, Callable[[], None]]]] = {}
        self._step: Step | None = None
        self._points: dict[str, int] = {}
        self._fatal: tuple[str, int] | None = None
        self._ids: dict[str, Iterator[int]] = {}
        self._born: dict[Process, str] = {}
        self.modules.uuid = _Module(uuid, uuid4=self._next_id)
        self.ensemble.on_commit.append(self._committed)

    # What the simulation asks

    def latency(self, _server: Any = None) -> float:
        """Return that messages take no time."""
        return 0.0

    def client_of(self, process: Process, **options: Any) -> SimulatedClient:
        """Return a new client."""
        client = ChosenClient(self, process, **options)
        others = len(self.clients.get(process, ()))
        client.channel = f"{process.name} {others + 1}" if others else process.name
        return client

    def fate_of(self, _client: SimulatedClient, _request: Any) -> str:
        """Let each request arrive; faults come with steps."""
        return "arrive"

    def before_write(self, _client: SimulatedClient, _request: Any) -> None:
        """Do nothing: a kill before a write is a fault of its step."""

    def is_fatal_moment(self, process: Process, point: str = "") -> bool:
        """Decide whether a process is killed at the point that it has reached in this step.

        A kill before a write is like a kill after whatever came before; failpoints are beside writes.
        """
        if process.crash_countdown is None or not point.startswith(_POINTS):
            return False
        number = self._points[process.name] = self._points.get(process.name, 0) + 1
        return self._fatal == (process.name, number)

    def carry(self, client: SimulatedClient, request: Any, due: float, arrive: Callable[[], None]) -> None:
        """Let a request wait until it is chosen."""
        assert isinstance(client, ChosenClient)
        number = client.number
        self.scheduler.at(
            due,
            lambda: self._waiting.setdefault(client.channel, deque()).append((client, number, request, arrive)),
        )

    # What clients report

    def touched(self, resource: str) -> None:
        """Note that the current step writes something."""
        if self._step is not None:
            self._step.writes.add(resource)

    def may_fail(self, name: str) -> bool:
        """Decide whether the script that begins on a host in this step fails."""
        failure = f"failing script of {name}"
        if self._step is not None and self.scenario.permits(failure, is_write=True):
            self._step.variants.append(failure)
        return self.failing == name

    # Steps

    def has_requests(self) -> bool:
        """Whether requests wait."""
        for channel, requests in list(self._waiting.items()):
            while requests and requests[0][0].number != requests[0][1]:
                requests.popleft()
            if not requests:
                del self._waiting[channel]
        return bool(self._waiting)

    def step(self) -> None:
        """Execute the request that is chosen."""
        channel, variant = self._choose(min(self._waiting))
        if channel not in self._waiting:
            raise ChoiceError(f"no request of {channel} waits")
        client, _, request, arrive = self._waiting[channel].popleft()
        step = self._begin(channel, variant)
        step.writes.add(f"process {client.process.name}")
        step.reads.update(_read_resources(request))
        if client.process.crash_countdown is not None:
            writes = is_write(request) and not isinstance(request, serialization.Sync)
            step.variants += [each for each in FAULTS if self.scenario.permits(each, is_write=writes)]
        self._trace(f"step: {step.choice}: {_described(request)}")
        if variant == "is killed before it":
            self.scheduler.kill(client.process)
        elif variant == "loses the session":
            self.expire(client.process)
        else:
            client.freezes = variant == "is frozen after it"
            arrive()
            if variant == "is killed after it":
                self.scheduler.kill(client.process)
            elif variant == "loses the answer":
                client.lose_connection()
        self._end(step)

    def pass_time(self) -> bool:
        """Let time pass until something happens; return whether anything is left that can happen."""
        scheduler = self.scheduler
        assert isinstance(scheduler, ChosenScheduler)
        switches = scheduler.switches
        channel, variant = self._choose(TIME)
        step = self._begin(channel, variant)
        while scheduler.switches == switches and not self.has_requests():
            if not scheduler.pass_time():
                return False
            scheduler.settle()
        step.variants += self.events()
        if variant.startswith("act ") or variant.endswith("beside its script"):
            self.bring(variant)
        self._trace(f"step: {step.choice}")
        self._end(step)
        return True

    def _choose(self, otherwise: str) -> tuple[str, str]:
        """Return the channel and the variant of the next step."""
        place = len(self.steps)
        choice = self._choices[place] if place < len(self._choices) else otherwise
        channel, _, variant = choice.partition(": ")
        if (channel == TIME) != (otherwise == TIME):
            raise ChoiceError(f"step {place} is {otherwise}, not {choice}")
        return channel, variant

    def _begin(self, channel: str, variant: str) -> Step:
        self._step = Step(channel, variant)
        self._points.clear()
        words = variant.split()
        self._fatal = (words[0], int(words[-1])) if "dies at its point" in variant else None
        self.failing = words[-1] if variant.startswith("failing") else None
        return self._step

    def _end(self, step: Step) -> None:
        scheduler = self.scheduler
        assert isinstance(scheduler, ChosenScheduler)
        scheduler.settle()
        dying = [
            f"{name} dies at its point {number}"
            for name, count in self._points.items()
            for number in range(1, count + 1)
        ]
        step.variants += [variant for variant in dying if self.scenario.permits(variant, is_write=True)]
        self.steps.append(step)
        self._step, self._fatal = None, None

    def _committed(self, _zxid: int, changes: Sequence[Change]) -> None:
        for change in changes:
            self.touched(f"data {change.path}")
            if change.kind != "set":
                self.touched(f"node {change.path}")
                self.touched(f"children {parent(change.path)}")

    def _next_id(self) -> uuid.UUID:
        process = self.scheduler.process
        assert process is not None
        name = self._born.setdefault(process, f"{process.name} {len(self._born)}")
        number = next(self._ids.setdefault(name, itertools.count()))
        return uuid.UUID(fingerprint(name, number)[:16] + "0" * 16)


def _read_resources(request: Any) -> Iterator[str]:
    """Yield what a request reads: of nodes that are written, their version; of others, what the answer has."""
    if is_write(request):
        for write in writes_of(request):
            yield f"data {write.path}"
            yield f"children {parent(write.path) if write.sequential else write.path}"
            yield f"node {parent(write.path)}"
        return
    for path, children in read_paths(request):
        yield f"{'node' if children else 'data'} {path}"
        yield f"children {path}"


def _described(request: Any) -> str:
    if is_write(request):
        return ", ".join(f"{write.kind} {write.path}" for write in writes_of(request)) or "sync"
    return "read " + ", ".join(path for path, _ in read_paths(request))
