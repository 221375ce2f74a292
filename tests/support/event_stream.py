"""A client of the service's event stream, which reads in a thread of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import httpx

from support.certificates import CERTIFICATES
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ReceivedEvent:
    """An event as a client received it: its kind, and its data."""

    kind: str
    data: Mapping[str, Any] = field(hash=False)


class EventClient:
    """A context manager: the events of one stream, as they arrive; ``ended`` is set at the end of the stream."""

    def __init__(
        self,
        url: str,
        login: tuple[str, str],
        *,
        resume: str | None = None,
        query: str = "",
        client: httpx.Client | None = None,
    ) -> None:
        self.events: list[ReceivedEvent] = []
        self.comments = 0
        self.last_id: str | None = resume
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.ended = threading.Event()
        self._socket: socket.socket | None = None
        self._client = client or httpx.Client(base_url=url, auth=login, timeout=None, verify=CERTIFICATES)
        self._path = f"/api/v1/events{query}"
        self._resume = {} if resume is None else {"Last-Event-ID": resume}
        self._thread = threading.Thread(target=self._read, name="event-client", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:  # to close it would not wake the thread that reads
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._client.close()

    def wait_for(self, kind: str, *, after: ReceivedEvent | None = None, **data: object) -> ReceivedEvent:
        """Wait for an event of this kind with these data, perhaps only among those after another one."""

        def matches() -> list[ReceivedEvent]:
            events = self.events[:]
            return [
                event
                for event in (events if after is None else events[events.index(after) + 1 :])
                if event.kind == kind and all(event.data.get(name) == value for name, value in data.items())
            ]

        wait_until(matches, f"the event {kind} {data}")
        return matches()[0]

    def _read(self) -> None:
        try:
            with self._client.stream("GET", self._path, headers=self._resume) as response:
                self._socket = response.extensions["network_stream"].get_extra_info("socket")
                self.headers, self.status = response.headers, response.status_code
                kind, data = "", ""
                for line in response.iter_lines():
                    name, _, value = line.partition(": ")
                    match name:
                        case "event":
                            kind = value
                        case "data":
                            data = value
                        case "id":
                            self.last_id = value
                        case "":
                            self.comments += line.startswith(":")
                            if data:
                                self.events.append(ReceivedEvent(kind, json.loads(data)))
                            kind, data = "", ""
        except (httpx.HTTPError, httpx.StreamError, OSError):
            pass
        finally:
            self.ended.set()
