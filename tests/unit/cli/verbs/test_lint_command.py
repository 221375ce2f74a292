import os
import shutil
from pathlib import Path

import git
import pytest
from click.testing import CliRunner

from support.strategies import EXAMPLE_FILE
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.verbs.lint import command

GOOD = "/who\n  /myfoo : foo\n    version = '1.0'\n    /deploy\n      /host1\n"


def run(*arguments: object):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_good_directory(tmp_path):
    (tmp_path / "a.zk").write_text(GOOD)
    (tmp_path / "b.zkx").write_text("/who\n  x = 1\n")
    (tmp_path / "README").write_text("hello")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.zk").write_text("rubbish")
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "2 files, 4 nodes, 0 errors, 0 warnings\n"


def make_link(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("name", "make", "kind"),
    [
        ("a.zk", make_link, "is a symbolic link; a tree file has to be a plain file"),
        ("a.zkx", os.mkfifo, "is a pipe, a socket or a device; a tree file has to be a plain file"),
        ("a\n.zk", Path.touch, "characters that cannot be printed"),
    ],
)
def test_tree_files_in_a_directory_that_the_syncer_refuses_are_refused(tmp_path, name, make, kind):
    make(tmp_path / name)
    with pytest.raises(ConfigurationError, match=kind):
        CliRunner().invoke(command, [str(tmp_path)], catch_exceptions=False)


def test_every_problem_is_a_line_and_errors_fail(tmp_path):
    (tmp_path / "a.zk").write_text("/a\n  x = oops\n  y z\n")
    (tmp_path / "b.zk").write_text("/b\n  /c : d\n    /deploy\n      /h\n")
    result = run(tmp_path)
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert [line.split(": ")[0] for line in lines] == [
        f"{tmp_path}/a.zk:2:7",
        f"{tmp_path}/a.zk:3:3",
        f"{tmp_path}/b.zk:2:3",
    ]
    assert result.stderr == "2 files, 5 nodes, 3 errors, 0 warnings\n"


def test_strategies_of_a_directory_are_checked_and_other_yaml_is_ignored(tmp_path):
    (tmp_path / "a.zk").write_text(GOOD)
    (tmp_path / "ci.yml").write_text("script: !reference [a, b]\n : [")
    (tmp_path / "below.yaml").mkdir()
    strategy = tmp_path / "strategy.yaml"
    shutil.copy(EXAMPLE_FILE, strategy)
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "2 files, 4 nodes, 0 errors, 0 warnings\n"
    strategy.write_text(strategy.read_text().replace("- ntp-node", "- ntp-nude", 1))
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{strategy}:15:11: data.groups[0].depends_on[0]: there is no group ntp-nude")


def test_a_strategy_may_be_checked_alone(tmp_path):
    assert run(EXAMPLE_FILE).exit_code == 0
    (tmp_path / "ci.yml").write_text("script: true\n")
    error = run(tmp_path / "ci.yml").exception
    assert isinstance(error, ConfigurationError)
    assert "expected schema: shipyard/DeploymentStrategy/v1 or" in str(error)


def test_files_given_by_name_are_one_tree(tmp_path):
    (tmp_path / "a.zk").write_text("/a\n  x => /b\n")
    (tmp_path / "b.zk").write_text("/b\n  x = 1\n")
    assert run(tmp_path / "a.zk", tmp_path / "b.zk").exit_code == 0


def test_warnings_fail_only_when_strict(tmp_path):
    (tmp_path / "a.zk").write_text("/a\n  l -> /elsewhere\n")
    result = run(tmp_path)
    assert result.exit_code == 0
    assert ": warning: " in result.stdout
    assert result.stderr == "1 file, 1 node, 0 errors, 1 warning\n"
    assert run("--strict", tmp_path).exit_code == 1


def test_directory_without_tree_files_fails(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 1
    assert result.stdout == "no tree file found: expected at least one *.zk or *.zkx\n"


@pytest.mark.parametrize("name", ["missing.zk", "missing.yaml", "missing", "README"])
def test_unreadable_files_are_a_usage_error(tmp_path, name):
    (tmp_path / "README").write_text("hello")
    error = run(tmp_path / name).exception
    assert isinstance(error, ConfigurationError)
    assert error.exit_code == 2
    assert name in str(error)


def test_help_has_an_example():
    assert "zkdeployment lint tree/" in run("--help").stdout


def test_revision_of_the_git_repository_around_is_checked(tmp_path, monkeypatch):
    repository = git.Repo.init(tmp_path)
    with repository.config_writer() as config:
        config.set_value("user", "name", "A Tester").set_value("user", "email", "tester@example.com")
    (tmp_path / "a.zk").write_text("/a b\n")
    repository.index.add(["a.zk"])
    repository.index.commit("Add a node")
    repository.close()
    (tmp_path / "a.zk").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert run("a.zk").exit_code == 0
    result = run("HEAD")
    assert result.exit_code == 1
    assert result.stdout == (
        "a.zk:1:1: expected /NODE or /NODE : TYPE; a node's name has no blanks, so a role with blanks cannot be a"
        " target\n"
    )


def test_a_strategy_that_is_not_in_force_is_an_error(tmp_path):
    shutil.copy(EXAMPLE_FILE, tmp_path / "a.yaml")
    spare = tmp_path / "b.yaml"
    spare.write_text(EXAMPLE_FILE.read_text().replace("name: deployment-strategy", "name: careful"))
    result = run(tmp_path)
    assert result.exit_code == 1
    assert f"{spare}:5:9: metadata.name: strategy careful is not in force, deployment-strategy is" in result.stdout
    assert "1 error, 0 warnings" in result.stderr
    (tmp_path / "a.yaml").unlink()
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "strategy careful is not in force; name it deployment-strategy" in result.stdout


def test_a_strict_check_asks_for_required_hosts(tmp_path):
    strategy = tmp_path / "strategy.yaml"
    shutil.copy(EXAMPLE_FILE, strategy)
    assert (run(strategy).exit_code, run(strategy).stdout) == (0, "")
    result = run("--strict", strategy)
    assert result.exit_code == 1
    groups = [line.partition("critical group ")[2].split()[0] for line in result.stdout.splitlines()]
    assert groups == ["control-nodes", "ntp-node"]
    strategy.write_text(strategy.read_text().replace("critical: true", "critical: true\n      require_hosts: 1"))
    assert (run("--strict", strategy).exit_code, run("--strict", strategy).stdout) == (0, "")
