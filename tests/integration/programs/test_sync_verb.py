"""The verb sync as a process: configuration, exit codes, signals, one process at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.repository import Subversion
from support.waiting import wait_until
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.machine.files import sole_process
from zkdeployment.programs.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.publishing import Publishing


TREE = "/who\n  /web : shop\n    version = '1.0'\n    /deploy\n      /h1\n"


@pytest.fixture
def config(publishing: Publishing, tmp_path: Path) -> Path:
    file = tmp_path / "x.cfg"
    file.write_text(
        f"[zkdeployment]\nhost-id = http://127.0.0.1:1/\nzookeeper = {publishing.zookeeper}\n"
        f"[sync]\nurl = {publishing.repository.url}\ntree-directory = {tmp_path}/var/tree\n"
    )
    return file


@pytest.fixture
def sync(config: Path, capsys: pytest.CaptureFixture[str]):
    def run(*argv: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["sync", str(config), *argv])
        printed = capsys.readouterr()
        return end.value.code, printed.out, printed.err

    return run


def test_sync_publishes_a_revision_once(sync, publishing: Publishing):
    revision = publishing.push(TREE)
    code, out, err = sync()
    assert (code, out) == (0, f"published {revision} (nodes: 4 added; targets: 1 changed)\n")
    assert '"event": "revision-published"' in err
    assert sync() == (0, f"nothing to do: {revision} is published\n", "")


def test_options_win_over_the_configuration(sync, publishing: Publishing, tmp_path: Path, monkeypatch):
    publishing.push(TREE)
    publishing.repository.git("checkout", "-q", "-b", "other")
    revision = publishing.push(TREE.replace("1.0", "1.1"))
    publishing.repository.git("checkout", "-q", "main")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(publishing.repository.directory, tmp_path / "copy")
    assert sync("-u", str(tmp_path / "copy"), "-b", "other", "-t", "here")[0] == 0
    assert publishing.version == revision
    assert (tmp_path / "here" / "HEAD").exists()


@pytest.mark.parametrize("mirror", [True, False], ids=["mirror", "place for it"])
def test_a_mirror_of_another_user_is_refused(sync, publishing: Publishing, tmp_path: Path, mirror: bool):
    publishing.push(TREE)
    theirs = tmp_path / "var" / "tree" if mirror else tmp_path / "var"
    theirs.mkdir(parents=True)
    os.chown(theirs, 54321, -1)
    code, _, err = sync()
    advice = "run this command as that user, for example with runuser -u"
    assert (code, err) == (3, f"zkdeployment: {theirs} belongs to the user 54321; {advice}\n")
    assert list(theirs.iterdir()) == []
    os.chown(theirs, os.geteuid(), -1)
    assert sync()[0] == 0


def test_a_subversion_tree_is_published_under_its_number(sync, publishing: Publishing, tmp_path: Path):
    subversion = Subversion(tmp_path / "svn")
    subversion.commit({"trunk/a.zk": TREE})
    assert sync("-u", f"{subversion.url}/trunk")[:2] == (0, "published 1 (nodes: 4 added; targets: 1 changed)\n")
    assert publishing.version == 1
    assert sync("-u", f"{subversion.url}/trunk")[1] == "nothing to do: 1 is published\n"
    code, _, err = sync("-u", subversion.url, "-b", "main")
    assert (code, "the branch is a part of url" in err) == (2, True)


def test_a_dry_run_prints_the_difference_and_changes_nothing(sync, publishing: Publishing, tmp_path: Path):
    revision = publishing.push(TREE)
    code, out, err = sync("--dry-run")
    assert (code, out.splitlines()[0], out.splitlines()[-1]) == (0, "add /who", "target h1")
    assert err == (
        "warning: no host runs what the tree deploys to h1; correct the name, or install the host\n"
        f"would be published {revision} (nodes: 4 added; targets: 1 changed); nothing was changed\n"
    )
    assert publishing.client.get_children("/") == []
    assert not (tmp_path / "var").exists()
    sync()
    assert sync("--dry-run") == (0, "", f"nothing to do: {revision} is published\n")


def test_a_deployed_node_without_a_file_causes_a_warning(sync, publishing: Publishing):
    publishing.push(TREE)
    sync()
    revision = publishing.push("/other\n")
    assert "warning: /who is in no file any more and stays unchanged" in sync("--dry-run")[2]
    code, out, err = sync()
    assert (code, out) == (0, f"published {revision} (nodes: 1 added; targets: 0 changed)\n")
    assert '"event": "tree-warning"' in err
    assert publishing.client.exists("/who/web/deploy/h1")
    code, out, err = sync("--prune", "--dry-run")
    assert (code, out.splitlines()) == (
        0,
        ["delete /who", "delete /who/web", "delete /who/web/deploy", "delete /who/web/deploy/h1", "target h1"],
    )
    assert publishing.client.exists("/who/web/deploy/h1")
    assert sync("--prune")[1] == f"published {revision} (nodes: 4 deleted; targets: 1 changed)\n"
    assert not publishing.client.exists("/who")
    assert sync("--prune")[:2] == (0, f"nothing to do: {revision} is published\n")


def test_the_history_records_who_forced_a_publication_and_why(sync, publishing: Publishing):
    publishing.push(TREE)
    assert sync("--reason", "it burns")[0] == 2
    assert sync("--force", "--reason", "it burns")[0] == 0
    (sequence,) = publishing.client.get_children("/zkdeployment/history")
    record = publishing.get(f"/zkdeployment/history/{sequence}")
    assert record is not None
    assert (record["subject"], record["reason"]) == ("a change", "it burns")
    assert "@" in str(record["forced_by"])


@pytest.mark.parametrize(
    ("cluster", "code", "message"),
    [
        ({"version": None}, 3, "zkdeployment: ALL STOP: the cluster version is null"),
        ({"version": "r0"}, 3, "zkdeployment: not converged"),
    ],
)
def test_a_refusal_is_one_line_and_force_overrules_it(
    sync, publishing: Publishing, cluster: dict[str, str | None], code: int, message: str
):
    revision = publishing.push(TREE)
    publishing.put("/hosts", cluster)
    publishing.register("h1", "older")
    for options in ((), ("--dry-run",)):
        exit_code, out, err = sync(*options)
        assert (exit_code, out, err.count("\n")) == (code, "", 1)
        assert err.startswith(message)
    assert sync("--force")[0] == 0
    assert publishing.version == revision


def test_an_invalid_tree_is_refused_with_the_place_of_every_error(sync, publishing: Publishing):
    publishing.push("/who\n  x = \n  y = f()\n")
    code, out, err = sync()
    assert (code, out) == (1, "")
    assert "a.zk:2:" in err
    assert "a.zk:3:" in err


def test_a_missing_repository_is_refused(sync, tmp_path: Path):
    code, _, err = sync("-u", f"{tmp_path}/nowhere")
    assert code == 1
    assert err.startswith(f"zkdeployment: there is no git repository at {tmp_path}/nowhere: ")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("--interval", "soon"), "interval: expected a positive number of seconds, found 'soon'"),
        (("--interval", "1", "--force"), "--force, --prune and --allow-… without it"),
        (("--interval", "1", "--prune"), "--force, --prune and --allow-… without it"),
        (("-b", "a b"), "branch: expected the name of a branch, found 'a b'"),
    ],
)
def test_options_that_cannot_be_used_are_errors(sync, argv: tuple[str, ...], problem: str):
    code, out, err = sync(*argv)
    assert (code, out) == (2, "")
    assert problem in err


def test_a_configuration_without_a_repository_is_an_error(sync, config: Path):
    config.write_text("[zkdeployment]\n")
    code, _, err = sync()
    assert (code, err) == (2, f"zkdeployment: {config}: url and tree-directory not specified in [sync]\n")


def test_a_failed_run_leaves_a_mark_with_its_reason(sync, publishing: Publishing, tmp_path: Path):
    mark = tmp_path / "var" / ".tree.unfinished"
    publishing.push("/who\n  x = y\n")
    assert sync()[0] == 1
    assert f"process {os.getpid()}: the tree of revision" in mark.read_text()
    assert "a.zk:2:7: /who: expected a number" in mark.read_text()
    publishing.push(TREE)
    assert sync()[0] == 0
    assert not mark.exists()


def test_a_run_that_is_killed_leaves_a_mark(config: Path, publishing: Publishing, tmp_path: Path):
    publishing.push(TREE)
    config.write_text(config.read_text().replace("[sync]", f"root = {tmp_path}\n[sync]"))
    environment = os.environ | {"ZKDEPLOYMENT_FAILPOINTS": "before:commit=kill"}
    argv = [sys.executable, "-m", "zkdeployment", "sync", str(config)]
    assert subprocess.run(argv, env=environment, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "var" / ".tree.unfinished").read_text().endswith(": under way, or killed\n")


def test_no_zookeeper_is_an_error(sync, config: Path, publishing: Publishing):
    config.write_text(config.read_text().replace(publishing.zookeeper, "127.0.0.1:1"))
    code, _, err = sync()
    assert code == 7
    assert "127.0.0.1:1" in err


@pytest.fixture
def daemon(config: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "zkdeployment", "sync", str(config), "--interval", "3600"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_syncs_at_once_at_sighup_and_ends_at_a_signal(
    daemon: subprocess.Popen[str], publishing: Publishing, sync, tmp_path: Path, number: signal.Signals
):
    first = publishing.push(TREE)
    wait_until(lambda: publishing.version == first, "the first revision is published")
    assert sync() == (0, "", f"another process syncs with the mirror {tmp_path}/var/tree: nothing was done\n")
    second = publishing.push(TREE.replace("1.0", "1.1"))
    daemon.send_signal(signal.SIGHUP)
    wait_until(lambda: publishing.version == second, "the second revision is published")
    daemon.send_signal(number)
    assert daemon.wait() == 0
    assert sync()[0] == 0


@pytest.mark.parametrize(
    "option",
    [
        "--force",
        *(
            pytest.param(f"--{word}", marks=pytest.mark.nightly)
            for word in ("prune", "allow-rewind", "allow-mass-removal")
        ),
    ],
)
def test_options_of_a_single_cycle_are_refused_while_a_daemon_runs(
    daemon: subprocess.Popen[str], publishing: Publishing, sync, tmp_path: Path, option: str
):
    first = publishing.push(TREE)
    wait_until(lambda: publishing.version == first, "the first revision is published")
    assert daemon.poll() is None
    code, out, err = sync(option)
    assert (code, out) == (3, "")
    assert f"another process syncs with the mirror {tmp_path}/var/tree: nothing was done; ask that process" in err


def test_a_failed_cycle_of_a_daemon_leaves_a_mark_with_its_reason(
    daemon: subprocess.Popen[str], publishing: Publishing, tmp_path: Path
):
    mark = tmp_path / "var" / ".tree.unfinished"
    first = publishing.push(TREE)
    wait_until(lambda: publishing.version == first and not mark.exists(), "the first cycle has ended")
    publishing.push("/who\n  x = y\n")
    daemon.send_signal(signal.SIGHUP)
    wait_until(lambda: mark.exists() and "a.zk:2:7: /who" in mark.read_text(), "the mark says what is wrong")
    publishing.push(TREE)
    daemon.send_signal(signal.SIGHUP)
    wait_until(lambda: not mark.exists(), "the mark is gone")


def test_a_daemon_that_is_killed_in_a_cycle_leaves_a_mark(config: Path, publishing: Publishing, tmp_path: Path):
    publishing.push(TREE)
    config.write_text(config.read_text().replace("[sync]", f"root = {tmp_path}\n[sync]"))
    environment = os.environ | {"ZKDEPLOYMENT_FAILPOINTS": "before:commit=kill"}
    argv = [sys.executable, "-m", "zkdeployment", "sync", str(config), "--interval", "3600"]
    assert subprocess.run(argv, env=environment, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "var" / ".tree.unfinished").read_text().endswith(": under way, or killed\n")


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot make the lock"), sole_process(tmp_path / "file" / "x"):
        raise AssertionError
