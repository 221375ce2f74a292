"""The measurement of coverage, which doubles the processor time of what it traces."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def unmeasured() -> Iterator[None]:
    """Measure no coverage of this process, and of processes that the block starts, until the block ends."""
    coverage = Coverage.current()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        if coverage is None:
            yield
            return
        coverage.stop()
        try:
            yield
        finally:
            coverage.start()
