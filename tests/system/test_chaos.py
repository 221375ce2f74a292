"""A short run of chaos on real programs: the invariants hold, and nothing is left."""

import os
import sys
from pathlib import Path

import pytest

from support.commands import run

_TESTS = Path(__file__).parents[1]


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_fleet_keeps_its_invariants_under_faults(tmp_path):
    done = run(
        *("unshare", "--mount", "--propagation", "private", sys.executable, "-m", "chaos"),
        *("--minutes", "3", "--hosts", "3", "--seed", "13354"),
        env={**os.environ, "PYTHONPATH": str(_TESTS), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all invariants held" in done.stdout
    assert list(tmp_path.iterdir()) == []
