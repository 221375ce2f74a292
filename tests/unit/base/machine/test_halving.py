"""The search for items that a program refuses, by halving."""

import math

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.base.machine.halving import VerifiedItems, find_acceptable


@given(st.integers(0, 100), st.sets(st.integers(0, 99), max_size=4), st.integers(0, 4))
def test_halving_finds_each_bad_item_and_keeps_all_others(count, bad, most):
    bad = {number for number in bad if number < count}
    asked = 0

    def verify(part):
        nonlocal asked
        asked += 1
        found = sorted(bad & {*part})
        return f"bad: {found[0]}" if found else None

    good = tuple(number for number in range(count) if number not in bad)
    verified = VerifiedItems(good, tuple((number, f"bad: {number}") for number in sorted(bad)))
    assert find_acceptable(range(count), verify) == verified
    assert asked <= 1 + len(bad) * 2 * math.ceil(math.log2(max(2, count)))
    asked = 0
    limited = find_acceptable(range(count), verify, most)
    if len(bad) <= most:
        assert limited == verified
    assert limited.rejected[: most + 1] == verified.rejected[: most + 1]
    assert sorted([*limited.accepted, *(number for number, _ in limited.rejected)]) == [*range(count)]
    assert not bad & {*limited.accepted}
    assert asked <= 1 + (min(len(bad), most + 1) * 2 + 1) * math.ceil(math.log2(max(2, count)))


def test_after_too_many_bad_items_each_further_part_is_accepted_or_rejected_as_a_whole():
    verified = find_acceptable(range(16), lambda part: "bad" if {0, 1, 6} & {*part} else None, 1)
    assert verified.accepted == (2, 3, *range(8, 16))
    assert verified.rejected == tuple((number, "bad") for number in (0, 1, 4, 5, 6, 7))


def test_of_two_items_that_exclude_each_other_the_first_is_kept():
    verified = find_acceptable(range(4), lambda part: "duplicate" if {1, 3} <= {*part} else None)
    assert verified == VerifiedItems((0, 1, 2), ((3, "duplicate"),))
