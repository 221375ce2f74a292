"""The service: it keeps the connection to ZooKeeper and the HTTP server alive until it is asked to end.

The service has no state of its own. Any number of services may run; each of them answers every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from zkdeployment.base.errors import RestartError, ZkdeploymentError, error_message
from zkdeployment.base.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.daemon.control import Control
    from zkdeployment.base.machine.systemd import SystemdNotifier
    from zkdeployment.service.serving.http_server import HttpServer

#: Seconds between two checks of the connection and of the HTTP server.
_INTERVAL = 2.0


class ServicePart(Protocol):
    """Work that runs in threads of its own while the service runs."""

    def start(self) -> None:
        """Begin to work; does not wait."""

    def close(self) -> None:
        """End the work."""


class ServiceDaemon:
    """Answers requests at ``url``.

    ``connect`` opens the session and does nothing when it is open. ``parts`` run in the background: the daemon
    starts them in this order, and closes them in the reverse order before it stops the HTTP server. One of them is
    the feed: when it closes, the event streams end, which otherwise would keep the server from stopping.
    """

    def __init__(
        self,
        server: HttpServer,
        control: Control,
        *,
        url: str,
        connect: Callable[[], None],
        parts: Sequence[ServicePart],
        notifier: SystemdNotifier,
    ) -> None:
        self._server = server
        self._control = control
        self._url = url
        self._connect = connect
        self._parts = parts
        self._notifier = notifier
        self._logged: str | None = None

    def run(self) -> None:
        """Serve until asked to end.

        Raises ``RestartError`` if the connection cannot be restored or the HTTP server has ended.
        """
        for part in self._parts:
            part.start()
        self._server.start()
        get_logger().info("service-started", url=self._url)
        self._notifier.ready()
        try:
            while not self._control.stopping:
                self._check()
                self._notifier.watchdog()
                self._control.wait(min(_INTERVAL, self._notifier.pace))
        finally:
            self._notifier.stopping()
            for part in reversed(self._parts):
                part.close()
            self._server.stop()
            get_logger().info("service-ended")

    def _check(self) -> None:
        """Restore the connection, and report when it is lost or restored."""
        if not self._server.alive:
            raise RestartError("the HTTP server has ended; see the log, and start the service again")
        try:
            self._connect()
        except RestartError:
            raise
        except ZkdeploymentError as error:
            self._report(error_message(error))
        else:
            self._report("")

    def _report(self, problem: str) -> None:
        """Log the problem of the connection if it has changed, or its end if ``problem`` is empty."""
        if problem == self._logged:
            return
        self._logged = problem
        if problem:
            self._notifier.status(problem.partition("\n")[0])
            get_logger().warning("zookeeper-unreachable", reason=problem)
        else:
            self._notifier.status(f"serves {self._url}")
            get_logger().info("zookeeper-connected")
