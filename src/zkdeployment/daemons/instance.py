"""One instance of a service: registered in ZooKeeper while its program, or this process, runs."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from zkdeployment.errors import RestartError, ZkdeploymentError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.process import Attached
    from zkdeployment.adapters.zookeeper.providers import Provider
    from zkdeployment.model.tree import Properties

_RETRY = 1.0  # seconds between two attempts to register


class Instance:
    """Keeps an instance registered until the program started by ``start`` exits or ``end`` is called.

    Without ``start``, this process is the instance. ``watch_session`` arranges that its argument is called on each
    change of the ZooKeeper session.
    """

    def __init__(
        self,
        registration: Provider,
        start: Callable[[], Attached] | None,
        watch_session: Callable[[Callable[[], None]], None],
    ) -> None:
        self._registration = registration
        self._start = start
        self._watch_session = watch_session
        self._ended = False
        self._status = 0
        self._child: Attached | None = None
        self._wake = threading.Event()

    def provide(self, properties: Properties) -> int:
        """Register again after each loss of the session until the instance ends; return its exit status.

        Raises ``LinkError`` or ``RefusedError`` if the service's path permits no instance.
        """
        self._registration.check()
        self._watch_session(self._wake.set)
        pid = os.getpid() if self._start is None else self._launch(self._start)
        while not self._ended:
            self._wake.clear()
            registered = self._register({"pid": pid, **properties})
            self._wake.wait(None if registered else _RETRY)
        self._registration.unregister()
        return self._status

    def end(self, number: int) -> None:
        """Handle a signal that ends the process: forward it to the program, or stop waiting without a program."""
        if self._child is None:
            self._ended = True
            self._wake.set()
        elif number != signal.SIGINT:  # a terminal sends SIGINT to both processes
            self._child.signal(number)

    def _register(self, properties: Properties) -> bool:
        try:
            path = self._registration.register(properties)
        except RestartError:
            self.end(signal.SIGTERM)
            raise
        except ZkdeploymentError as error:
            get_logger().warning("registration-failed", error=str(error))
            return False
        get_logger().info("instance-registered", path=path)
        return True

    def _launch(self, start: Callable[[], Attached]) -> int:
        child = self._child = start()
        threading.Thread(target=self._await_end, args=(child,), name="command", daemon=True).start()
        return child.pid

    def _await_end(self, child: Attached) -> None:
        status = child.wait()
        self._status = 128 - status if status < 0 else status
        self._ended = True
        self._wake.set()
