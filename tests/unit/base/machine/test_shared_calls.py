"""Calls that threads share, and locks that no thread waits long for."""

import threading
from collections.abc import Callable

import pytest

from support.waiting import ManualClock, wait_until
from zkdeployment.base.errors import SourceError
from zkdeployment.base.machine.calls import SharedCall, turn


def late(seconds: float) -> SourceError:
    return SourceError(f"nothing for {seconds:g} s")


def in_threads(count: int, work: Callable[[], object]) -> tuple[list[threading.Thread], list[object]]:
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(work())
        except SourceError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, outcomes


class Server:
    """A server that answers when ``ready`` is set; ``calls`` counts the calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.ready = threading.Event()
        self.error: Exception | None = None

    def ask(self) -> int:
        self.calls += 1
        assert self.ready.wait(30)
        if self.error is not None:
            raise self.error
        return self.calls


def test_callers_during_a_call_share_the_next_one() -> None:
    server, shared = Server(), SharedCall[int](patience=30, late=late)
    first, outcomes = in_threads(1, lambda: shared.get(server.ask))
    wait_until(lambda: server.calls, "the first call")
    others, shared_outcomes = in_threads(5, lambda: shared.get(server.ask))
    server.ready.set()
    for thread in (*first, *others):
        thread.join()
    assert outcomes == [1]  # a call that began before a caller asked does not answer that caller
    assert set(shared_outcomes) <= {2, 3}


def test_a_recent_value_needs_no_call() -> None:
    server, shared = Server(), SharedCall[int](patience=30, late=late)
    server.ready.set()
    assert [shared.get(server.ask), shared.get(server.ask, 60), shared.get(server.ask)] == [1, 1, 2]


def test_callers_do_not_wait_long_for_a_call_that_hangs() -> None:
    server, shared = Server(), SharedCall[int](patience=0.05, late=late)
    leader, _ = in_threads(1, lambda: shared.get(server.ask))
    wait_until(lambda: server.calls, "the call that hangs")
    for _ in range(3):
        with pytest.raises(SourceError, match=r"nothing for 0\.05 s"):
            shared.get(server.ask)
    server.ready.set()
    leader[0].join()
    assert server.calls == 1


def test_a_failure_that_took_long_is_shared_with_later_callers() -> None:
    server, shared = Server(), SharedCall[int](patience=30, late=late)
    server.error = SourceError("unreachable")
    leader, outcomes = in_threads(1, lambda: shared.get(server.ask))
    wait_until(lambda: server.calls, "the call")
    threading.Event().wait(0.5)
    server.ready.set()
    leader[0].join()
    with pytest.raises(SourceError, match="unreachable"):
        shared.get(server.ask)
    assert (outcomes, server.calls) == (["unreachable"], 1)


def test_a_failure_that_took_no_time_is_found_out_again() -> None:
    clock = ManualClock()
    server, shared = Server(), SharedCall[int](patience=30, late=late, now=clock.monotonic)
    server.ready.set()
    server.error = SourceError("refused")
    for _ in range(2):
        with pytest.raises(SourceError, match="refused"):
            shared.get(server.ask)
        clock.time += 0.001
    assert server.calls == 2


def test_after_an_unexpected_error_the_next_caller_makes_the_call() -> None:
    server, shared = Server(), SharedCall[int](patience=30, late=late)
    server.ready.set()
    server.error = ValueError("a defect")
    with pytest.raises(ValueError, match="a defect"):
        shared.get(server.ask)
    server.error = None
    assert shared.get(server.ask) == 2


def test_a_thread_gives_up_a_turn_that_does_not_come() -> None:
    lock = threading.Lock()
    with turn(lock, 1.0, late), pytest.raises(SourceError, match="nothing"), turn(lock, 0.01, late):
        raise AssertionError
    assert not lock.locked()
