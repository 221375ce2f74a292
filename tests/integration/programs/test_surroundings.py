"""Commands report problems of their environment (user, output, file permissions) in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import invoke
from zkdeployment.base.errors import ConfigurationError, RefusedError
from zkdeployment.base.machine.files import check_owner
from zkdeployment.config import settings as finding
from zkdeployment.programs import agent as wiring
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Iterator


_NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run this root process as an unprivileged user while the context is open."""
    os.setresuid(_NOBODY, _NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def program(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "zkdeployment", *map(str, arguments)]
    return subprocess.run(argv, stderr=subprocess.PIPE, check=False, **options)


@pytest.fixture
def closed() -> Iterator[Path]:
    """Yield a directory that only its owner, another user, may enter; its parent is accessible."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        directory = Path(place) / "closed"
        directory.mkdir(mode=0o700)
        os.chown(directory, 54321, -1)
        yield directory


def test_an_unreadable_configuration_is_an_error_only_where_it_is_needed(closed, monkeypatch):
    file = closed / "zkdeployment.cfg"
    file.write_text("[zkdeployment]\n")
    monkeypatch.setattr(finding, "SYSTEM_CONFIGURATION", file)
    for name in ("ZKDEPLOYMENT_CONFIG", "ZC_ZK_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with as_nobody():
        assert finding.find_servers("given:1", None) == Servers("given:1")
        with pytest.raises(ConfigurationError, match=f"cannot read the configuration {file}: Permission denied"):
            finding.find_servers(None, None)


def test_an_inaccessible_mirror_is_attributed_to_the_owner_of_its_directory(closed):
    with (
        as_nobody(),
        pytest.raises(RefusedError, match=f"{closed} belongs to the user 54321; run this command as"),
    ):
        check_owner(closed / "tree")


def test_a_user_without_a_name_has_the_home_of_the_environment(monkeypatch):
    monkeypatch.setenv("HOME", "/said")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    assert wiring._home() == "/said"
    monkeypatch.delenv("HOME")
    assert wiring._home() == "/"


def test_a_system_error_is_reported_in_one_line():
    name = "x" * 5000
    done = invoke("lint", name)
    assert (done.returncode, done.stderr) == (1, f"zkdeployment: {name}: File name too long\n")


def test_characters_outside_the_terminal_encoding_are_escaped(tmp_path):
    file = tmp_path / "a.zk"
    file.write_text("/a\n  title = 'gr\u00fc\u00df \u2192'\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = program("tree", "show", "--file", file, stdout=subprocess.PIPE, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\xfc\xdf \\u2192" in done.stdout


def test_a_closed_output_pipe_causes_no_error_message():
    reading, writing = os.pipe()
    os.close(reading)
    done = program("version", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("number", [1, 2])
def test_output_to_a_closed_stream_is_discarded_and_gets_into_no_other(tmp_path, number: int):
    (tmp_path / "a.zk").write_text("/a\n  title\n")
    argv = [sys.executable, "-m", "zkdeployment", "lint", str(tmp_path)]
    whole = subprocess.run(argv, capture_output=True, check=False)
    done = subprocess.run(argv, capture_output=True, check=False, preexec_fn=lambda: os.close(number))
    assert whole.returncode == 1
    assert whole.stdout
    assert whole.stderr
    assert done.returncode == 1
    assert (done.stdout, done.stderr) == ((b"", whole.stderr) if number == 1 else (whole.stdout, b""))
