"""Limits of programs that run."""

from __future__ import annotations

import pytest

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine import process


def test_a_program_that_prints_too_much_is_killed():
    with pytest.raises(ProgramError, match="yes printed more than 1000 bytes and was killed"):
        process.run(["yes"], timeout=60, output_limit=1000)
    with pytest.raises(ProgramError, match="printed more than 1000 bytes"):
        process.run(["printf", "%01001d", "0"], timeout=60, output_limit=1000)
    assert len(process.run(["printf", "%01000d", "0"], timeout=60, output_limit=1000).stdout) == 1000
