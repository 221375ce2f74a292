"""Fixtures shared by the tests of commands."""

from pathlib import Path

import pytest


@pytest.fixture
def config(tmp_path: Path, zookeeper: str) -> Path:
    """Return the path of a host's configuration."""
    file = tmp_path / "zkdeployment.cfg"
    file.write_text(
        "[zkdeployment]\nhost-id = h1\nhost-name = h1.example.com\n"
        f"run-directory = {tmp_path}\nzookeeper = {zookeeper}\n"
    )
    return file
