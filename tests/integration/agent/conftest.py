"""What all tests of the agent share."""

import pytest


@pytest.fixture(autouse=True)
def _unmeasured_programs(monkeypatch):
    """Measure only this process, because the tests of the demo and of the sandbox start the same agents.

    The measurement adds 60 % to the processor time of the start of an agent, and these tests start 300.
    """
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
