from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zkdeployment.adapters.unfinished import unfinished
from zkdeployment.errors import SourceError


def test_what_cannot_be_marked_is_done_all_the_same(tmp_path: Path):
    done = False
    with capture_logs() as logs, unfinished(tmp_path / "nowhere" / "tree"):
        done = True
    assert done
    assert [entry["event"] for entry in logs] == ["mark-not-written"]


def test_a_reason_is_written_without_passwords(tmp_path: Path):
    with pytest.raises(SourceError), unfinished(tmp_path / "tree"):
        raise SourceError("no access to https://me:opensesame@git.example/tree")
    words = (tmp_path / ".tree.unfinished").read_text()
    assert "no access to https://" in words
    assert "opensesame" not in words
