"""Checkouts of real git and Subversion repositories."""

import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.repository import Repository, Subversion
from zkdeployment.agent.checkouts.places import SYSTEMS
from zkdeployment.agent.checkouts.repositories import GitCheckouts, SvnCheckouts
from zkdeployment.base.errors import CheckoutError
from zkdeployment.tree.checkout import parse_checkout


@dataclass
class Origin:
    """A repository of one version control system, and the versions that name its contents."""

    scheme: str
    repository: Repository | Subversion

    def commit(self, files: dict[str, str]) -> str:
        """Commit files and return a version that always names this commit."""
        return f"{self.scheme}:{self.repository.url}#{self.repository.commit(files)}"

    @property
    def moving(self) -> str:
        """A version that names the latest commit."""
        return f"git:{self.repository.url}#main" if self.scheme == "git" else f"svn:{self.repository.url}"


@pytest.fixture(params=["git", "svn"])
def origin(request, tmp_path: Path) -> Origin:
    make = Repository if request.param == "git" else Subversion
    return Origin(request.param, make(tmp_path / "repository"))


def check_out(version: str, directory: Path) -> Path:
    checkout = parse_checkout(version)
    SYSTEMS[checkout.scheme]().check_out(checkout, directory)
    return directory


def update(version: str, directory: Path) -> None:
    checkout = parse_checkout(version)
    SYSTEMS[checkout.scheme]().update(checkout, directory)


def test_a_revision_is_checked_out(origin, tmp_path):
    first = origin.commit({"file": "one", "sub/file": "x"})
    second = origin.commit({"file": "two"})
    checkout = check_out(first, tmp_path / "first")
    assert (checkout / "file").read_text() == "one"
    assert (checkout / "sub/file").read_text() == "x"
    assert (check_out(second, tmp_path / "second") / "file").read_text() == "two"
    assert (check_out(origin.moving, tmp_path / "third") / "file").read_text() == "two"


def test_an_update_discards_local_changes_and_keeps_built_files(origin, tmp_path):
    origin.commit({"file": "one", "edited": "as committed"})
    checkout = check_out(origin.moving, tmp_path / "checkout")
    (checkout / "built").write_text("kept")
    (checkout / "edited").write_text("by hand")
    (checkout / "new").write_text("in the way")
    origin.commit({"file": "two", "new": "committed"})
    update(origin.moving, checkout)
    assert (checkout / "file").read_text() == "two"
    assert (checkout / "built").read_text() == "kept"
    assert (checkout / "edited").read_text() == "as committed"
    assert (checkout / "new").read_text() == "committed"


def test_a_missing_revision_is_an_error(origin, tmp_path):
    origin.commit({"file": "one"})
    version = origin.moving.partition("#")[0] + "#987654"
    with pytest.raises(CheckoutError, match="987654") as caught:
        check_out(version, tmp_path / "checkout")
    assert not caught.value.retry_helps


def test_a_missing_repository_is_an_error_that_no_retry_mends(origin, tmp_path):
    version = f"{origin.scheme}:file://{tmp_path}/missing#1"
    with pytest.raises(CheckoutError, match="missing") as caught:
        check_out(version, tmp_path / "checkout")
    assert not caught.value.retry_helps
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("version", ["git://127.0.0.1:1/x#1", "svn://127.0.0.1:1/x"])
def test_an_unreachable_server_may_be_tried_again(version, tmp_path):
    with pytest.raises(CheckoutError, match=r"127\.0\.0\.1") as caught:
        check_out(version, tmp_path / "checkout")
    assert caught.value.retry_helps


@pytest.mark.parametrize(("system", "version"), [(GitCheckouts(), "git:/srv/x#1"), (SvnCheckouts(), "svn:/srv/x")])
def test_a_missing_program_is_an_error(system, version, tmp_path, monkeypatch):
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckoutError, match=r"git.*No such file|svn is not|svn does not exist|cannot run svn"):
        system.check_out(parse_checkout(version), tmp_path / "checkout")


def test_git_prefers_tags_to_branches_and_branches_to_commits(tmp_path):
    repository = Repository(tmp_path / "repository")
    first = repository.commit({"file": "one"})
    repository.git("tag", "-a", "-m", "x", "name")
    repository.git("branch", "topic/name")
    second = repository.commit({"file": "two"})
    repository.git("branch", "name")
    repository.git("reset", "--quiet", "--hard", first)

    def content(revision: str) -> str:
        directory = tmp_path / revision.replace("/", "-")
        return (check_out(f"git:{repository.url}#{revision}", directory) / "file").read_text()

    assert content("name") == "one"
    assert content("topic/name") == "one"
    assert content(second[:10]) == "two"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_a_full_commit_id_is_never_a_tag_or_a_branch(tmp_path, form):
    repository = Repository(tmp_path / "repository")
    if form == "sha256":
        shutil.rmtree(repository.directory / ".git")
        repository.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    first = repository.commit({"file": "one"})
    repository.commit({"file": "two"})
    missing = "0123456789abcdef" * 4
    for name in (first, first.upper(), missing[:40], missing, missing.upper()):
        repository.git("update-ref", f"refs/heads/{name}", "HEAD")
        repository.git("update-ref", f"refs/tags/{name}", "HEAD")
    version = f"git:{repository.url}#"
    checkout = check_out(version + first, tmp_path / "checkout")
    assert (checkout / "file").read_text() == "one"
    update(version + first.upper(), checkout)
    assert (checkout / "file").read_text() == "one"
    for name in (missing[:40], missing, missing.upper()):
        with pytest.raises(CheckoutError, match=f"has no commit {name}, and a tag or a branch of this name"):
            update(version + name, checkout)


def test_the_id_of_a_tag_is_not_a_commit(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    repository.git("tag", "-a", "-m", "x", "name")
    tag = repository.git("rev-parse", "refs/tags/name")
    with pytest.raises(CheckoutError, match=f"has no commit {tag}"):
        check_out(f"git:{repository.url}#{tag}", tmp_path / "checkout")


def test_a_commit_with_forged_content_in_the_repository_is_refused(tmp_path):
    """The files of a local repository are not copied, because git verifies only what it transfers."""
    repository = Repository(tmp_path / "repository")
    first = repository.commit({"file": "one"})
    blob = repository.git("rev-parse", f"{first}:file")
    forged = repository.directory / ".git/objects" / blob[:2] / blob[2:]
    forged.chmod(0o600)
    forged.write_bytes(zlib.compress(b"blob 3\0two"))
    with pytest.raises(CheckoutError, match="git clone failed"):
        check_out(f"git:{repository.url}#{first}", tmp_path / "checkout")


def test_an_update_follows_a_moved_tag(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    repository.git("tag", "t")
    version = f"git:{repository.url}#t"
    checkout = check_out(version, tmp_path / "checkout")
    repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "again")
    repository.commit({"file": "two"})
    repository.git("tag", "--force", "t")
    update(version, checkout)
    assert (checkout / "file").read_text() == "two"


def test_git_runs_no_hooks_and_makes_no_hard_links_to_a_local_repository(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    hook = tmp_path / "template/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    checkout = check_out(f"git:{repository.url}#main", tmp_path / "checkout")
    (checkout / ".git/hooks").mkdir(exist_ok=True)
    (checkout / ".git/hooks/post-checkout").write_bytes(hook.read_bytes())
    (checkout / ".git/hooks/post-checkout").chmod(0o755)
    update(f"git:{repository.url}#main", checkout)
    assert not (tmp_path / "ran").exists()
    for parent, _, files in os.walk(checkout):
        assert all((Path(parent) / name).lstat().st_nlink == 1 for name in files)


def test_svn_updates_a_working_copy_that_lost_a_file(tmp_path):
    repository = Subversion(tmp_path / "repository")
    repository.commit({"file": "one"})
    checkout = check_out(f"svn:{repository.url}", tmp_path / "checkout")
    (checkout / "file").unlink()
    repository.commit({"file": "two"})
    update(f"svn:{repository.url}", checkout)
    assert (checkout / "file").read_text() == "two"


def test_svn_checks_out_a_directory_that_was_deleted_later(tmp_path):
    repository = Subversion(tmp_path / "repository")
    first = repository.commit({"trunk/file@odd": "one"})
    repository.svn("delete", "--quiet", "-m", "gone", f"{repository.url}/trunk")
    checkout = check_out(f"svn:{repository.url}/trunk#{first}", tmp_path / "checkout@1")
    assert (checkout / "file@odd").read_text() == "one"
