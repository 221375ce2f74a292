"""The sequence of the next signature: the record and the clock decide, attackers can only cause a refusal."""

import pytest

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.publication import Published
from zkdeployment.publishing.signing.standing import SigningRecord, is_plausible, sequence_to_sign


@pytest.mark.parametrize(
    ("reserved", "found", "sequence"),
    [
        (0, 0, 1_000_000),
        (999_000, 999_000, 1_000_000),
        (1_000_000, 0, 1_000_001),
        (1_003_000, 1_003_000, 1_003_001),  # the clock was an hour fast
        (999_000, 1_000_300, 1_000_301),  # the clock of the other syncer is fast
    ],
)
def test_the_sequence_is_above_the_record_and_follows_the_clock(reserved, found, sequence):
    assert sequence_to_sign(reserved, found, 1_000_000.5) == sequence


@pytest.mark.parametrize(("reserved", "found"), [(0, 1_000_301), (1_000_200, 1_000_400), (1_090_000, 0)])
def test_a_sequence_far_ahead_of_the_clock_is_not_signed(reserved, found):
    with pytest.raises(RefusedError, match="expected a sequence near the time 1000000"):
        sequence_to_sign(reserved, found, 1_000_000)


def test_a_record_covers_exactly_the_publication_that_it_names():
    record = SigningRecord(9, 7, 5, "r1")
    assert record.covers(Published("r1", sequence=7, since=5))
    for other in (
        Published("r2", sequence=7, since=5),
        Published("r1", sequence=8, since=5),
        Published("r1", sequence=7, since=4),
    ):
        assert not record.covers(other)
    assert not SigningRecord(9).covers(Published())
    assert is_plausible(1_086_400, 1_000_000)
    assert not is_plausible(1_086_401, 1_000_000)
