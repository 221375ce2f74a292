"""Checkouts of real repositories: git and Subversion behave alike."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.repository import Repository
from support.subversion import Subversion
from zkdeployment.adapters.checkouts.git import GitCheckouts
from zkdeployment.adapters.checkouts.svn import SvnCheckouts
from zkdeployment.adapters.checkouts.systems import SYSTEMS
from zkdeployment.errors import CheckoutError
from zkdeployment.model.checkout import parse_checkout


@dataclass
class Place:
    """A repository, and how to call versions of it."""

    scheme: str
    repository: Repository | Subversion

    def commit(self, files: dict[str, str]) -> str:
        """Commit; return the version that stays the same."""
        return f"{self.scheme}:{self.repository.url}#{self.repository.commit(files)}"

    @property
    def moving(self) -> str:
        """The version that follows commits."""
        return f"git:{self.repository.url}#main" if self.scheme == "git" else f"svn:{self.repository.url}"


@pytest.fixture(params=["git", "svn"])
def place(request, tmp_path: Path) -> Place:
    make = Repository if request.param == "git" else Subversion
    return Place(request.param, make(tmp_path / "repository"))


def check_out(version: str, directory: Path) -> Path:
    checkout = parse_checkout(version)
    SYSTEMS[checkout.scheme].check_out(checkout, directory)
    return directory


def update(version: str, directory: Path) -> None:
    checkout = parse_checkout(version)
    SYSTEMS[checkout.scheme].update(checkout, directory)


def test_a_revision_is_checked_out(place, tmp_path):
    first = place.commit({"file": "one", "sub/file": "x"})
    second = place.commit({"file": "two"})
    found = check_out(first, tmp_path / "first")
    assert (found / "file").read_text() == "one"
    assert (found / "sub/file").read_text() == "x"
    assert (check_out(second, tmp_path / "second") / "file").read_text() == "two"
    assert (check_out(place.moving, tmp_path / "third") / "file").read_text() == "two"


def test_an_update_takes_what_is_new_and_keeps_what_was_built(place, tmp_path):
    place.commit({"file": "one", "edited": "as committed"})
    found = check_out(place.moving, tmp_path / "found")
    (found / "built").write_text("kept")
    (found / "edited").write_text("by hand")
    (found / "new").write_text("in the way")
    place.commit({"file": "two", "new": "committed"})
    update(place.moving, found)
    assert (found / "file").read_text() == "two"
    assert (found / "built").read_text() == "kept"
    assert (found / "edited").read_text() == "as committed"
    assert (found / "new").read_text() == "committed"


def test_a_revision_that_is_not_there_is_told(place, tmp_path):
    place.commit({"file": "one"})
    version = place.moving.partition("#")[0] + "#987654"
    with pytest.raises(CheckoutError, match="987654") as caught:
        check_out(version, tmp_path / "found")
    assert not caught.value.retry_helps


def test_a_repository_that_is_not_there_is_told_at_once(place, tmp_path):
    version = f"{place.scheme}:file://{tmp_path}/missing#1"
    with pytest.raises(CheckoutError, match="missing") as caught:
        check_out(version, tmp_path / "found")
    assert not caught.value.retry_helps
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("version", ["git://127.0.0.1:1/x#1", "svn://127.0.0.1:1/x"])
def test_a_server_that_is_out_of_reach_may_be_asked_again(version, tmp_path):
    with pytest.raises(CheckoutError, match=r"127\.0\.0\.1") as caught:
        check_out(version, tmp_path / "found")
    assert caught.value.retry_helps


@pytest.mark.parametrize(("system", "version"), [(GitCheckouts(), "git:/srv/x#1"), (SvnCheckouts(), "svn:/srv/x")])
def test_a_missing_program_is_told(system, version, tmp_path, monkeypatch):
    (tmp_path / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CheckoutError, match=r"git.*No such file|svn is not|svn does not exist|cannot run svn"):
        system.check_out(parse_checkout(version), tmp_path / "found")


def test_git_takes_tags_before_branches_before_commits(tmp_path):
    repository = Repository(tmp_path / "repository")
    first = repository.commit({"file": "one"})
    repository.git("tag", "-a", "-m", "x", "name")
    repository.git("branch", "topic/name")
    second = repository.commit({"file": "two"})
    repository.git("branch", "name")
    repository.git("branch", first)
    repository.git("reset", "--quiet", "--hard", first)

    def content(revision: str) -> str:
        directory = tmp_path / revision.replace("/", "-")
        return (check_out(f"git:{repository.url}#{revision}", directory) / "file").read_text()

    assert content("name") == "one"
    assert content("topic/name") == "one"
    assert content(second[:10]) == "two"
    assert content(first) == "two"


def test_a_tag_or_branch_that_was_moved_is_followed(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    repository.git("tag", "t")
    version = f"git:{repository.url}#t"
    found = check_out(version, tmp_path / "found")
    repository.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "again")
    repository.commit({"file": "two"})
    repository.git("tag", "--force", "t")
    update(version, found)
    assert (found / "file").read_text() == "two"


def test_git_runs_no_hooks_and_shares_no_files_with_a_local_repository(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({"file": "one"})
    hook = tmp_path / "template/hooks/post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    found = check_out(f"git:{repository.url}#main", tmp_path / "found")
    (found / ".git/hooks").mkdir(exist_ok=True)
    (found / ".git/hooks/post-checkout").write_bytes(hook.read_bytes())
    (found / ".git/hooks/post-checkout").chmod(0o755)
    update(f"git:{repository.url}#main", found)
    assert not (tmp_path / "ran").exists()
    for parent, _, files in os.walk(found):
        assert all((Path(parent) / name).lstat().st_nlink == 1 for name in files)


def test_an_svn_that_was_killed_does_not_hinder_the_next(tmp_path):
    repository = Subversion(tmp_path / "repository")
    repository.commit({"file": "one"})
    found = check_out(f"svn:{repository.url}", tmp_path / "found")
    (found / "file").unlink()
    repository.commit({"file": "two"})
    update(f"svn:{repository.url}", found)
    assert (found / "file").read_text() == "two"


def test_svn_takes_a_directory_as_it_was_at_a_revision(tmp_path):
    repository = Subversion(tmp_path / "repository")
    first = repository.commit({"trunk/file@odd": "one"})
    repository.svn("delete", "--quiet", "-m", "gone", f"{repository.url}/trunk")
    found = check_out(f"svn:{repository.url}/trunk#{first}", tmp_path / "found@1")
    assert (found / "file@odd").read_text() == "one"
