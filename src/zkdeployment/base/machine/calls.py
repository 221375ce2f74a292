"""Calls to external systems that many threads share because they need the same answer.

No lock is held during a call, and no thread waits long for the call of another thread. Therefore a server that
never answers blocks one thread until the time limit of the call, and other threads only briefly.
"""

from __future__ import annotations

import errno
import queue
import threading
import time
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


T = TypeVar("T")


#: Seconds for which the longest failures are shared with later callers.
LONGEST_FAILURE = 10.0


def call_within(timeout: float, call: Callable[[], T], name: str) -> T:
    """Return the result of a call that cannot be bounded in time, from a thread of this name.

    Raises ``TimeoutError`` if the call takes longer than ``timeout`` seconds; the thread ends when the call does.
    Raises ``OSError`` if no thread can be started.
    """
    outcomes: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(), None))
        except BaseException as error:  # noqa: BLE001  the caller gets it
            outcomes.put((None, error))

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError as problem:
        raise OSError(errno.EAGAIN, f"cannot start a thread: {problem}") from problem
    try:
        value, error = outcomes.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout:g} s") from None
    if error is not None:
        raise error
    return cast("T", value)


@dataclass(slots=True, eq=False)
class _Run:
    """One call: when it began and ended, in monotonic seconds, and its outcome."""

    begun: float
    ended: float = 0.0
    answered: bool = False
    value: Any = None
    error: ZkdeploymentError | None = None
    finished: threading.Event = field(default_factory=threading.Event)

    def answers(self, asked: float, now: float, max_age: float, failure_age: float) -> bool:
        """Return whether the outcome answers a caller who asked at the time ``asked``.

        A failure also answers later callers, for as long as the call took, so that these do not wait for the same
        failure. After an immediate failure, each caller makes the call again.
        """
        if not self.answered:
            return False
        if self.begun >= asked:
            return True
        age = now - self.ended
        return age < (max_age if self.error is None else min(self.ended - self.begun, failure_age))


class SharedCall(Generic[T]):
    """The same call by many threads.

    ``late`` returns the error for callers who would wait longer than ``patience`` seconds for the call of another
    thread. ``failure_age`` is the most seconds for which a failure is shared with later callers. ``now`` returns
    monotonic seconds.
    """

    def __init__(
        self,
        *,
        patience: float,
        late: Callable[[float], ZkdeploymentError],
        failure_age: float = LONGEST_FAILURE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._patience, self._late, self._failure_age = patience, late, failure_age
        self._lock = threading.Lock()  # never held during the call
        self._last: _Run | None = None
        self._running: _Run | None = None

    def get(self, call: Callable[[], T], max_age: float = 0.0) -> T:
        """Return the value of a call that began after this request, or ended at most ``max_age`` seconds ago.

        ``call`` makes the call if no other thread does. Raises the error of the call.
        """
        asked = self._now()
        while True:
            run, leads = self._join(asked, max_age)
            if leads:
                self._lead(run, call)
            elif not run.finished.wait(max(0.0, run.begun + self._patience - self._now())):
                raise self._late(self._patience)
            if run.answers(asked, self._now(), max_age, self._failure_age):
                if run.error is not None:
                    raise run.error
                value: T = run.value
                return value

    def _join(self, asked: float, max_age: float) -> tuple[_Run, bool]:
        """Return the run to wait for, and whether the caller has to carry it out."""
        with self._lock:
            if self._last is not None and self._last.answers(asked, self._now(), max_age, self._failure_age):
                return self._last, False
            if self._running is not None:
                return self._running, False
            self._running = _Run(self._now())
            return self._running, True

    def _lead(self, run: _Run, call: Callable[[], T]) -> None:
        try:
            run.value = call()
            run.answered = True
        except ZkdeploymentError as error:
            run.error, run.answered = error, True
        finally:
            run.ended = self._now()
            with self._lock:
                self._running, self._last = None, run
            run.finished.set()


@contextmanager
def turn(lock: threading.Lock, patience: float, late: Callable[[float], ZkdeploymentError]) -> Iterator[None]:
    """Hold a lock; raises the error that ``late`` returns if other threads have it for ``patience`` seconds."""
    if not lock.acquire(timeout=patience):
        raise late(patience)
    try:
        yield
    finally:
        lock.release()
