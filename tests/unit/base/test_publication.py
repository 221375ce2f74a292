import pytest

from zkdeployment.base.cluster import Cluster, Mandate
from zkdeployment.base.publication import Published, is_sequence, next_sequence

#: The revision r2, which changed only documents, after r1.
LAST = Published("r2", sequence=30, since=20, ordered="r2")


def test_the_sequence_of_a_publication_is_its_time():
    assert next_sequence(0, 1_800_000_000.9) == 1_800_000_000


def test_sequences_grow_within_a_second_and_when_the_clock_is_set_back():
    assert next_sequence(1_800_000_000, 1_800_000_000.9) == 1_800_000_001
    assert next_sequence(1_800_000_000, 1_700_000_000.0) == 1_800_000_001


@pytest.mark.parametrize("value", [0, -1, 2**53, True, "7", 7.0, None])
def test_other_values_are_not_sequences(value):
    assert not is_sequence(value)


@pytest.mark.parametrize("value", [1, 2**53 - 1])
def test_positive_numbers_up_to_53_bits_are_sequences(value):
    assert is_sequence(value)


@pytest.mark.parametrize(
    ("version", "revision", "sequence"),
    [
        ("r2", "r2", 30),
        ("r2", "r1", 20),  # r2 is the same for hosts
        ("by hand", "by hand", 0),
        ("r2", "r2", 0),  # the publication is not known
        (None, "r2", 30),
        (False, "r1", 20),
        (None, "by hand", 0),
    ],
)
def test_a_fleet_wants_its_revision_and_revisions_that_are_the_same_for_hosts(version, revision, sequence):
    assert LAST.is_wanted(Cluster(version), revision, sequence)


@pytest.mark.parametrize(
    ("version", "revision", "sequence"),
    [
        ("r2", "r0", 10),
        ("r2", "r2", 10),  # the revision was published again since, with something new for hosts
        ("r2", "r1", 0),
        ("r2", "by hand", 0),
        ("by hand", "r2", 30),
        (None, "r0", 10),
        (False, "r2", 10),
    ],
)
def test_a_fleet_with_another_publication_or_version_does_not_want_the_earlier_one(version, revision, sequence):
    assert not LAST.is_wanted(Cluster(version), revision, sequence)


def test_a_large_publication_under_way_leaves_the_last_one_wanted():
    interrupted = Published(None, sequence=30, since=30, ordered="r2")
    assert interrupted.is_wanted(Cluster("r2", importing="r3"), "r2", 30)
    assert not interrupted.is_wanted(Cluster("r2", importing="r3"), "r1", 20)


def test_a_retry_is_only_for_the_revision_that_is_completely_published():
    retry = Mandate("r2", is_retry=True)
    assert Published("r2").permits(retry)
    assert not Published("r1").permits(retry)
    assert not Published(None, ordered="r2").permits(retry)  # after an import by hand
    assert Published(None).permits(Mandate("by hand"))
