import pytest

from zkdeployment.fleet.events.event import KEPT, MOST_AT_ONCE, RESET_EVENT, EventKind, EventLog, FleetEvent

EVENT = FleetEvent(EventKind.HOST, "a", {"state": "converged"})


def test_a_client_resumes_after_the_last_transaction_that_it_knows():
    log = EventLog(base=10).appended(12, 13, (EVENT,)).appended(20, 25, (EVENT,))
    assert [[batch.id for batch in log.since(id_) or ()] for id_ in (10, 12, 13, 20, 24, 25)] == [
        [12, 20],
        [12, 20],  # the batch may have a change of transaction 13
        [20],
        [20],
        [20],
        [],
    ]


def test_events_older_than_the_log_cannot_be_resumed():
    assert EventLog(base=10).appended(12, 13, (EVENT,)).since(9) is None


def test_old_batches_are_dropped_and_can_no_longer_be_resumed_from():
    log = EventLog(base=1)
    batches = KEPT // MOST_AT_ONCE + 2
    for number in range(batches):
        log = log.appended(10 * number, 10 * number + 5, (EVENT,) * MOST_AT_ONCE)
    assert sum(len(batch.events) for batch in log.batches) == KEPT
    assert log.base == 15
    assert log.since(14) is None
    assert log.since(15) == log.batches
    assert log.after(1) is None
    assert log.after(2) == log.batches


def test_too_many_events_at_once_are_replaced_by_a_reset():
    log = EventLog().appended(1, 2, (EVENT,) * (MOST_AT_ONCE + 1))
    assert log.batches[0].events == (RESET_EVENT,)


@pytest.mark.parametrize(("number", "expected"), [(0, [1, 2]), (1, [2]), (2, []), (3, [])])
def test_a_connected_client_gets_the_batches_after_its_last_one(number: int, expected: list[int]):
    log = EventLog().appended(1, 2, (EVENT,)).appended(3, 4, (EVENT,))
    assert [batch.number for batch in log.after(number) or ()] == expected
