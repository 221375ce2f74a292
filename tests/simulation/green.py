"""Green threads in virtual time: a scheduler, and processes that can be killed, frozen and started again.

Only one green thread runs at a time, and another one runs only when that one waits. Nothing here knows ZooKeeper
or zkdeployment.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

import greenlet

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

#: The wall clock at the start of a simulation, in seconds since the epoch.
EPOCH = 1_800_000_000.0


class Killed(BaseException):
    """Ends the green threads of a killed process; no code under test catches it."""


class Process:
    """A simulated process: its threads end together; its wall clock may differ from that of others.

    What a killed process still tries, such as writes in ``finally`` blocks, raises ``Killed`` without effect.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.clock_offset = 0.0
        self.frozen_until = 0.0
        self.crash_countdown: int | None = None
        self.threads: dict[GreenThread, None] = {}
        self.on_end: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise ``Killed`` if the process was killed."""
        if not self.alive:
            raise Killed

    def __repr__(self) -> str:
        return f"<{self.name}>"


class GreenThread(greenlet.greenlet):
    """A green thread of a process."""

    def __init__(self, scheduler: Scheduler, process: Process, run: Callable[[], object]) -> None:
        super().__init__(self._run_guarded, scheduler.greenlet)
        self.process = process
        self._scheduler = scheduler
        self._work = run
        self.wait: Wait | None = None
        self.ended = Event(scheduler)
        process.threads[self] = None

    def _run_guarded(self) -> None:
        try:
            self._work()
        except (Killed, greenlet.GreenletExit):
            pass
        except BaseException as error:  # noqa: BLE001  a defect of the code under test ends the simulation
            self._scheduler.errors.append((self.process, error))
        finally:
            self.process.threads.pop(self, None)
            self.ended.set()


class Wait:
    """One wait of a green thread; it ends once, by ``end`` or by its time limit."""

    __slots__ = ("over", "thread", "woken")

    def __init__(self, thread: GreenThread) -> None:
        self.thread = thread
        self.over = False
        self.woken = False


class Scheduler:
    """Runs green threads and timed actions in the order of virtual time.

    ``chance`` orders threads that are ready at the same time. ``errors`` are unexpected exceptions of threads.
    """

    def __init__(self, chance: Random) -> None:
        self.now = 1000.0
        self.chance = chance
        self.greenlet = greenlet.getcurrent()
        self.errors: list[tuple[Process, BaseException]] = []
        self.switches = 0
        self._timed: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._ready: deque[GreenThread] = deque()

    @property
    def current(self) -> GreenThread | None:
        """The running green thread, ``None`` while an action runs."""
        running = greenlet.getcurrent()
        return running if isinstance(running, GreenThread) else None

    @property
    def process(self) -> Process | None:
        """The process of the running green thread."""
        thread = self.current
        return None if thread is None else thread.process

    def spawn(self, process: Process, run: Callable[[], object]) -> GreenThread:
        """Start a green thread."""
        thread = GreenThread(self, process, run)
        self._ready.append(thread)
        return thread

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Call ``action``, which must not wait, at a time."""
        heapq.heappush(self._timed, (time, next(self._number), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action``, which must not wait, after some seconds."""
        self.at(self.now + seconds, action)

    def sleep(self, seconds: float) -> None:
        """Let the running thread wait."""
        self.block(self.begin_wait(), max(0.0, seconds))

    def begin_wait(self) -> Wait:
        """Return the wait that the running thread is about to begin."""
        thread = self.current
        assert thread is not None, "only green threads wait"
        thread.process.check()
        return Wait(thread)

    def block(self, wait: Wait, timeout: float | None) -> bool:
        """Let the running thread wait until ``end`` or for ``timeout`` seconds; return whether it ended."""
        if timeout is not None:
            self.at(self.now + timeout, lambda: self._resume(wait, woken=False))
        wait.thread.wait = wait
        self.greenlet.switch()
        wait.thread.wait = None
        wait.thread.process.check()
        return wait.woken

    def end(self, wait: Wait) -> None:
        """End a wait."""
        self._resume(wait, woken=True)

    def kill(self, process: Process) -> None:
        """Kill a process, as SIGKILL does; a thread of its own that calls this has to raise ``Killed``."""
        if not process.alive:
            return
        process.alive = False
        self.after(0.0, lambda: self._reap(process))

    def freeze(self, process: Process, seconds: float) -> None:
        """Stop a process for some time, as SIGSTOP or a suspended machine does."""
        process.frozen_until = max(process.frozen_until, self.now + seconds)

    def run(self, until: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Run everything that is due until a time, or until ``is_over`` after an action."""
        while not self.errors and not is_over():
            while self._ready:
                self._switch(self._ready.popleft())
            if not self._timed or self._timed[0][0] > until:
                self.now = max(self.now, until)
                return
            time, _, action = heapq.heappop(self._timed)
            self.now = max(self.now, time)
            action()

    def end_all(self, processes: list[Process]) -> None:
        """Kill processes at the end of a simulation."""
        for process in processes:
            process.alive = False
            self._reap(process)

    def _resume(self, wait: Wait, *, woken: bool) -> None:
        if wait.over:
            return
        wait.over, wait.woken = True, woken
        self._ready.append(wait.thread)

    def _switch(self, thread: GreenThread) -> None:
        if thread.dead or not thread.process.alive:
            return
        frozen = thread.process.frozen_until
        if frozen > self.now:
            self.at(frozen, lambda: self._ready.append(thread))
            return
        self.switches += 1
        thread.switch()

    def _reap(self, process: Process) -> None:
        for thread in list(process.threads):
            if thread and thread is not greenlet.getcurrent():  # it has begun, and has not ended
                if thread.wait is not None:
                    thread.wait.over = True
                thread.throw(Killed)
        process.threads.clear()
        for ended in process.on_end:
            ended()
        process.on_end.clear()


class Event:
    """``threading.Event`` for green threads."""

    __slots__ = ("_scheduler", "_set", "_waits")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waits: list[Wait] = []

    def is_set(self) -> bool:
        """Whether the event is set."""
        return self._set

    def set(self) -> None:
        """Set the event and wake all threads that wait."""
        self._set = True
        waits, self._waits = self._waits, []
        for wait in waits:
            self._scheduler.end(wait)

    def clear(self) -> None:
        """Clear the event."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set."""
        if not self._set:
            wait = self._scheduler.begin_wait()
            self._waits.append(wait)
            self._scheduler.block(wait, timeout)
            if not wait.woken and wait in self._waits:
                self._waits.remove(wait)
        return self._set


class Lock:
    """``threading.Lock`` and ``threading.RLock`` for green threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: GreenThread | None = None
        self._depth = 0
        self._waits: deque[Wait] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock."""
        me = self._scheduler.current
        while self._owner is not None and (me is None or self._owner is not me) and not self._owner.dead:
            if not blocking or me is None:
                return False
            wait = self._scheduler.begin_wait()
            self._waits.append(wait)
            if not self._scheduler.block(wait, None if timeout < 0 else timeout):
                return False
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        """Release the lock."""
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            if self._waits:
                self._scheduler.end(self._waits.popleft())

    def locked(self) -> bool:
        """Whether the lock is held."""
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """``threading.Condition`` for green threads; it needs no lock, as nothing runs between two waits."""

    def __init__(self, scheduler: Scheduler, _lock: Any = None) -> None:
        self._scheduler = scheduler
        self._waits: deque[Wait] = deque()

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified."""
        wait = self._scheduler.begin_wait()
        self._waits.append(wait)
        return self._scheduler.block(wait, timeout)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a predicate is true."""
        end = None if timeout is None else self._scheduler.now + timeout
        while not predicate():
            left = None if end is None else end - self._scheduler.now
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return True

    def notify_all(self) -> None:
        """Wake all threads that wait."""
        waits, self._waits = self._waits, deque()
        for wait in waits:
            self._scheduler.end(wait)

    notify = notify_all
