"""kazoo's threads, with a cheaper wait for its sockets and with encrypted connections."""

from __future__ import annotations

import math
import select
from typing import TYPE_CHECKING, Any

from kazoo.handlers.threading import SequentialThreadingHandler

from zkdeployment.adapters.zookeeper.client.access import connect, encryption
from zkdeployment.errors import ConfigurationError

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from zkdeployment.model.servers import Access

#: Events after which reading, or writing, does not block; hang-ups and errors are found by doing so.
_READABLE = ~select.POLLOUT
_WRITABLE = ~select.POLLIN


class ThreadHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's thread handler for a client with this access to its servers."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def select(
        self, reading: Sequence[Any], writing: Sequence[Any], _other: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the sockets that can be read, and those that can be written, after at most ``timeout`` seconds.

        kazoo waits four times for each request, each time with a new epoll of five system calls. Here it is one.
        Raises ``ValueError`` for a closed socket.
        """
        readers = {readable.fileno(): readable for readable in reading}
        writers = {writable.fileno(): writable for writable in writing}
        poll = select.poll()
        for number in readers.keys() | writers.keys():
            events = select.POLLIN if number in readers else 0
            poll.register(number, events | (select.POLLOUT if number in writers else 0))
        found = poll.poll(None if timeout is None else math.ceil(timeout * 1000))
        if any(events & select.POLLNVAL for _, events in found):
            raise ValueError("a socket was closed just before it was waited for")
        return (
            [readers[number] for number, events in found if events & _READABLE and number in readers],
            [writers[number] for number, events in found if events & _WRITABLE and number in writers],
            [],
        )

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **options: object
    ) -> socket.socket:
        """Return a connection to an address of ``hostname``; raises ``OSError``."""
        if self._access.ca is None:
            plain: socket.socket = super().create_connection(
                address, hostname=hostname, timeout=timeout, **options
            )
            return plain
        try:
            context = encryption(self._access)
        except ConfigurationError as error:  # a certificate is being renewed: kazoo retries
            raise OSError(str(error)) from error
        return connect(address, hostname, timeout, context)
