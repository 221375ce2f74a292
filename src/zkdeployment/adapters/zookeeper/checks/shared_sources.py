"""The sources of check instances for several threads: one after the other reads them (a ``CheckSources``)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.checks.sources import CheckSnapshot
    from zkdeployment.ports.checks import CheckSources


class SharedCheckSources:
    """The same sources as others, for any thread."""

    def __init__(self, sources: CheckSources) -> None:
        self._sources = sources
        self._lock = threading.Lock()

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        with self._lock:
            return self._sources.read(awaited)
