"""How the program starts."""

import subprocess
import sys

import pytest

_UNCONFIGURED = "ZKDEPLOYMENT UNKNOWN - there is no configuration file /does/not/exist.cfg"
_CHECK = """
import sys
from zkdeployment.programs.main import check
try:
    check()
finally:
    print("click" in sys.modules)
"""


@pytest.mark.parametrize(
    ("options", "parsed"),
    [
        ((), False),
        (("-w", "200", "-c", "600"), False),
        (("-c", "600", "-w", "200"), True),
        (("-w", "100:200", "-c", "600"), True),
    ],
)
def test_a_check_of_a_host_with_plain_limits_gives_the_same_answer_without_the_parser_of_options(options, parsed):
    argv = [sys.executable, "-c", _CHECK, "/does/not/exist.cfg", *options]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    line, imported = ended.stdout.splitlines()
    assert (ended.returncode, imported) == (3, str(parsed))
    assert line == _UNCONFIGURED


@pytest.mark.parametrize("limit", ["fast", "-5", "²", "9" * 5000])
def test_a_limit_that_is_not_a_number_is_wrong_usage(limit):
    argv = [sys.executable, "-c", _CHECK, "/does/not/exist.cfg", "-w", limit, "-c", "600"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (3, "")
    assert "is not a range: expected a form like 200, 10:20" in ended.stdout
