"""Probes of ready nodes, in threads: tenants get no node that has died while it waited."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from zkdeployment.errors import ProgramError, ZkdeploymentError, error_message
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Probes at once.
_TOGETHER = 16


class NodeProbes:
    """Probes all ready nodes once for each call of ``begin``; ``wake`` is called when all results are there."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._results: dict[int, str] = {}
        self._is_running = False

    def begin(self, probes: Mapping[int, Callable[[], None]]) -> None:
        """Begin probes, given by the ids of their nodes, unless earlier ones have not ended yet."""
        with self._lock:
            if self._is_running or not probes:
                return
            self._is_running = True
        threading.Thread(target=self._run, args=(probes,), name="pools-probes", daemon=True).start()

    def take(self) -> Mapping[int, str]:
        """Return the new results by node: why it did not answer, or an empty text. Each is returned once."""
        with self._lock:
            results, self._results = self._results, {}
            return results

    def _run(self, probes: Mapping[int, Callable[[], None]]) -> None:
        try:
            with ThreadPoolExecutor(_TOGETHER) as pool:
                found = dict(zip(probes, pool.map(_result, probes.values()), strict=True))
        finally:
            with self._lock:
                self._is_running = False
        with self._lock:
            self._results = {number: reason for number, reason in found.items() if reason is not None}
        self._wake()


def _result(probe: Callable[[], None]) -> str | None:
    """Return why a node did not answer, empty text if it did; ``None`` if that is not known."""
    try:
        probe()
    except ProgramError as error:
        return error_message(error)
    except ZkdeploymentError:
        return None
    except Exception as error:  # noqa: BLE001  a defect of the program does not concern the node
        get_logger().error("pool-probe-defect", exc_info=error)
        return None
    return ""
