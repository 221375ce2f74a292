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
from zkdeployment.base.cluster import Revision
from zkdeployment.base.deployment import DeploymentFailure
from zkdeployment.base.errors import ConfigurationError, HostFilesError, RefusedError
from zkdeployment.base.host import Identity
from zkdeployment.base.publication import Published
from zkdeployment.base.stop import Stop
from zkdeployment.strategies.permission import Failure

HOST = Identity("h1", "a.example.com", "web")


FAILURE = Failure(
    Stop("h1", "h1.example.com", "r1", "deploy /web 0", "it failed", 1.0), DeploymentFailure(1, "deploy /web 0")
)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return started(tmp_path / "a" / "run")


def started(path: Path) -> RunDirectory:
    """Return the run directory of an agent that has started, which may be another one than before."""
    directory = RunDirectory(path)
    with directory.locked():
        return directory


def version_of(run: RunDirectory, identity: Identity = HOST) -> Revision | None:
    """Return the version of the host, as an agent with this identity would start with it."""
    return run.read_host(identity).version


def test_a_second_agent_is_refused_and_the_first_is_named(run):
    refusal = rf"another agent \(process {os.getpid()}\) uses the run directory"
    with run.locked(), pytest.raises(RefusedError, match=refusal), RunDirectory(run.path).locked():
        pass
    with RunDirectory(run.path).locked(), RunDirectory(run.path.with_name("other")).locked():
        pass


def test_only_the_user_of_the_agent_can_hold_its_locks(run, tmp_path):
    (run.path / "lock").chmod(0o644)  # as a former agent made it
    with run.locked(tmp_path):
        locks = run.path / "lock", run_directory.lasting_directory(tmp_path) / "lock"
        assert [file.stat().st_mode & 0o777 for file in locks] == [0o600, 0o600]


def test_two_agents_with_one_root_are_refused(run, tmp_path):
    other = RunDirectory(tmp_path / "other")
    with run.locked(tmp_path / "root"):
        with pytest.raises(RefusedError, match=r"uses the root directory .*; stop .*, or set another root"):
            other.locked(tmp_path / "root").__enter__()
        with other.locked(tmp_path / "another"):
            pass


@pytest.mark.parametrize("path", ["file", "file/run"])
def test_the_error_for_an_impossible_run_directory_gives_advice(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"run-directory .* cannot be written: .* set another run-directory"
    ):
        RunDirectory(tmp_path / path).locked().__enter__()


def test_a_read_only_run_directory_is_an_error():
    with pytest.raises(ConfigurationError, match="cannot be written"):
        RunDirectory(Path("/proc/self/run")).locked().__enter__()


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


def test_all_users_may_read_the_status_with_any_umask_of_the_agent(run):
    umask = os.umask(0o077)
    try:
        run.write_status("r1", "done")
    finally:
        os.umask(umask)
    assert (run.path / "status").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("revision", ["abc", "", 17, "1" * 40])
def test_a_written_version_is_read_back(run, revision):
    run.version.write(revision)
    assert version_of(run) == revision
    assert json.loads((run.path / "host_version").read_text()) == revision


def test_the_last_complete_publication_is_known_until_the_host_gets_another_identity(run):
    run.adopt(HOST)
    assert run.read_host(HOST).completed is None
    run.version.write("r1", 5)
    assert run.read_host(HOST).completed == 5
    run.version.clear("r1")
    run.version.clear(None)
    assert (version_of(run), run.read_host(HOST).completed) == (None, 5)
    run.version.write("r2", 0)
    assert run.read_host(HOST).completed is None, "it was set by hand"
    run.version.write("r3", 6)
    run.adopt(Identity("h1", "a.example.com", "db"))
    assert run.read_host(HOST).completed is None


def test_the_directory_of_the_release_before_has_no_complete_publication(run):
    (run.path / "host_version").write_text('"r1"')
    (run.path / "former_version").write_text("null")
    assert (version_of(run), run.read_host(HOST).completed) == ("r1", None)


def test_the_sequence_of_a_version_is_right_before_and_after_the_version_is_replaced(run):
    assert run.version.read().sequence("r1") == 0
    run.version.write("r1", 5)
    assert run.version.read().sequence("r1") == 5
    run.version.write("r2", 6)
    (run.path / "host_version").write_text('"r1"')  # as if the agent was killed between the two files
    assert (run.version.read().sequence(version_of(run)), run.version.read().sequence("r2")) == (5, 6)
    run.version.write("r3")  # set by hand: no publication
    assert run.version.read().sequence("r3") == 0
    for content in ("", "nonsense", "[]", '{"r3": true}', '{"r3": -1}', '{"r3": "7"}'):
        (run.path / "sequences").write_text(content)
        assert run.version.read().sequence("r3") == 0


@pytest.mark.parametrize("content", ["", "nonsense", "true", "1.5", '{"format": 2}', "null", "[" * 70_000])
def test_a_damaged_version_is_unknown(run, content):
    (run.path / "host_version").write_text(content)
    assert version_of(run) is None


def test_an_incomplete_deployment_clears_the_version_and_keeps_the_former_one(run):
    run.adopt(HOST)
    assert not run.version.read().is_changing
    run.version.write("r1")
    assert (run.read_host(HOST).former, run.version.read().is_changing) == (None, False)
    run.version.clear("r1")
    run.version.clear(None)  # another deployment, before the first was complete
    restarted = RunDirectory(run.path)
    restarted.adopt(HOST)
    assert version_of(restarted) is None
    assert (restarted.read_host(HOST).former, restarted.version.read().is_changing) == ("r1", True)
    restarted.version.write("r2")
    assert version_of(restarted) == "r2"
    assert (restarted.read_host(HOST).former, restarted.version.read().is_changing) == (None, False)


def test_a_new_host_has_no_former_version(run):
    run.adopt(HOST)
    run.version.clear(None)
    assert (version_of(run), run.read_host(HOST).former, run.version.read().is_changing) == (None, None, True)


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
    assert version_of(run) == version
    run.adopt(HOST)
    run.write_status("r3", "plan")  # by a current agent, which clears the version itself
    assert version_of(RunDirectory(run.path)) == version
    assert run.read_host(HOST).former == (None if version else "r1")


def test_a_version_that_is_not_a_regular_file_is_unknown_and_replaced(run):
    version = run.path / "host_version"
    version.mkdir()
    assert version_of(run) is None
    run.version.write("r1")
    assert version_of(run) == "r1"
    version.unlink()
    version.symlink_to("/etc/passwd")
    assert version_of(run) is None
    run.version.write("r2")
    assert (version_of(run), version.is_symlink()) == ("r2", False)


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
    run.version.write("r1")
    assert version_of(run, other) is None
    run.adopt(other)
    assert version_of(run, other) is None
    run.adopt(HOST)  # before a deployment as the other identity was complete
    assert version_of(run) is None


def test_an_unchanged_identity_keeps_the_version_over_restarts_and_upgrades(run):
    run.version.write("r1")  # by zc.zkdeployment, which recorded no identity
    for identity in (HOST, HOST):
        run.adopt(identity)
        assert version_of(run, identity) == "r1"


@pytest.mark.parametrize("content", ["", "17", "{}", '{"id": 1, "name": [], "role": {}}'])
def test_a_damaged_identity_is_unknown_and_replaced(run, content):
    run.version.write("r1")
    (run.path / "identity").write_text(content)
    run.adopt(HOST)
    assert version_of(run) == "r1"
    assert json.loads((run.path / "identity").read_text()) == {"id": "h1", "name": "a.example.com", "role": "web"}


def test_a_written_session_is_read_back(run):
    assert run.session.read_session() is None
    run.session.write_session(0x1000_0000_0001)
    assert run.session.read_session() == 0x1000_0000_0001


@pytest.mark.parametrize("content", ['"x"', "17", "{}", "nonsense"])
def test_a_damaged_session_is_unknown(run, content):
    (run.path / "session").write_text(content)
    assert run.session.read_session() is None
    assert run.session.read_queues() is None


def test_the_queues_belong_to_the_session_and_to_those_of_later_agents_until_they_are_replaced(run):
    run.session.write_session(17)
    assert run.session.read_queues() is None, "the agent has recorded none yet"
    run.session.write_queues({"p1": "shop,web"})
    successor = started(run.path)
    assert (successor.session.read_session(), successor.session.read_queues()) == (17, {"p1": "shop,web"})
    successor.session.write_session(18)
    assert (successor.session.read_session(), successor.session.read_queues()) == (18, {"p1": "shop,web"})
    successor.session.write_queues({})
    successor.session.write_session(19)
    assert (successor.session.read_session(), successor.session.read_queues()) == (19, {})


def test_the_requests_of_a_host_are_read_back_by_later_agents_of_this_host_only(run):
    run.session.write_session(17)
    run.session.write_queues({"p1": "shop,web"})
    assert run.session.read_requests("h1") is None
    run.session.write_requests("h1", {"web": None, "db": "/role-locks/db/lr-1"})
    successor = started(run.path)
    successor.session.write_session(18)
    assert successor.session.read_requests("h1") == {"web": None, "db": "/role-locks/db/lr-1"}
    assert successor.session.read_requests("h2") is None
    assert (successor.session.read_session(), successor.session.read_queues()) == (18, {"p1": "shop,web"})
    successor.session.write_requests("h2", {})
    assert (successor.session.read_requests("h2"), successor.session.read_requests("h1")) == ({}, None)


def test_the_session_is_unknown_in_a_copy_of_the_directory(run, tmp_path):
    run.session.write_session(17)
    copy = started(shutil.copytree(run.path, tmp_path / "copy"))
    assert copy.session.read_session() is None
    assert run.session.read_session() == 17


def test_the_session_is_unknown_after_a_reboot(run, monkeypatch):
    run.session.write_session(17)
    assert started(run.path).session.read_session() == 17
    monkeypatch.setattr(run_directory, "read_boot_id", lambda: "another")
    assert started(run.path).session.read_session() is None


def test_a_written_publication_is_read_back(run):
    assert run.published.load() is None
    run.published.save(Published(revision="abc", sequence=7))
    assert RunDirectory(run.path).published.load() == Published(revision="abc", sequence=7)


def test_the_last_publication_and_a_failure_of_a_former_agent_are_moved_where_they_outlive_a_boot(tmp_path):
    root, former = tmp_path / "root", RunDirectory(tmp_path / "run")
    with former.locked():
        former.published.save(Published(revision="abc", sequence=7))
        former.failure.save(FAILURE)

    directory = RunDirectory(tmp_path / "run", root)
    with directory.locked(root):
        shutil.rmtree(tmp_path / "run")

    assert directory.published.load() == Published(revision="abc", sequence=7)
    assert directory.failure.load() == FAILURE


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b'{"sequence": "7"}', b'{"sequence": -1}', b"\xff", b"[" * 4000]
)
def test_a_damaged_publication_is_unknown_and_logged(run, content):
    (run.path / "published").write_bytes(content)
    with capture_logs() as logs:
        assert run.published.load() is None
    assert [(line["log_level"], line["event"]) for line in logs] == [("warning", "host-file-unreadable")]


def test_an_unwritable_publication_is_an_error(run):
    (run.path / "published").mkdir()
    (run.path / "published" / "x").touch()
    with pytest.raises(HostFilesError, match=r"cannot write .*published"):
        run.published.save(Published(revision="abc", sequence=7))
