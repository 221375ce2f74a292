"""The file that marks an unfinished run."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zkdeployment.base.errors import SourceError
from zkdeployment.base.machine.files import unfinished


def test_a_run_succeeds_although_its_file_cannot_be_written(tmp_path: Path):
    done = False
    with capture_logs() as logs, unfinished(tmp_path / "nowhere" / "tree"):
        done = True
    assert done
    assert [entry["event"] for entry in logs] == ["unfinished-mark-not-written"]


def test_the_reason_contains_no_passwords(tmp_path: Path):
    with pytest.raises(SourceError), unfinished(tmp_path / "tree"):
        raise SourceError("no access to https://me:opensesame@git.example/tree")
    content = (tmp_path / ".tree.unfinished").read_text()
    assert "no access to https://" in content
    assert "opensesame" not in content
