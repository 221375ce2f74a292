"""Places for requests to slow servers."""

import threading

import pytest

from support.waiting import wait_until
from zkdeployment.base.errors import BusyError
from zkdeployment.service.places import Places


def test_a_request_without_a_place_fails_at_once() -> None:
    places = Places("plans", 2)
    refused = pytest.raises(BusyError, match="the service is busy with other plans")
    with places.taken(), places.taken(), refused, places.taken():
        raise AssertionError
    with places.taken():
        assert True  # places become free again


def test_a_limited_number_of_requests_waits_for_a_place() -> None:
    places, served = Places("plans", 1, queue=1, patience=30), []

    def wait() -> None:
        with places.taken():
            served.append("second")

    with places.taken():
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: refuses(places), "the second request to wait")
        assert served == []
    thread.join()
    assert served == ["second"]


def test_a_request_does_not_wait_longer_than_the_patience() -> None:
    places = Places("plans", 1, queue=1, patience=0.01)
    with places.taken(), pytest.raises(BusyError), places.taken():
        raise AssertionError


def refuses(places: Places) -> bool:
    """Return whether the queue is full; a request that waits gets its place at the end of the test only."""
    return not places._admitted.acquire(blocking=False) or bool(places._admitted.release())
