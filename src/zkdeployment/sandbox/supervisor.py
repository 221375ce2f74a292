"""The restart of crashed daemons of a sandbox, which is systemd's task in a real fleet."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from zkdeployment.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.sandbox.fleet import Sandbox

_INTERVAL = 0.5


class DaemonSupervisor:
    """Restarts crashed daemons of ``sandbox`` and reports their names to ``report``; a context manager."""

    def __init__(self, sandbox: Sandbox, report: Callable[[str], None]) -> None:
        self._sandbox = sandbox
        self._report = report
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_INTERVAL):
            try:
                revived = self._sandbox.revive()
            except ZkdeploymentError as error:
                self._report(f"a daemon crashed and could not be restarted: {error}")
                continue
            for name in revived:
                self._report(f"{name} crashed and was restarted, like systemd does")
