"""The scripts explain themselves on a machine on which nothing of the project is installed."""

import shutil
import sys
from pathlib import Path

import pytest

from support.commands import run

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def clone(tmp_path):
    """The directory of a fresh clone."""
    shutil.copytree(PROJECT / "scripts", tmp_path / "scripts")
    for name in ("src", "tests"):
        (tmp_path / name).symlink_to(PROJECT / name)
    return tmp_path


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("benchmark", "--agents AGENTS"),
        ("chaos", "--minutes MINUTES"),
        ("demo", "--keep"),
        ("manual", "DIRECTORY"),
        ("simulate", "--mutations"),
        ("test", "tests/unit"),
    ],
)
@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_installs_nothing(clone, script, option, words):
    python = Path(sys.base_prefix) / "bin"
    environment = {"PATH": f"{python}:/usr/bin:/bin", "HOME": str(clone), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run(clone / "scripts" / script, *words, env=environment)
    assert done.returncode == 0, done.stderr
    assert option in done.stdout
    assert sorted(file.name for file in clone.iterdir()) == ["scripts", "src", "tests"]
