from types import SimpleNamespace

import pytest


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long whoever tries again would have slept in between; nobody does."""
    slept: list[float] = []
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=slept.append))
    return slept
