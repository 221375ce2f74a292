"""Limits of programs that run."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

import pytest

from zkdeployment.base.errors import ProgramError
from zkdeployment.base.machine import process


def test_a_program_that_prints_too_much_is_killed():
    with pytest.raises(ProgramError, match="yes printed more than 1000 bytes and was killed"):
        process.run(["yes"], timeout=60, output_limit=1000)
    with pytest.raises(ProgramError, match="printed more than 1000 bytes"):
        process.run(["printf", "%01001d", "0"], timeout=60, output_limit=1000)
    assert len(process.run(["printf", "%01000d", "0"], timeout=60, output_limit=1000).stdout) == 1000


def test_input_is_given_only_after_the_program_has_asked_for_it():
    asked = process.run(["sh", "-c", "echo first; echo ready; cat"], text="input\n", ready=b"ready\n", timeout=60)
    assert asked.stdout == "first\nready\ninput\n"
    silent = process.run(["sh", "-c", "exec >&-; cat >&2; exit 3"], text="input\n", ready=b"ready\n", timeout=60)
    assert (silent.status, silent.stdout, silent.stderr) == (3, "", "")
    with pytest.raises(ProgramError, match=r"did not end within 0\.3 s and was killed"):
        process.run(["sh", "-c", "sleep 600; cat"], text="input\n", ready=b"ready\n", timeout=0.3)
    with pytest.raises(ProgramError, match="printed more than 5 bytes"):
        process.run(["sh", "-c", "echo 123456; cat"], text="input\n", ready=b"ready\n", output_limit=5)


def test_a_program_that_prints_without_end_before_its_input_is_ended_by_the_tick():
    def tick():
        raise ProgramError("it must end")

    with pytest.raises(ProgramError, match="it must end"):
        process.run(
            ["sh", "-c", "while echo x; do sleep 0.02; done"], text="", ready=b"ready", tick=tick, timeout=60
        )


def test_a_program_is_awaited_also_by_a_process_with_a_thousand_open_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with contextlib.ExitStack() as opened:
            for _ in range(1030):
                opened.enter_context(Path("/dev/null").open())
            done = process.run(["sh", "-c", "echo ready; cat"], text="input", ready=b"ready\n", timeout=60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert done.stdout == "ready\ninput"
