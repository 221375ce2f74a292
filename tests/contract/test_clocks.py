"""The contract of clocks, for the machine's clock and for the manual clock of tests."""

import pytest

from support.waiting import ManualClock
from zkdeployment.base.machine.clock import SystemClock


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request):
    return request.param()


def test_now_is_in_seconds_since_the_epoch(clock):
    assert 1_000_000 <= clock.now() < 10_000_000_000


def test_a_clock_is_never_set_back(clock):
    readings = [(clock.now(), clock.monotonic()) for _ in range(100)]
    assert [monotonic for _, monotonic in readings] == sorted(monotonic for _, monotonic in readings)
    assert all(isinstance(value, float) for reading in readings for value in reading)
