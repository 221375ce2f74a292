"""``tree fmt`` on files, directories and standard input."""

import os
from unittest import mock

import pytest
from click.testing import CliRunner

from zkdeployment.cli.verbs import tree

SLOPPY = '/a : web\r\n\t# why\r\n\tx="é"\r\n'
CANONICAL = "/a : web\n  # why\n  x = 'é'\n"
BROKEN = "/b\n  x =\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "sloppy.zk").write_bytes(SLOPPY.encode("utf-8-sig"))
    (tmp_path / "fine.zkx").write_text(CANONICAL)
    (tmp_path / "notes.yaml").write_text("a:   1\n")
    return tmp_path


def run(*arguments, stdin=None):
    result = CliRunner().invoke(tree.fmt, [str(argument) for argument in arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def contents(directory):
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def test_files_of_a_directory_are_written_in_their_canonical_form_and_keep_their_mode(files):
    (files / "sloppy.zk").chmod(0o640)
    before = contents(files)
    assert run(files) == (0, f"{files}/sloppy.zk\n", "2 files, 1 changed\n")
    assert contents(files) == {**before, "sloppy.zk": CANONICAL.encode()}
    assert (files / "sloppy.zk").stat().st_mode & 0o777 == 0o640
    assert run(files) == (0, "", "2 files, 0 changed\n")


def test_the_current_directory_is_the_default(files, monkeypatch):
    monkeypatch.chdir(files)
    assert run()[:2] == (0, "sloppy.zk\n")


def test_a_check_names_the_files_that_would_change_and_changes_none(files):
    before = contents(files)
    assert run("--check", files) == (4, f"{files}/sloppy.zk\n", "2 files, 1 not in the canonical form\n")
    assert contents(files) == before
    assert run("--check", files / "fine.zkx")[0] == 0


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_file_with_errors_is_reported_with_the_place_and_stays_as_it_is(files, options):
    (files / "broken.zk").write_text(BROKEN)
    code, out, err = run(*options, files)
    assert (code, out) == (1, f"{files}/sloppy.zk\n")
    assert f"{files}/broken.zk:2:6: /b: expected a value after =" in err
    assert (files / "broken.zk").read_text() == BROKEN


@pytest.mark.parametrize(
    ("stdin", "options", "code", "out"),
    [
        (SLOPPY, (), 0, CANONICAL),
        (CANONICAL, ("--check",), 0, ""),
        (SLOPPY, ("--check",), 4, "<stdin>\n"),
        (BROKEN, (), 1, ""),
    ],
)
def test_standard_input_is_formatted_to_standard_output(stdin, options, code, out):
    assert run(*options, "-", stdin=stdin)[:2] == (code, out)


def test_a_symbolic_link_stays_and_its_target_changes(files):
    (files / "link.zk").symlink_to("sloppy.zk")
    assert run(files / "link.zk")[0] == 0
    assert (files / "link.zk").is_symlink()
    assert (files / "sloppy.zk").read_text() == CANONICAL


def test_a_failed_write_leaves_the_file_and_nothing_else(files):
    before = contents(files)
    with mock.patch.object(os, "replace", side_effect=OSError(28, "No space left on device")):
        result = CliRunner().invoke(tree.fmt, [str(files)])
    assert f"cannot write {files}/sloppy.zk: No space left on device" in str(result.exception)
    assert contents(files) == before


@pytest.mark.parametrize("names", [("notes.yaml",), ("-", "sloppy.zk"), ("below",)])
def test_names_without_tree_files_are_refused(files, monkeypatch, names):
    (files / "below").mkdir()
    monkeypatch.chdir(files)
    code, out, err = run(*names)
    assert (code, out) == (2, "")
    assert "expected" in err
