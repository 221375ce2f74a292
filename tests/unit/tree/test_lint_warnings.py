from __future__ import annotations

import pytest

from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.tree.lint import lint


def found(text: str) -> list[str]:
    return [str(problem) for problem in lint([SourceFile("a.zk", text.encode())]).problems]


@pytest.mark.parametrize(
    "line",
    [
        "password = 'hunter2'",
        "DB_PASSWORD = 'hunter2'",
        "api-key = 'abc'",
        "settings = {'user': 'me', 'secret': 'x'}",
        "tokens = ['a', 'b']",
        "database = 'postgres://me:hunter2@db/x'",
        "note = '-----BEGIN RSA PRIVATE KEY-----'",
        "key = 'AKIAIOSFODNN7EXAMPLE'",
    ],
)
def test_the_warning_about_a_secret_does_not_show_it(line: str):
    (problem,) = lint([SourceFile("a.zk", f"/a\n  /b\n    {line}\n".encode())]).problems
    assert problem.severity is Severity.WARNING
    assert str(problem).startswith("a.zk:2:3: /a/b: warning: ")
    assert f"{line.split(' = ', maxsplit=1)[0]} looks like a secret" in str(problem)
    assert "hunter2" not in str(problem)


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("1.10", "1.1"),
        ("2.0  # the new one", "2.0"),
        ("1.0", "1.0"),
        ("10", "10"),
        ("1_0", "10"),
        ("1e2", "100.0"),
        ("2.4-1", "1.4"),
        ("10-2", "8"),
    ],
)
def test_a_version_whose_number_has_another_text_is_a_warning(written: str, number: str):
    text = f"/a\n/b : shop\n  aversion = 1.10\n  version = {written}\n  note = 'version = 1.10'\n"
    shown = written.partition(" ")[0]
    message = f"a.zk:4:3: warning: version = {shown} is the number {number}; write version = '{shown}'"
    assert found(text) == ([] if shown == number else [message])


def test_the_lines_of_several_warnings_are_counted_from_the_first_line_even_if_it_is_empty():
    lines = [problem.split(":")[1] for problem in found("\n/a\n  version = 1.10\n\n/b\n  version = 2.10\n")]
    assert lines == ["3", "6"]


@pytest.mark.parametrize(
    "line",
    [
        "password = '/etc/secrets/db'",
        "password-file = 'file:///etc/secrets/db'",
        "token = '${TOKEN}'",
        "password = ''",
        "tokens = 5",
        "secret = None",
        "passenger = 'x'",
        "url = 'https://db.example.com/x'",
        "public = '-----BEGIN PUBLIC KEY-----'",
    ],
)
def test_references_to_secrets_are_allowed(line: str):
    assert found(f"/a\n  {line}\n") == []


def test_names_with_the_same_appearance_are_an_error():
    (problem,) = found("/a\n  gr\u00f6\u00dfe = 1\n  gro\u0308\u00dfe = 2\n")
    assert problem.startswith("a.zk:1:1: /a: the property 'gro\\u0308\\xdfe' is defined twice")


def test_a_name_in_one_spelling_is_allowed_in_several_nodes():
    assert found("/a\n  gr\u00f6\u00dfe = 1\n  /b\n    gro\u0308\u00dfe = 2\n") == []


def test_a_warning_does_not_suppress_link_problems():
    assert any("/a/nowhere" in match for match in found("/a\n  password = 'x'\n  l -> /a/nowhere\n"))


def test_nodes_with_the_same_appearance_are_an_error():
    (problem,) = found("/a\n  /caf\u00e9\n  /cafe\u0301\n")
    assert problem == (
        "a.zk:3:3: /a/cafe\u0301: the node '/a/cafe\\u0301' is defined twice, in two Unicode spellings that"
        " look the same"
    )
