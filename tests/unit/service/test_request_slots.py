"""Slots for requests to slow servers."""

import threading

import pytest

from support.waiting import wait_until
from zkdeployment.base.errors import BusyError
from zkdeployment.service.request_slots import RequestSlots


def test_a_request_without_a_slot_fails_at_once() -> None:
    slots = RequestSlots("plans", 2)
    refused = pytest.raises(BusyError, match="the service is busy with other plans")
    with slots.taken(), slots.taken(), refused, slots.taken():
        raise AssertionError
    with slots.taken():
        assert True  # slots become free again


def test_a_limited_number_of_requests_waits_for_a_slot() -> None:
    slots, served = RequestSlots("plans", 1, queue=1, patience=30), []

    def wait() -> None:
        with slots.taken():
            served.append("second")

    with slots.taken():
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: refuses(slots), "the second request to wait")
        assert served == []
    thread.join()
    assert served == ["second"]


def test_a_request_does_not_wait_longer_than_the_patience() -> None:
    slots = RequestSlots("plans", 1, queue=1, patience=0.01)
    with slots.taken(), pytest.raises(BusyError), slots.taken():
        raise AssertionError


def refuses(slots: RequestSlots) -> bool:
    """Return whether the queue is full; a request that waits gets its slot at the end of the test only."""
    return not slots._admitted.acquire(blocking=False) or bool(slots._admitted.release())
