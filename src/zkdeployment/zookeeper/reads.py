"""Many reads in one request: ZooKeeper's ``multiRead`` (since 3.6), which kazoo does not support.

Most of the time of many single requests is spent in kazoo.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import EXCEPTIONS, KazooException
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    read_buffer,
    read_string,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat

from zkdeployment.zookeeper.nodes import under

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FAILED = -1


@dataclass(frozen=True, slots=True)
class Read:
    """A read of a node's data, or of the names of its children."""

    path: str
    children: bool = False


def read_together(client: Any, reads: Sequence[Read]) -> Any:
    """Send reads as one request and return kazoo's future: a list of kazoo's answers or exceptions.

    The reads may see different states; each sees the same state as the read before it, or a newer one. A server
    older than 3.6 answers ``UnimplementedError`` and closes the connection.
    """
    result = client.handler.async_result()
    request = _MultiRead(tuple(_request(client.chroot, read) for read in reads))
    client._call(request, result)  # noqa: SLF001  kazoo has no other way for requests that it does not know
    return result


def follow_each(
    client: Any,
    reads: Sequence[Read],
    changed: Callable[[Any], None],
    window: int,
    wait: Callable[[Any, Read], Any],
) -> Iterator[tuple[Read, Any]]:
    """Send single reads with a watch each, ``window`` at a time, and yield each with its answer.

    ZooKeeper sets no watches for reads in one request. ``wait`` returns the answer to a request of a read,
    ``None`` for a missing node. Such a node is watched for its creation.
    """
    flying: deque[tuple[Read, Any]] = deque()
    for read in [*reads, *[None] * window]:
        if len(flying) >= window or (read is None and flying):
            sent, result = flying.popleft()
            answer = wait(result, sent)
            while answer is None and wait(client.exists_async(sent.path, watch=changed), sent) is not None:
                answer = wait(_send(client, sent, changed), sent)
            yield sent, answer
        if read is not None:
            flying.append((read, _send(client, read, changed)))


def _send(client: Any, read: Read, changed: Callable[[Any], None]) -> Any:
    send = client.get_children_async if read.children else client.get_async
    return send(read.path, watch=changed)


def _request(chroot: str, read: Read) -> GetData | GetChildren:
    return (GetChildren if read.children else GetData)(under(chroot, read.path), None)


@dataclass(frozen=True)
class _MultiRead:
    """The request, with the methods that kazoo's connection calls."""

    requests: tuple[GetData | GetChildren, ...]

    type = 22

    def serialize(self) -> bytearray:
        """Return the body: a header before each read, and one after the last."""
        body = bytearray()
        for request in self.requests:
            body += MultiHeader(request.type, False, -1).serialize() + request.serialize()
        body += MultiHeader(-1, True, -1).serialize()
        return body

    def deserialize(self, body: bytes, offset: int) -> list[Any]:
        """Return the answers in the order of the reads."""
        answers: list[Any] = []
        header, offset = MultiHeader.deserialize(body, offset)
        while not header.done:
            answer, offset = _read_answer(header.type, body, offset)
            answers.append(answer)
            header, offset = MultiHeader.deserialize(body, offset)
        return answers


def _read_answer(kind: int, body: bytes, offset: int) -> tuple[Any, int]:
    if kind == GetData.type:
        data, offset = read_buffer(body, offset)
        return (data, ZnodeStat._make(stat_struct.unpack_from(body, offset))), offset + stat_struct.size
    (number,) = int_struct.unpack_from(body, offset)
    offset += int_struct.size
    if kind == _FAILED:
        return EXCEPTIONS.get(number, KazooException)(), offset
    names = []
    for _ in range(number):
        name, offset = read_string(body, offset)
        names.append(name)
    return names, offset
