"""Fixtures of the integration tests: directories, sessions and daemons on a real ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from support.agents import Fleet
from support.publishing import Publishing
from zkdeployment.service.users import key_hashes
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

    from support.service import RunningService


@pytest.fixture
def fleet(tmp_path: Path, zookeeper: str, client: KazooClient) -> Fleet:
    return Fleet(tmp_path, zookeeper, client)


@pytest.fixture
def publishing(tmp_path: Path, zookeeper: str, client: KazooClient) -> Publishing:
    return Publishing(tmp_path, zookeeper, client)


@pytest.fixture
def session(zookeeper: str) -> Iterator[Session]:
    with Session(zookeeper) as opened:
        yield opened


@pytest.fixture
def other(zookeeper: str) -> Iterator[Session]:
    """A second session with the same ZooKeeper."""
    with Session(zookeeper) as opened:
        yield opened


@pytest.fixture
def service(zookeeper: str) -> Iterator[RunningService]:
    """A service with an empty ZooKeeper."""
    from support.service import running_service  # noqa: PLC0415 - only tests of the service need its libraries

    with running_service(zookeeper) as running:
        yield running


@pytest.fixture
def config(tmp_path: Path, zookeeper: str) -> Path:
    """The path of a host's configuration."""
    file = tmp_path / "zkdeployment.cfg"
    file.write_text(
        "[zkdeployment]\nhost-id = h1\nhost-name = h1.example.com\n"
        f"run-directory = {tmp_path}\nzookeeper = {zookeeper}\n"
    )
    return file


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait between two attempts; the waits themselves are skipped."""
    naps: list[float] = []
    monkeypatch.setattr("zkdeployment.base.machine.retrying.time", SimpleNamespace(sleep=naps.append))
    return naps


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of keys take no time; ``test_key_hashes.py`` has a hasher of its own, with those of the service."""
    monkeypatch.setattr(key_hashes, "_MEMORY", 64)  # KiB
    monkeypatch.setattr(key_hashes, "_ROUNDS", 1)
