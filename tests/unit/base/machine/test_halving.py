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
    limited = find_acceptable(range(count), verify, most)
    assert limited == verified if len(bad) <= most else limited.rejected == verified.rejected[: most + 1]


def test_of_two_items_that_exclude_each_other_the_first_is_kept():
    verified = find_acceptable(range(4), lambda part: "duplicate" if {1, 3} <= {*part} else None)
    assert verified == VerifiedItems((0, 1, 2), ((3, "duplicate"),))
