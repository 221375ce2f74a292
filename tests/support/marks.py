"""The variables that mark the programs that tests start, so that they end with their test or with all tests."""

from __future__ import annotations

import os

#: The variable with a value that is different in each run of tests.
RUN = "RUN_OF_TESTS"

#: The variable in which pytest names the test and its phase.
TEST = "PYTEST_CURRENT_TEST"


def outliving_the_test() -> dict[str, str]:
    """Return the environment of a program that may outlive the test that starts it."""
    return {name: value for name, value in os.environ.items() if name != TEST}


def outliving_all_tests() -> dict[str, str]:
    """Return the environment of a program that cleans up after the tests."""
    return {name: value for name, value in os.environ.items() if name not in {RUN, TEST}}
