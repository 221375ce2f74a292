"""The modules ``time``, ``threading``, ``queue``, ``random`` and ``uuid`` of a simulation, and process ids.

The daemons and the adapters of ZooKeeper use these modules of Python. While a simulation runs, their names in
zkdeployment, kazoo's recipes and tenacity stand for the objects here. No code is changed otherwise.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import sys
import threading
import time
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

from kazoo.retry import KazooRetry

from simulation import green

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

#: The modules of which the names are replaced.
_PATCHED = ("zkdeployment.", "tenacity", "kazoo.retry", "kazoo.recipe.watchers")


class SimulatedTime:
    """The module ``time``: all processes share the monotonic clock; each has a wall clock."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, scheduler: green.Scheduler) -> None:
        self._scheduler = scheduler

    def time(self) -> float:
        """Return the wall clock of the running process."""
        process = self._scheduler.process
        return green.EPOCH + self._scheduler.now + (0.0 if process is None else process.clock_offset)

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock."""
        return self._scheduler.now

    def perf_counter(self) -> float:
        """Return seconds of the monotonic clock."""
        return self._scheduler.now

    def clock_gettime(self, _clock: int) -> float:
        """Return seconds of the monotonic clock; machines are not suspended, only their processes are."""
        return self._scheduler.now

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._scheduler.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)  # formats of dates


class SimulatedThread:
    """``threading.Thread``: a green thread of the process that starts it."""

    def __init__(
        self,
        scheduler: green.Scheduler,
        *,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._target, self._arguments = target, args
        self._thread: green.GreenThread | None = None
        self.name, self.daemon = name, daemon

    def start(self) -> None:
        """Start the thread."""
        process = self._scheduler.process
        assert process is not None
        process.check()
        self._thread = self._scheduler.spawn(process, lambda: self._target(*self._arguments))

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.ended.wait(timeout)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and not self._thread.ended.is_set()


class SimulatedQueue:
    """``queue.SimpleQueue``."""

    def __init__(self, scheduler: green.Scheduler) -> None:
        self._items: deque[object] = deque()
        self._filled = green.Event(scheduler)

    def put(self, item: object) -> None:
        """Add an item."""
        self._items.append(item)
        self._filled.set()

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        """Return the next item; raise ``queue.Empty`` if it does not exist in time."""
        if not self._items and block and timeout != 0:
            self._filled.clear()
            self._filled.wait(timeout)
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        """Whether there is no item."""
        return not self._items

    def get_nowait(self) -> object:
        """Return the next item; raise ``queue.Empty`` if it does not exist."""
        return self.get(block=False)


class _Module:
    """A module of Python with some of its names replaced."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class SimulatedModules:
    """The simulated modules of one scheduler."""

    def __init__(self, scheduler: green.Scheduler, chance: Random) -> None:
        self.time = SimulatedTime(scheduler)
        self.threading = _Module(
            threading,
            Event=lambda: green.Event(scheduler),
            Lock=lambda: green.Lock(scheduler),
            RLock=lambda: green.Lock(scheduler),
            Condition=lambda lock=None: green.Condition(scheduler, lock),
            Thread=lambda **options: SimulatedThread(scheduler, **options),
        )
        self.queue = _Module(queue, SimpleQueue=lambda: SimulatedQueue(scheduler))
        self.random = chance
        self.os = _Module(os, getpid=lambda: 1)
        self.uuid = _Module(uuid, uuid4=lambda: uuid.UUID(int=chance.getrandbits(128)))

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Replace the names of Python's modules in the code under test during the block."""
        standing: dict[int, Any] = {
            id(time): self.time,
            id(threading): self.threading,
            id(queue): self.queue,
            id(random): self.random,
            id(uuid): self.uuid,
            id(os): self.os,
        }
        defaults = KazooRetry.__init__.__defaults__
        KazooRetry.__init__.__defaults__ = tuple(
            self.time.sleep if default is time.sleep else default for default in defaults
        )
        replaced: list[tuple[Any, str, Any]] = []
        for name, module in list(sys.modules.items()):
            if name.startswith(_PATCHED) and module is not None:
                for attribute, value in list(vars(module).items()):
                    stand_in = standing.get(id(value))
                    if stand_in is not None:
                        replaced.append((module, attribute, value))
                        setattr(module, attribute, stand_in)
        try:
            yield
        finally:
            KazooRetry.__init__.__defaults__ = defaults
            for module, attribute, value in replaced:
                setattr(module, attribute, value)
