import pytest

from zkdeployment.model.publication import is_sequence, next_sequence


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
