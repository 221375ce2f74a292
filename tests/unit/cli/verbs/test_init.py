import os
import re
import subprocess
from pathlib import Path

import git
import pytest
import yaml
from click.testing import CliRunner

from zkdeployment.cli.verbs import init, lint
from zkdeployment.cli.verbs.init import BEGINNING

HOOKS = Path(__file__).resolve().parents[4] / "etc" / "git"


def run(*arguments):
    return CliRunner().invoke(init.command, [str(argument) for argument in arguments])


def files(directory):
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file())


@pytest.mark.parametrize("exists", [False, True])
def test_the_written_tree_has_no_problems_and_the_commands_are_printed(tmp_path, exists):
    tree = tmp_path / "tree"
    if exists:
        tree.mkdir()
    result = run(tree)
    assert result.exit_code == 0, result.output
    assert "systemctl enable --now zkdeployment-agent" in result.stdout
    assert files(tree) == files(BEGINNING)
    assert os.access(tree / "hooks" / "pre-receive", os.X_OK)
    checked = CliRunner().invoke(lint.command, ["--strict", str(tree)])
    assert (checked.exit_code, checked.stdout) == (0, "")


def pre_commit_hooks(tree):
    (repository,) = yaml.safe_load((tree / ".pre-commit-config.yaml").read_text())["repos"]
    return {hook["id"]: hook for hook in repository["hooks"]}


def test_pre_commit_formats_the_tree_files_at_the_top(tmp_path):
    tree = tmp_path / "tree"
    run(tree)
    hook = pre_commit_hooks(tree)["zkdeployment-tree-fmt"]
    assert list(filter(re.compile(hook["files"]).search, files(tree))) == ["site.zk"]
    before = (tree / "site.zk").read_text()
    (tree / "site.zk").write_text(before.replace("version = ", "version="))
    subprocess.run([*hook["entry"].split(), "site.zk"], cwd=tree, check=True, capture_output=True)
    assert (tree / "site.zk").read_text() == before


def test_the_check_of_pre_commit_refuses_errors_in_the_index(tmp_path):
    tree = tmp_path / "tree"
    run(tree)
    check = pre_commit_hooks(tree)["zkdeployment-lint"]
    repository = git.Repo.init(tree)

    def commit():
        repository.git.add(all=True)
        words = check["entry"].split()
        return subprocess.run(
            words, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    assert commit().returncode == 0
    (tree / "site.zk").write_text("/jobs\n  x = wrong\n")
    assert "site.zk:2" in commit().stdout


@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_the_hooks_are_those_of_the_repository(hook):
    assert (BEGINNING / "hooks" / hook).read_bytes() == (HOOKS / hook).read_bytes()


def a_file(tmp_path):
    (tmp_path / "tree").touch()
    return tmp_path / "tree"


def a_directory_with_a_file(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".hidden").touch()
    return tmp_path / "tree"


def the_current_directory(_):
    return "."


def a_place_below_a_missing_directory(tmp_path):
    return tmp_path / "missing" / "tree"


@pytest.mark.parametrize(
    "place", [a_file, a_directory_with_a_file, the_current_directory, a_place_below_a_missing_directory]
)
def test_another_place_than_a_new_directory_is_refused_and_unchanged(tmp_path, place):
    directory = place(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = run(directory)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_left_if_a_file_cannot_be_written(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "chmod", fail)
    result = run(tmp_path / "tree")
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "No space left on device" in result.stderr
