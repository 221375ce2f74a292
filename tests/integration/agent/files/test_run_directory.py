"""The run directory with real files: lock, status, identity, version, session and last publication."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zkdeployment.agent.files import run_directory
from zkdeployment.agent.files.run_directory import RunDirectory
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.publication import Published

HOST = Identity("h1", "a.example.com", "web")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = RunDirectory(tmp_path / "a" / "run")
    directory.acquire()
    return directory


def test_a_second_agent_is_refused_and_the_first_is_named(run):
    with pytest.raises(RefusedError, match=rf"another agent \(process {os.getpid()}\) uses the run directory"):
        RunDirectory(run.path).acquire()
    run.release()
    second = RunDirectory(run.path)
    second.acquire()
    second.release()


@pytest.mark.parametrize("path", ["file", "file/run"])
def test_the_error_for_an_impossible_run_directory_gives_advice(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"run-directory .* cannot be written: .* set another run-directory"
    ):
        RunDirectory(tmp_path / path).acquire()


def test_a_read_only_run_directory_is_an_error():
    with pytest.raises(ConfigurationError, match="cannot be written"):
        RunDirectory(Path("/proc/self/run")).acquire()


def test_the_status_is_one_line_of_time_process_version_and_text(run):
    assert run.read_status() is None
    run.write_status("abc", "deploy\n/who 0")
    stamp, pid, version, status = (run.path / "status").read_text().rstrip("\n").split(" ", 3)
    assert abs(float(stamp) - time.time()) < 60
    assert (int(pid), version, status) == (os.getpid(), "abc", "deploy /who 0")
    run.write_status("a b", "done")
    assert (run.path / "status").read_text().split(" ")[2] == "a_b"
    assert run.read_status() == "done"
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "status"]


def test_a_failed_write_leaves_no_temporary_file(run):
    run.write_status("r1", "done")
    before = (run.path / "status").read_text()
    (run.path / "status").unlink()
    (run.path / "status").mkdir()
    (run.path / "status" / "x").touch()
    with pytest.raises(HostFilesError, match=r"cannot write .*/status"):
        run.write_status("r2", "done")
    assert before
    assert sorted(path.name for path in run.path.iterdir()) == ["lock", "status"]


def test_all_users_may_read_the_status_whatever_the_agents_umask(run):
    umask = os.umask(0o077)
    try:
        run.write_status("r1", "done")
    finally:
        os.umask(umask)
    assert (run.path / "status").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("revision", ["abc", "", 17, "1" * 40])
def test_a_written_version_is_read_back(run, revision):
    run.write_version(revision)
    assert run.read_version(HOST) == revision
    assert json.loads((run.path / "host_version").read_text()) == revision


def test_the_last_complete_publication_is_known_until_the_host_gets_another_identity(run):
    run.adopt(HOST)
    assert run.read_completed() is None
    run.write_version("r1", 5)
    assert run.read_completed() == 5
    run.clear_version("r1")
    run.clear_version(None)
    assert (run.read_version(HOST), run.read_completed()) == (None, 5)
    run.write_version("r2", 0)
    assert run.read_completed() is None, "it was set by hand"
    run.write_version("r3", 6)
    run.adopt(Identity("h1", "a.example.com", "db"))
    assert run.read_completed() is None


def test_the_directory_of_the_release_before_has_no_complete_publication(run):
    (run.path / "host_version").write_text('"r1"')
    (run.path / "former_version").write_text("null")
    assert (run.read_version(HOST), run.read_completed()) == ("r1", None)


def test_the_sequence_of_a_version_is_right_before_and_after_the_version_is_replaced(run):
    assert run.read_sequence("r1") == 0
    run.write_version("r1", 5)
    assert run.read_sequence("r1") == 5
    run.write_version("r2", 6)
    (run.path / "host_version").write_text('"r1"')  # as if the agent was killed between the two files
    assert (run.read_sequence(run.read_version(HOST)), run.read_sequence("r2")) == (5, 6)
    run.write_version("r3")  # set by hand: no publication
    assert run.read_sequence("r3") == 0
    for content in ("", "nonsense", "[]", '{"r3": true}', '{"r3": -1}', '{"r3": "7"}'):
        (run.path / "sequences").write_text(content)
        assert run.read_sequence("r3") == 0


@pytest.mark.parametrize("content", ["", "nonsense", "true", "1.5", '{"format": 2}', "null", "[" * 70_000])
def test_a_damaged_version_is_unknown(run, content):
    (run.path / "host_version").write_text(content)
    assert run.read_version(HOST) is None


def test_an_incomplete_deployment_clears_the_version_and_keeps_the_former_one(run):
    run.adopt(HOST)
    assert not run.is_changing()
    run.write_version("r1")
    assert (run.read_former_version(), run.is_changing()) == (None, False)
    run.clear_version("r1")
    run.clear_version(None)  # another deployment, before the first was complete
    restarted = RunDirectory(run.path)
    restarted.adopt(HOST)
    assert restarted.read_version(HOST) is None
    assert (restarted.read_former_version(), restarted.is_changing()) == ("r1", True)
    restarted.write_version("r2")
    assert restarted.read_version(HOST) == "r2"
    assert (restarted.read_former_version(), restarted.is_changing()) == (None, False)


def test_a_new_host_has_no_former_version(run):
    run.adopt(HOST)
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
def test_a_deployment_that_an_older_agent_did_not_complete_clears_the_version(run, status, version):
    (run.path / "host_version").write_text('"r1"')
    if status is not None:
        (run.path / "status").write_text(f"1700000000.0 17 {status}\n")
    assert run.read_version(HOST) == version
    run.adopt(HOST)
    run.write_status("r3", "plan")  # by a current agent, which clears the version itself
    assert RunDirectory(run.path).read_version(HOST) == version
    assert run.read_former_version() == (None if version else "r1")


def test_a_version_that_is_no_regular_file_is_unknown_and_replaced(run):
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
def test_a_changed_identity_clears_the_version_permanently(run, other):
    run.adopt(HOST)
    run.write_version("r1")
    assert run.read_version(other) is None
    run.adopt(other)
    assert run.read_version(other) is None
    run.adopt(HOST)  # before a deployment as the other identity was complete
    assert run.read_version(HOST) is None


def test_an_unchanged_identity_keeps_the_version_over_restarts_and_upgrades(run):
    run.write_version("r1")  # by zc.zkdeployment, which recorded no identity
    for identity in (HOST, HOST):
        run.adopt(identity)
        assert run.read_version(identity) == "r1"


@pytest.mark.parametrize("content", ["", "17", "{}", '{"id": 1, "name": [], "role": {}}'])
def test_a_damaged_identity_is_unknown_and_replaced(run, content):
    run.write_version("r1")
    (run.path / "identity").write_text(content)
    run.adopt(HOST)
    assert run.read_version(HOST) == "r1"
    assert json.loads((run.path / "identity").read_text()) == {"id": "h1", "name": "a.example.com", "role": "web"}


def test_a_written_session_is_read_back(run):
    assert run.read_session() is None
    run.write_session(0x1000_0000_0001)
    assert run.read_session() == 0x1000_0000_0001


@pytest.mark.parametrize("content", ['"x"', "17", "{}", "nonsense"])
def test_a_damaged_session_is_unknown(run, content):
    (run.path / "session").write_text(content)
    assert run.read_session() is None
    assert run.read_queues() is None


def test_the_queues_belong_to_the_session_and_to_those_of_later_agents_until_they_are_replaced(run):
    run.write_session(17)
    assert run.read_queues() is None, "the agent has recorded none yet"
    run.write_queues({"p1": "shop,web"})
    run.release()
    successor = RunDirectory(run.path)
    successor.acquire()
    assert (successor.read_session(), successor.read_queues()) == (17, {"p1": "shop,web"})
    successor.write_session(18)
    assert (successor.read_session(), successor.read_queues()) == (18, {"p1": "shop,web"})
    successor.write_queues({})
    successor.write_session(19)
    assert (successor.read_session(), successor.read_queues()) == (19, {})


def test_the_requests_of_a_host_are_read_back_by_later_agents_of_this_host_only(run):
    run.write_session(17)
    run.write_queues({"p1": "shop,web"})
    assert run.read_requests("h1") is None
    run.write_requests("h1", {"web": None, "db": "/role-locks/db/lr-1"})
    run.release()
    successor = RunDirectory(run.path)
    successor.acquire()
    successor.write_session(18)
    assert successor.read_requests("h1") == {"web": None, "db": "/role-locks/db/lr-1"}
    assert successor.read_requests("h2") is None
    assert (successor.read_session(), successor.read_queues()) == (18, {"p1": "shop,web"})
    successor.write_requests("h2", {})
    assert (successor.read_requests("h2"), successor.read_requests("h1")) == ({}, None)


def test_the_session_is_unknown_in_a_copy_of_the_directory(run, tmp_path):
    run.write_session(17)
    copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
    copy.acquire()
    assert copy.read_session() is None
    assert run.read_session() == 17


def test_the_session_is_unknown_after_a_reboot(run, tmp_path, monkeypatch):
    run.write_session(17)
    run.release()
    run.acquire()
    assert run.read_session() == 17
    (tmp_path / "boot_id").write_text("another\n")
    monkeypatch.setattr(run_directory, "_BOOT_ID", tmp_path / "boot_id")
    run.release()
    run.acquire()
    assert run.read_session() is None


def test_a_written_publication_is_read_back(run):
    assert run.read_published() == Published()
    run.write_published(Published(revision="abc", sequence=7))
    assert RunDirectory(run.path).read_published() == Published(revision="abc", sequence=7)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b'{"sequence": "7"}', b'{"sequence": -1}', b"\xff", b"[" * 4000]
)
def test_a_damaged_publication_is_unknown_and_logged(run, content):
    (run.path / "published").write_bytes(content)
    with capture_logs() as logs:
        assert run.read_published() == Published()
    assert [(line["log_level"], line["event"]) for line in logs] == [("warning", "host-file-unreadable")]


def test_an_unwritable_publication_is_an_error(run):
    (run.path / "published").mkdir()
    (run.path / "published" / "x").touch()
    with pytest.raises(HostFilesError, match=r"cannot write .*published"):
        run.write_published(Published(revision="abc", sequence=7))
