"""Files with one JSON value: what is read from them, also if they are damaged, and the errors of writes."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.machine.files import JsonFile, replace

if TYPE_CHECKING:
    from pathlib import Path


def number_file(file: Path, **options) -> JsonFile[int]:
    return JsonFile(file, lambda value: value["number"], lambda number: {"number": number}, **options)


def test_a_json_file_returns_the_saved_value_until_it_is_cleared(tmp_path):
    file = number_file(tmp_path / "new" / "number", mode=0o600)
    assert file.load() is None
    file.save(7)
    assert (file.load(), json.loads(file.file.read_text()), file.file.stat().st_mode & 0o777) == (
        7,
        {"number": 7},
        0o600,
    )
    file.clear()
    file.clear()
    assert file.load() is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "not JSON"), (b"[" * 60_000, "not JSON"), (b"{}", "not a number"), (b"[]", "not a number")],
)
def test_a_damaged_json_file_is_logged_and_counts_as_missing_unless_the_caller_decides(tmp_path, content, reason):
    file = tmp_path / "number"
    file.write_bytes(content)
    with capture_logs() as logs:
        assert number_file(file, expected="a number").load() is None
    assert [(line["event"], line["reason"]) for line in logs] == [("host-file-unreadable", reason)]
    found = []
    other = number_file(file, expected="a number", damaged=lambda *damage: found.append(damage) or 5)
    assert (other.load(), found) == (5, [(file, reason)])


def test_a_json_file_that_cannot_be_written_or_removed_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    file = number_file(tmp_path / "file" / "number")
    with pytest.raises(HostFilesError, match=r"cannot write .*/number"):
        file.save(1)
    with pytest.raises(HostFilesError, match=r"cannot remove .*/number: Not a directory"):
        file.clear()


def test_the_error_of_a_full_disk_names_the_file_that_is_replaced(tmp_path, monkeypatch):
    def is_full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", is_full)
    with pytest.raises(OSError, match="No space left") as error:
        replace(tmp_path / "file", b"content")
    assert error.value.filename == str(tmp_path / "file")
    assert [*tmp_path.iterdir()] == []
