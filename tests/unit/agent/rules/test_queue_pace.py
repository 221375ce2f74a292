"""The pace of requests in a lock's queue: all hosts together send hardly more than the first few hosts."""

from zkdeployment.agent.rules.waiting import asks_for_holder, asks_for_others

TURNS = range(1, 1001)


def asking(waiting):
    """Return how often all waiting hosts ask for the holder in many turns without a change of the queue."""
    return sum(asks_for_holder(turn, ahead, ahead) for turn in TURNS for ahead in range(1, waiting + 1))


def test_a_host_asks_for_the_holder_when_its_place_is_known_and_when_it_changes():
    assert all(asks_for_holder(turn, ahead, None) for turn in (0, 1, 7) for ahead in (0, 1, 5))
    assert asks_for_holder(7, 1, 2)
    assert asks_for_holder(7, 5, 6)


def test_the_next_host_watches_the_holder_and_a_holder_in_a_lock_delay_asks_in_each_turn():
    assert not any(asks_for_holder(turn, 1, 1) for turn in TURNS)
    assert all(asks_for_holder(turn, 0, 0) for turn in TURNS)


def test_the_intervals_between_two_holder_queries_double():
    assert [turn for turn in TURNS if asks_for_holder(turn, 5, 5)] == [5, 10, 20, 40, 80, 160, 320, 640]


def test_ten_times_as_many_waiting_hosts_send_hardly_more_holder_queries():
    many = asking(1000)
    assert many < 4 * asking(100)
    assert many < 2 * len(TURNS)


def test_each_host_checks_for_another_free_lock_soon_and_then_once_a_minute():
    assert [turn for turn in range(1, 91) if asks_for_others(turn, 1)] == [1, 2, 4, 8, 16, 30, 60, 90]
    assert [turn for turn in range(1, 61) if asks_for_others(turn, 1000)] == [30, 60]
