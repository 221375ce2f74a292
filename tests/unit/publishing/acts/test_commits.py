"""Acts as commits: authors, messages and changes of files."""

from __future__ import annotations

import pytest

from zkdeployment.base.source_files import SourceFile
from zkdeployment.publishing.acts.commits import Author, FileChanges


@pytest.mark.parametrize(
    ("name", "email", "expected"),
    [
        ("Ann", "ann@example.com", "Ann <ann@example.com>"),
        ("Ann <root@x>\nAuthor: Eve", "a>b\n@x", "Ann root@x Author: Eve <ab @x>"),
        ("", " <> ", "unknown <unknown>"),
        ("...", '"', "unknown <unknown>"),
        ("Zoë", "zoë@example.com", "Zoë <zoë@example.com>"),
    ],
)
def test_an_author_is_one_that_git_accepts(name: str, email: str, expected: str) -> None:
    assert str(Author.of(name, email)) == expected


def test_a_message_has_one_line_for_the_subject_and_one_for_each_trailer() -> None:
    changes = FileChanges({}, "Act:\n\nForged-Trailer: x", "  body\n", {"Key": "v\nOther: w"})
    assert changes.message == "Act: Forged-Trailer: x\n\nbody\n\nKey: v Other: w\n"
    assert FileChanges({}, "Act").message == "Act\n"


def test_a_change_replaces_adds_and_removes_files() -> None:
    files = (SourceFile("a.zk", b"a"), SourceFile("b.zk", b"b"))
    changes = FileChanges({"a.zk": None, "b.zk": b"B", "c.zk": b"c", "d.zk": None}, "Act")
    assert changes.apply(files) == (SourceFile("b.zk", b"B"), SourceFile("c.zk", b"c"))
