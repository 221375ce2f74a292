"""The words of Nagios about a configuration."""

import pytest

from zkdeployment.checks.nagios.files import verification_words


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "Reading configuration data...\nError: Could not find x\n  Error: Could not find x\nError: Bad\nTotal",
            "Could not find x / Bad",
        ),
        ("Warning: Old\nWarning: Duplicate definition of x\nError: y", "Duplicate definition of x / y"),
        ("one\n\ntwo\nthree\nfour\n", "two / three / four"),
        ("", "Nagios printed nothing"),
        ("Error: \x1b[31mred", "\\x1b[31mred"),
    ],
)
def test_the_errors_are_found(output, words):
    assert verification_words(output) == words
