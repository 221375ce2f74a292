"""Completion, in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent


def run(*argv):
    environment = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def complete(*arguments):
    """Return what bash offers for the last word."""
    typed = " ".join(f"'{word}'" for word in arguments)
    return run(
        "bash",
        "--norc",
        "-c",
        'eval "$(zkdeployment completion bash)"\n'
        f"COMP_WORDS=({typed}); COMP_CWORD={len(arguments) - 1}\n"
        "_zkdeployment_completion zkdeployment\n"
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ).split()


@pytest.mark.parametrize(
    ("message", "offered"),
    [
        (("zkdeployment", "st"), ["status", "stop"]),
        (("zkdeployment", "locks", "re"), ["release"]),
        (("zkdeployment", "status", "--wa"), ["--watch", "--wait"]),
        (("zkdeployment", "status", "-o", ""), ["table", "json", "yaml"]),
        (("zkdeployment", "--he"), ["--help"]),
    ],
)
def test_bash_offers_verbs_options_and_values(message, offered):
    assert complete(*message) == offered


@pytest.mark.parametrize(("shell", "message"), [("zsh", "#compdef zkdeployment"), ("fish", "complete --no-files")])
def test_completion_scripts_of_other_shells_are_printed(shell, message):
    assert message in run("zkdeployment", "completion", shell)
