import pytest

from zkdeployment.service.users.logins import (
    FORGOTTEN_AFTER,
    FailureCount,
    after_failure,
    after_success,
    is_forgotten,
    kept_counts,
    seconds_to_wait,
    throttled_address,
)


@pytest.mark.parametrize(
    ("failures", "wait"),
    [
        (None, 0),
        (FailureCount(19, 100.0), 0),
        (FailureCount(20, 100.0), 1),
        (FailureCount(21, 100.0), 2),
        (FailureCount(28, 100.0), 256),
        (FailureCount(29, 100.0), 300),
        (FailureCount(60_000, 100.0), 300),
    ],
)
def test_the_wait_doubles_with_each_failure_up_to_the_longest_wait(failures, wait):
    assert seconds_to_wait(failures, 100.0) == wait


def test_the_wait_passes_with_time_and_a_clock_that_is_ahead_does_not_prolong_it():
    failures = FailureCount(23, 100.0)
    assert seconds_to_wait(failures, 100.0) == 8
    assert seconds_to_wait(failures, 105.0) == 3
    assert seconds_to_wait(failures, 108.0) == 0
    assert seconds_to_wait(failures, 40.0) == 8


def test_failures_are_counted_and_forgotten_after_some_time():
    first = after_failure(None, 100.0)
    assert first == FailureCount(1, 100.0)
    assert after_failure(first, 101.0) == FailureCount(2, 101.0)
    late = 100.0 + FORGOTTEN_AFTER
    assert is_forgotten(first, late)
    assert after_failure(first, late) == FailureCount(1, late)
    assert seconds_to_wait(FailureCount(50, 100.0), late) == 0
    assert is_forgotten(FailureCount(50, 1e12), 100.0)


def test_a_success_withdraws_only_its_own_claim():
    assert after_success(FailureCount(7, 100.0)) == FailureCount(6, 100.0)
    assert after_success(FailureCount(1, 100.0)) is None
    assert after_success(None) is None


def test_a_flood_of_new_counts_displaces_no_high_count():
    victim = {"victim": FailureCount(9, 50.0), "old": FailureCount(99, 100.0 - FORGOTTEN_AFTER)}
    flood = {f"flood{number}": FailureCount(1, 99.0) for number in range(10)}
    kept = kept_counts(victim | flood | {"present": FailureCount(1, 100.0)}, 100.0, 3)
    assert len(kept) == 3
    assert kept.keys() >= {"victim", "present"}


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "unknown"),
        ("", "unknown"),
    ],
)
def test_addresses_are_counted_by_client(address, counted):
    assert throttled_address(address) == counted
