import os

import pytest

from zkdeployment.base.errors import ConfigurationError, ProgramError
from zkdeployment.base.machine import process
from zkdeployment.sandbox.repositories import Branch


@pytest.fixture
def branch(tmp_path):
    made = Branch(tmp_path / "tree.git", tmp_path / "push.git")
    made.create()
    return made


@pytest.fixture
def tree(tmp_path):
    directory = tmp_path / "a tree"
    directory.mkdir()
    (directory / "a.zk").write_text("/a\n", encoding="utf-8")
    return directory


def git(*arguments: str):
    return process.run(["git", *arguments]).check().stdout


def content(branch, revision="main"):
    names = git("--git-dir", str(branch.bare), "ls-tree", "-r", "--name-only", revision).split()
    return {name: git("--git-dir", str(branch.bare), "show", f"{revision}:{name}") for name in names}


def test_push_makes_a_directory_the_branchs_content(branch, tree):
    first = branch.push(tree, "one")
    (tree / "a.zk").unlink()
    (tree / "below").mkdir()
    (tree / "below" / "b.zk").write_text("/b\n", encoding="utf-8")
    second = branch.push(tree, "two")
    assert content(branch, first) == {"a.zk": "/a\n"}
    assert content(branch) == {"below/b.zk": "/b\n"}
    assert git("--git-dir", str(branch.bare), "log", "--format=%H %s", "main").splitlines() == [
        f"{second} two",
        f"{first} one",
    ]


def test_push_without_a_change_commits_nothing(branch, tree):
    first = branch.push(tree, "one")
    assert branch.push(tree, "again") == first


def test_ignored_files_are_pushed_and_the_git_directory_is_not(branch, tree):
    branch.push(tree, "one")
    clone = tree.parent / "clone"
    git("clone", "--quiet", branch.url, str(clone))
    (clone / ".gitignore").write_text("*.zkx\n", encoding="utf-8")
    (clone / "a.zkx").write_text("/a\n", encoding="utf-8")
    branch.push(clone, "two")
    assert set(content(branch)) == {".gitignore", "a.zk", "a.zkx"}


def test_push_continues_after_pushes_of_others(branch, tree):
    branch.push(tree, "one")
    clone = tree.parent / "clone"
    git("clone", "--quiet", branch.url, str(clone))
    here = ["-C", str(clone), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    git(*here, "commit", "--quiet", "--allow-empty", "-m", "theirs")
    git(*here, "push", "--quiet")
    (tree / "b.zk").write_text("/b\n", encoding="utf-8")
    branch.push(tree, "ours")
    assert git("--git-dir", str(branch.bare), "log", "--format=%s", "main").split() == ["ours", "theirs", "one"]


def test_the_error_for_a_rejected_push_has_the_reason_and_nothing_changes(branch, tree):
    first = branch.push(tree, "one")
    hook = branch.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    (tree / "b.zk").write_text("/b\n", encoding="utf-8")
    with pytest.raises(ProgramError, match="not today"):
        branch.push(tree, "two")
    assert git("--git-dir", str(branch.bare), "rev-parse", "main").strip() == first


def test_the_users_git_settings_do_not_matter(branch, tree, tmp_path, monkeypatch):
    settings = tmp_path / "gitconfig"
    settings.write_text(
        "[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n\tautocrlf = true\n", encoding="utf-8"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.fspath(settings))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    (tree / "a.zk").write_bytes(b"/a\r\n")
    branch.push(tree, "one")
    monkeypatch.delenv("GIT_DIR")
    assert set(content(branch)) == {"a.zk"}


def test_only_a_directory_can_be_pushed(branch, tree):
    with pytest.raises(ConfigurationError, match="expected a directory of tree files"):
        branch.push(tree / "a.zk", "one")
