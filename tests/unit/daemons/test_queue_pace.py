"""The pace of requests in a lock's queue: all hosts together send hardly more than the first few hosts."""

import pytest

from zkdeployment.daemons.queue_pace import asks_for_holder, asks_for_others


def mean_asking_hosts(ask, waiting, turns=1000):
    """Return how many of the waiting hosts ask in a turn, on average."""
    return sum(ask(turn, ahead) for turn in range(1, turns + 1) for ahead in range(1, waiting + 1)) / turns


def test_the_next_host_in_the_queue_asks_in_every_turn():
    assert all(asks_for_holder(turn, 1) and asks_for_others(turn, 1) for turn in range(10))


@pytest.mark.parametrize("ahead", [0, 1, 7, 1000])
def test_every_host_asks_in_the_first_turn_and_again_later(ahead):
    assert asks_for_holder(0, ahead)
    assert sum(asks_for_holder(turn, ahead) for turn in range(1, 1001)) >= 1


def test_ten_times_as_many_waiting_hosts_send_hardly_more_holder_queries():
    assert mean_asking_hosts(asks_for_holder, 1000) < mean_asking_hosts(asks_for_holder, 100) + 2.5 < 10


def test_each_host_checks_for_another_free_lock_at_least_once_a_minute():
    assert [turn for turn in range(1, 61) if asks_for_others(turn, 1000)] == [30, 60]
