"""The sources of check instances for several threads: one after the other reads them (a ``CheckSources``)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from zkdeployment.adapters.shared_calls import turn
from zkdeployment.adapters.zookeeper.feed.shared_read import late_read

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.checks.sources import CheckSnapshot
    from zkdeployment.ports.checks import CheckSources

#: Seconds that a thread waits for the read of another thread.
_PATIENCE = 5.0


class SharedCheckSources:
    """The same sources as others, for any thread."""

    def __init__(self, sources: CheckSources) -> None:
        self._sources = sources
        self._lock = threading.Lock()

    def read(self, awaited: Collection[str] = ()) -> CheckSnapshot:
        with turn(self._lock, _PATIENCE, late_read):
            return self._sources.read(awaited)
