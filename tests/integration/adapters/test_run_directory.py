"""The run directory: lock, status, version, session."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zkdeployment.adapters import run_directory
from zkdeployment.adapters.run_directory import RunDirectory
from zkdeployment.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.model.host import Identity
from zkdeployment.model.publication import Published

HOST = Identity("h1", "a.example.com", "web")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "a" / "run")
    directory.acquire()
    return directory


def test_one_agent_per_run_directory_and_the_other_is_named(run):
    with pytest.raises(RefusedError, match=rf"another agent \(process {os.getpid()}\) uses the run directory"):
        RunDirectory(run.path).acquire()
    run.release()
    second = RunDirectory(run.path)
    second.acquire()
    second.release()


@pytest.mark.parametrize("place", ["file", "file/run"])
def test_a_run_directory_that_cannot_be_made_says_what_to_do(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"run-directory .* cannot be written .* set another run-directory"
    ):
        RunDirectory(tmp_path / place).acquire()


def test_a_read_only_run_directory_says_what_to_do():
    with pytest.raises(ConfigurationError, match="cannot be written"):
        RunDirectory(Path("/proc/self/run")).acquire()


def test_the_status_is_one_line_of_time_process_version_and_words(run):
    assert run.read_status() is None
    run.write_status("abc", "deploy\n/who 0")
    stamp, pid, version, status = (run.path / "status").read_text().rstrip("\n").split(" ", 3)
    assert abs(float(stamp) - time.time()) < 60
    assert (int(pid), version, status) == (os.getpid(), "abc", "deploy /who 0")
    run.write_status("a b", "done")
    assert (run.path / "status").read_text().split(" ")[2] == "a_b"
    assert run.read_status() == "done"
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "status"]


def test_the_status_is_never_half_written(run):
    run.write_status("r1", "done")
    before = (run.path / "status").read_text()
    (run.path / "status").unlink()
    (run.path / "status").mkdir()
    (run.path / "status" / "x").touch()
    with pytest.raises(HostFilesError, match=r"cannot write .*/status"):
        run.write_status("r2", "done")
    assert before
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "status"]


def test_everybody_may_read_the_status_whatever_the_agents_umask(run):
    umask = os.umask(0o077)
    try:
        run.write_status("r1", "done")
    finally:
        os.umask(umask)
    assert (run.path / "status").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("revision", ["abc", "", 17, "1" * 40])
def test_the_version_reads_back(run, revision):
    run.write_version(revision)
    assert run.read_version(HOST) == revision
    assert json.loads((run.path / "host_version").read_text()) == revision


@pytest.mark.parametrize("content", ["", "nonsense", "true", "1.5", '{"format": 2}', "null", "[" * 70_000])
def test_a_version_that_makes_no_sense_is_unknown(run, content):
    (run.path / "host_version").write_text(content)
    assert run.read_version(HOST) is None


def test_a_host_whose_changes_begin_has_no_version_and_shows_the_one_before_until_the_next(run):
    run.become(HOST)
    assert not run.is_changing()
    run.write_version("r1")
    assert (run.read_former_version(), run.is_changing()) == (None, False)
    run.clear_version("r1")
    run.clear_version(None)  # another deployment, before the first was whole
    restarted = RunDirectory(run.path)
    restarted.become(HOST)
    assert restarted.read_version(HOST) is None
    assert (restarted.read_former_version(), restarted.is_changing()) == ("r1", True)
    restarted.write_version("r2")
    assert restarted.read_version(HOST) == "r2"
    assert (restarted.read_former_version(), restarted.is_changing()) == (None, False)


def test_a_host_that_never_had_a_version_has_none_before(run):
    run.become(HOST)
    run.clear_version(None)
    assert (run.read_version(HOST), run.read_former_version(), run.is_changing()) == (None, None, True)


@pytest.mark.parametrize(
    ("status", "version"),
    [
        (None, "r1"),
        ("r1 done", "r1"),
        ("r1 error", "r1"),
        ("r1 after", "r1"),
        ("r2 waits to deploy: the group is not begun", "r1"),
        ("r2 deploy /a 0", None),
        ("r2 error", None),
    ],
)
def test_what_an_older_agent_left_midway_has_no_version_any_more(run, status, version):
    (run.path / "host_version").write_text('"r1"')
    if status is not None:
        (run.path / "status").write_text(f"1700000000.0 17 {status}\n")
    assert run.read_version(HOST) == version
    run.become(HOST)
    run.write_status("r3", "plan")  # by an agent that gives the version up in time
    assert RunDirectory(run.path).read_version(HOST) == version
    assert run.read_former_version() == (None if version else "r1")


def test_a_version_that_is_no_file_is_unknown_and_replaced(run):
    version = run.path / "host_version"
    version.mkdir()
    assert run.read_version(HOST) is None
    run.write_version("r1")
    assert run.read_version(HOST) == "r1"
    version.unlink()
    version.symlink_to("/etc/passwd")
    assert run.read_version(HOST) is None
    run.write_version("r2")
    assert (run.read_version(HOST), version.is_symlink()) == ("r2", False)


@pytest.mark.parametrize(
    "other",
    [
        Identity("h2", HOST.name, "web"),
        Identity("h1", "b.example.com", "web"),
        Identity("h1", "a", "web"),
        Identity("h1", HOST.name),
    ],
)
def test_a_version_that_was_reached_as_somebody_else_is_forgotten_for_good(run, other):
    run.become(HOST)
    run.write_version("r1")
    assert run.read_version(other) is None
    run.become(other)
    assert run.read_version(other) is None
    run.become(HOST)  # before anything was deployed, or half-way
    assert run.read_version(HOST) is None


def test_a_host_stays_itself_over_restarts_and_upgrades(run):
    run.write_version("r1")  # by an agent that noted no identity
    for identity in (HOST, HOST):
        run.become(identity)
        assert run.read_version(identity) == "r1"


@pytest.mark.parametrize("content", ["", "17", "{}", '{"id": 1, "name": [], "role": {}}'])
def test_an_identity_that_makes_no_sense_is_unknown_and_replaced(run, content):
    run.write_version("r1")
    (run.path / "identity").write_text(content)
    run.become(HOST)
    assert run.read_version(HOST) == "r1"
    assert json.loads((run.path / "identity").read_text()) == {"id": "h1", "name": "a.example.com", "role": "web"}


def test_the_session_reads_back_and_is_unknown_at_first(run):
    assert run.read_session() is None
    run.write_session(0x1000_0000_0001)
    assert run.read_session() == 0x1000_0000_0001


@pytest.mark.parametrize("content", ['"x"', "17", "{}", "nonsense"])
def test_a_session_that_makes_no_sense_is_unknown(run, content):
    (run.path / "session").write_text(content)
    assert run.read_session() is None


def test_the_session_in_a_copy_of_the_directory_is_not_that_of_the_copy(run, tmp_path):
    run.write_session(17)
    copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
    copy.acquire()
    assert copy.read_session() is None
    assert run.read_session() == 17


def test_a_session_of_another_start_of_the_machine_is_unknown(run, tmp_path, monkeypatch):
    run.write_session(17)
    run.release()
    run.acquire()
    assert run.read_session() == 17
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(run_directory, "_BOOT_ID", tmp_path / "boot_id")
    run.release()
    run.acquire()
    assert run.read_session() is None


def test_the_last_publication_is_remembered(run):
    assert run.read_published() == Published()
    run.write_published(Published(revision="abc", sequence=7))
    assert RunDirectory(run.path).read_published() == Published(revision="abc", sequence=7)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b'{"sequence": "7"}', b'{"sequence": -1}', b"\xff", b"[" * 4000]
)
def test_a_memory_of_publications_that_makes_no_sense_is_unknown_with_a_warning(run, content):
    (run.path / "published").write_bytes(content)
    with capture_logs() as logs:
        assert run.read_published() == Published()
    assert [(line["log_level"], line["event"]) for line in logs] == [("warning", "publication-unknown")]


def test_a_memory_of_publications_that_cannot_be_written_says_so(run):
    (run.path / "published").mkdir()
    (run.path / "published" / "x").touch()
    with pytest.raises(HostFilesError, match=r"cannot write .*published"):
        run.write_published(Published(revision="abc", sequence=7))
