"""The choice of the version control system for a URL, and properties of Subversion sources."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from support.repository import Repository, Subversion
from support.waiting import wait_until
from support.web.servers import silent_server
from zkdeployment.base.errors import ConfigurationError, SourceError
from zkdeployment.publishing import ports
from zkdeployment.publishing.sources.opening import open_source, system_of
from zkdeployment.publishing.sources.svn import SvnSource

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def subversion(tmp_path: Path) -> Subversion:
    return Subversion(tmp_path / "my repository")


@pytest.mark.parametrize(
    ("url", "system"),
    [
        ("svn://svn.example.com/tree", "svn"),
        ("svn+ssh://svn.example.com/tree", "svn"),
        ("svn:https://svn.example.com/tree", "svn"),
        ("git@git.example.com:ops/tree.git", "git"),
        ("https://git.example.com/tree.git", "git"),
        ("svnhost.example.com:tree.git", "git"),
        ("file:///nowhere", "git"),
    ],
)
def test_the_url_determines_the_system(url: str, system: str):
    assert system_of(url) == system


def test_the_system_of_a_local_repository_is_detected(tmp_path: Path):
    git, svn = Repository(tmp_path / "git"), Subversion(tmp_path / "svn with blank")
    git.commit({"a.zk": "/a\n"})
    svn.commit({"trunk/a.zk": "/a\n"})
    assert system_of(f"file://{git.directory}") == "git"
    for url in (svn.url, f"{svn.url}/trunk", f"{svn.url.replace(' ', '%20')}/trunk"):
        assert system_of(url) == "svn"
    assert open_source(f"file://{git.directory}", tmp_path / "mirror").fetch()
    assert open_source(f"{svn.url}/trunk", tmp_path / "mirror").fetch() == 1


def test_options_of_git_are_refused_for_subversion(tmp_path: Path):
    for problem, options in (("branch", {"branch": "main"}), ("allowed-signers", {"allowed_signers": tmp_path})):
        with pytest.raises(ConfigurationError, match=problem):
            open_source("svn://svn.example.com/tree", tmp_path / "mirror", **options)  # type: ignore[arg-type]


def test_the_revision_is_that_of_the_directorys_last_change(subversion: Subversion):
    first = subversion.commit({"trunk/a.zk": "/a\n"})
    subversion.commit({"elsewhere/b.zk": "/b\n"})
    source = SvnSource(f"{subversion.url}/trunk")
    assert source.fetch() == first
    third = subversion.commit({"trunk/a.zk": None, "trunk/b.zk": "/b\n"})
    assert source.fetch() == third == 3
    assert [file.name for file in source.files(first)] == ["a.zk"]
    assert [file.name for file in source.files("1")] == ["a.zk"]


def test_a_deleted_directory_is_an_error(subversion: Subversion):
    first = subversion.commit({"trunk/a.zk": "/a\n"})
    source = SvnSource(f"{subversion.url}/trunk", gap=60)
    subversion.commit({"trunk": None})
    with pytest.raises(SourceError, match="non-existent in revision 2"):
        source.fetch()
    assert [file.name for file in source.files(first)] == ["a.zk"]


def test_properties_of_files_do_not_change_their_content(subversion: Subversion):
    subversion.commit({"a.zk": "/a\n  x = '$Revision$'\n"})
    subversion.svn("propset", "svn:keywords", "Revision", str(subversion.copy / "a.zk"))
    subversion.svn("propset", "svn:eol-style", "native", str(subversion.copy / "a.zk"))
    subversion.svn("propset", "svn:externals", "^/a.zk b.zk", str(subversion.copy))
    revision = subversion.commit({})
    (file,) = SvnSource(subversion.url).files(revision)
    assert (file.name, file.content) == ("a.zk", b"/a\n  x = '$Revision$'\n")


def test_an_unreachable_server_is_tried_four_times_three_seconds_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, naps: list[float]
):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho tried >> {tmp_path}/tries\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("SVN_SSH", str(ssh))
    with pytest.raises(SourceError, match=r"cannot read svn\+ssh://svn\.example/tree: svn info failed: "):
        SvnSource("svn+ssh://svn.example/tree").fetch()
    assert (tmp_path / "tries").read_text().count("tried") == 4
    assert naps == [3, 3, 3]


def test_a_server_that_was_unreachable_once_is_read(
    subversion: Subversion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    revision = subversion.commit({"a.zk": "/a\n"})
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nif mkdir {tmp_path}/once 2>/dev/null; then exit 255; fi\nexec svnserve -t -r /\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("SVN_SSH", str(ssh))
    source = SvnSource(subversion.url.replace("file://", "svn+ssh://svn.example"), gap=0)
    assert source.fetch() == revision
    assert [file.content for file in source.files(revision)] == [b"/a\n"]


def test_a_hanging_server_is_a_timeout():
    with silent_server() as port:
        before = time.monotonic()
        with pytest.raises(SourceError, match=r"did not end within 0\.5 s and was killed"):
            SvnSource(f"svn://me:secret@127.0.0.1:{port}/tree", timeout=0.5, gap=60).fetch()
    assert time.monotonic() - before < 60


def test_a_hanging_ssh_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 3600\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("SVN_SSH", str(ssh))
    before = time.monotonic()
    for limit in (0.5, 5, 30):
        with pytest.raises(SourceError, match=f"did not end within {limit:g} s"):
            SvnSource("svn+ssh://svn.example/tree", timeout=limit, gap=60).fetch()
        if (tmp_path / "pid").exists():
            break  # else the machine was too slow to start ssh
    assert time.monotonic() - before < 60
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid), "ssh has ended")


def test_errors_contain_no_passwords():
    with pytest.raises(SourceError) as error:
        SvnSource("svn://me:secret@127.0.0.1:1/tree", gap=0).fetch()
    assert "secret" not in str(error.value)


def test_a_missing_svn_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="cannot run svn"):
        SvnSource("svn://svn.example.com/tree", gap=60).fetch()


def test_a_large_file_is_refused_before_it_is_read(subversion: Subversion, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ports, "MOST_BYTES_OF_A_FILE", 5)
    subversion.commit({"a.zk": "/long\n"})
    source = SvnSource(subversion.url)
    with pytest.raises(SourceError, match=r"a\.zk of revision 1 has 6 bytes; 5 are allowed"):
        source.files(source.fetch())


def test_a_commit_without_author_and_date_has_an_origin(subversion: Subversion):
    revision = subversion.commit({"a.zk": "/a\n"})
    hook = subversion.directory / "hooks" / "pre-revprop-change"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    for name in ("svn:author", "svn:date", "svn:log"):
        subprocess.run(
            ["svn", "propdel", "-q", "--revprop", "-r", str(revision), name, subversion.url], check=True
        )
    origin = SvnSource(subversion.url).origin(revision)
    assert (origin.author, origin.subject, origin.time) == ("nobody", "", 0.0)
