"""Fixtures of the adapters' tests."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each wait between two attempts; the waits themselves are skipped."""
    naps: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=naps.append))
    return naps
