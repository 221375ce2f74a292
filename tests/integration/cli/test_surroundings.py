"""Where verbs are called: by whom, into what, with what around them. What is wrong there is told in a line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import invoke
from support.users import as_nobody
from zkdeployment.adapters.process_lock import check_owner
from zkdeployment.cli.shared import options
from zkdeployment.errors import ConfigurationError, RefusedError
from zkdeployment.model.servers import Servers
from zkdeployment.wiring import agent as wiring

if TYPE_CHECKING:
    from collections.abc import Iterator


def program(*words: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "zkdeployment", *map(str, words)]
    return subprocess.run(argv, stderr=subprocess.PIPE, timeout=60, check=False, **options)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A directory of another user that nobody else may enter, in one that is open."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        directory = Path(place) / "closed"
        directory.mkdir(mode=0o700)
        os.chown(directory, 54321, -1)
        yield directory


def test_a_configuration_in_a_closed_directory_is_told_and_not_missed_where_it_is_not_needed(closed, monkeypatch):
    file = closed / "zkdeployment.cfg"
    file.write_text("[zkdeployment]\n")
    monkeypatch.setattr(options, "SYSTEM_CONFIGURATION", file)
    for name in ("ZKDEPLOYMENT_CONFIG", "ZC_ZK_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with as_nobody():
        assert options.find_connection("given:1", None) == Servers("given:1")
        with pytest.raises(ConfigurationError, match=f"cannot read the configuration {file}: Permission denied"):
            options.find_connection(None, None)


def test_a_mirror_in_a_closed_directory_is_the_business_of_whose_that_is(closed):
    with (
        as_nobody(),
        pytest.raises(RefusedError, match=f"{closed} belongs to the user 54321; run this command as"),
    ):
        check_owner(closed / "tree")


def test_a_user_without_a_name_has_the_home_that_is_said(monkeypatch):
    monkeypatch.setenv("HOME", "/said")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert wiring._home() == "/said"
    monkeypatch.delenv("HOME")
    assert wiring._home() == "/"


def test_what_the_system_refuses_is_told_in_one_line():
    name = "x" * 5000
    done = invoke("lint", name)
    assert (done.returncode, done.stderr) == (1, f"zkdeployment: {name}: File name too long\n")


def test_what_the_encoding_of_the_terminal_does_not_have_is_shown_all_the_same(tmp_path):
    file = tmp_path / "a.zk"
    file.write_text("/a\n  title = 'gr\u00fc\u00df \u2192'\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = program("tree", "show", "--file", file, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\xfc\xdf \\u2192" in done.stdout


def test_a_reader_that_goes_away_is_told_nothing():
    reading, writing = os.pipe()
    os.close(reading)
    done = program("version", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
