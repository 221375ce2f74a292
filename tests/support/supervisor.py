"""A supervisor that listens to the notifications of daemons, as systemd does."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def heard(address: Path) -> Iterator[list[str]]:
    """Yield the messages that daemons send to the supervisor at ``NOTIFY_SOCKET``."""
    messages: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(address))

        def listen() -> None:
            while message := supervisor.recv(1000):
                messages.append(message.decode())

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            yield messages
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
                end.sendto(b"", str(address))
            listening.join()
