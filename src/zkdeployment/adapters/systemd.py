"""Sends notifications to systemd with the ``sd_notify`` protocol."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_FOREVER = 7 * 24 * 3600 * 1_000_000  # microseconds; longer than any package transaction
_PATIENCE = 1.0  # time limit in seconds for sending to a supervisor that does not read its socket


class SystemdNotifier:
    """Sends each message as a datagram to the socket in ``NOTIFY_SOCKET``; does nothing without that variable.

    Errors are ignored: a daemon works without its supervisor.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the NUL of an abstract socket address.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit = environment.get("WATCHDOG_USEC", "")
        is_watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._limit = int(limit) if limit.isdecimal() and is_watched else 0

    def ready(self) -> None:
        """Report that the service is ready."""
        self._send("READY=1")

    def status(self, text: str) -> None:
        """Report the current activity of the service, in one line."""
        self._send(f"STATUS={' '.join(text.split())}")

    def stopping(self) -> None:
        """Report that the service is shutting down."""
        self._send("STOPPING=1")

    def reloading(self) -> None:
        """Report that the configuration is being reloaded, until ``ready``."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    @property
    def pace(self) -> float:
        """Seconds within which ``watchdog`` has to be called again; infinite if there is no watchdog."""
        return self._limit / 2e6 if self._limit else math.inf

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Return a context in which the supervisor does not apply its watchdog timeout, however long it takes."""
        if not self._limit:
            yield
            return
        self._send(f"WATCHDOG_USEC={_FOREVER}\nWATCHDOG=1")
        try:
            yield
        finally:
            self._send(f"WATCHDOG_USEC={self._limit}\nWATCHDOG=1")

    def watchdog(self) -> None:
        """Report that the service is alive."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(_PATIENCE)
            channel.connect(self._address)
            channel.sendall(message.encode("utf-8", errors="replace"))
