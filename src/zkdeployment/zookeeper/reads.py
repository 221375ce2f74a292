"""Reads of many nodes: pipelined, one by one with a watch each, or many in one request.

kazoo does not support many reads in one request, and spends most of the time of many single requests.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from kazoo.exceptions import EXCEPTIONS, KazooException
from kazoo.protocol.serialization import (
    GetChildren,
    GetData,
    int_struct,
    multiheader_struct,
    read_string,
    stat_struct,
)

from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper.nodes import Node, under

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FAILED = -1

#: What precedes an operation in a request: its type, whether it is the end, an error, and the length of its path.
HEAD = Struct("!iBii")

#: The end of a request or an answer with several operations.
END: bytes = multiheader_struct.pack(FAILED, 1, FAILED)

_WITHOUT_WATCH = b"\0"


class Read(NamedTuple):
    """A read of a node, or of the names of its children."""

    path: str
    children: bool = False


#: The answer to a read.
Answer: TypeAlias = Node | list[str] | KazooException


def read_together(client: Any, reads: Sequence[Read]) -> Any:
    """Send reads as one request and return kazoo's future: a list of nodes, of names of children, or exceptions.

    The reads may see different states; each sees the same state as the read before it, or a newer one. A server
    older than 3.6 answers ``UnimplementedError`` and closes the connection.
    """
    result = client.handler.async_result()
    request = ReadRequest(tuple(Read(under(client.chroot, read.path), read.children) for read in reads))
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


def encode_reads(reads: Sequence[Read]) -> bytes:
    """Return the body of one request for all reads, whose paths are those of the server."""
    parts: list[bytes] = []
    for read in reads:
        path = read.path.encode()
        kind = GetChildren.type if read.children else GetData.type
        parts += (HEAD.pack(kind, 0, FAILED, len(path)), path, _WITHOUT_WATCH)
    parts.append(END)
    return b"".join(parts)


def decode_answers(body: bytes, offset: int) -> list[Answer]:
    """Return the answers to reads in their order: a node, the names of children, or an exception."""
    answers: list[Answer] = []
    unpack_header, unpack_number = multiheader_struct.unpack_from, int_struct.unpack_from
    kind, done, _ = unpack_header(body, offset)
    while not done:
        offset += multiheader_struct.size
        (number,) = unpack_number(body, offset)  # the length of data, the number of children, or an error
        offset += int_struct.size
        if kind == GetData.type:
            end = offset + max(number, 0)
            answers.append(Node.read((body[offset:end], stat_struct.unpack_from(body, end))))
            offset = end + stat_struct.size
        elif kind == GetChildren.type:
            names = []
            for _ in range(number):
                name, offset = read_string(body, offset)
                names.append(name)
            answers.append(names)
        else:
            answers.append(failure(number))
        kind, done, _ = unpack_header(body, offset)
    return answers


def failure(number: int) -> KazooException:
    """Return the exception for an error number of ZooKeeper."""
    error: KazooException = EXCEPTIONS.get(number, KazooException)()
    return error


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Many reads in one request: ZooKeeper's ``multiRead`` (since 3.6), which kazoo does not support."""

    reads: Sequence[Read]

    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        """Return the body of the request."""
        return encode_reads(self.reads)

    def deserialize(self, body: bytes, offset: int) -> list[Answer]:
        """Return the answers in the order of the reads."""
        return decode_answers(body, offset)
