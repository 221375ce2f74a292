"""Locks of sessions: contenders queue as ephemeral sequential nodes, and each watches its predecessor.

Even in a queue of a thousand hosts, a contender sends no request until that watch fires. The nodes have the same
names as those of kazoo's ``Lock``, so that both kinds exclude each other. Differences from kazoo: ``try_acquire``
leaves no contender behind, also if the connection is lost; ``acquire`` has one deadline; ``check`` asks the server
instead of relying on local state.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
import uuid
from typing import TYPE_CHECKING

from zkdeployment.base.errors import DeniedError, LockLostError, RestartError, UnreachableError, ZkdeploymentError
from zkdeployment.base.lock import Contender
from zkdeployment.base.log import get_logger
from zkdeployment.zookeeper.transactions import Delete, Operation, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session


class QueueWatch:
    """A watch on one node, valid until it fires or the session ends. Not thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._session_id: int | None = None
        self._fired = threading.Event()

    @property
    def is_active(self) -> bool:
        """Whether the watch belongs to the current session and has not fired. Sends no request."""
        return self._session_id is not None and self._session_id == self._session.id and not self._fired.is_set()

    def set(self, path: str, session_id: int | None) -> Node | None:
        """Watch another node and return it; if the node no longer exists, the watch is not active.

        ``session_id`` is the session in which the caller learned of the node; in a later session the watch is
        void.
        """
        fired = self._fired = threading.Event()  # a new event: an earlier watch that still fires has no effect
        node = self._session.get(path, lambda _: fired.set())
        self._session_id = None if node is None else session_id
        return node

    def wait_for_turn(
        self, timeout: float, *, is_waiting: Callable[[], bool], is_first: Callable[[], bool]
    ) -> bool:
        """Return whether the contender is first in its queue, waiting for that for at most ``timeout`` seconds.

        ``is_waiting`` returns whether the contender is queued and its watch is active. ``is_first`` reads the
        queue and sets the watch on the predecessor, if there is one.
        """
        deadline = time.monotonic() + timeout
        while True:
            if not is_waiting() and is_first():
                return True
            if is_waiting() and not self.wait(deadline - time.monotonic()):
                return False

    def wait(self, seconds: float) -> bool:
        """Wait until the watch fires, for at most ``seconds``; return whether it fired."""
        return self._fired.wait(max(0.0, seconds))


_MARK = "__lock__"
_ATTEMPTS = 5  # attempts to create a contender
_CONTENDER = re.compile(r"(?:__lock__)(-?\d{10})\Z")
_HOST = re.compile(r"\(([^()\s]+)\)\Z")  # NAME (HOST-ID)


def contenders(session: Session, directory: str) -> tuple[Contender, ...]:
    """Return the contenders of a lock: the holder first, then the waiting ones, in queue order."""
    paths = [f"{directory}/{name}" for name in queued(session.children(directory) or ())]
    nodes = session.get_many(paths)
    return tuple(contender(path, node) for path, node in zip(paths, nodes, strict=True) if node is not None)


def contender(path: str, node: Node) -> Contender:
    """Decode a contender's node."""
    identity = _identity(node)
    host = _HOST.search(identity)
    return Contender(identity, node.created, path, None if host is None else host[1])


def process_identity() -> str:
    """Return the name of this process for operators: ``HOST (process PID)``."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def _new_prefix() -> str:
    """Return a unique prefix, which identifies a contender if the answer to its creation was lost."""
    return uuid.uuid4().hex + _MARK


def _identity(node: Node) -> str:
    return node.data.decode("utf-8", errors="replace")


def queued(names: Iterable[str]) -> list[str]:
    """Return the names that are contenders among a lock's children, the lowest number first."""
    numbered = [(int(match[1]), name) for name in names if (match := _CONTENDER.search(name)) is not None]
    return [name for _, name in sorted(numbered)]


class ContenderLock:
    """One attempt at the lock whose contenders are the children of ``directory``. ``release`` never raises.

    ``identity`` is the name that operators see for this contender. Not thread-safe.
    """

    def __init__(self, session: Session, directory: str, identity: str) -> None:
        self._session = session
        self._directory = directory
        self._data = identity.encode("utf-8", errors="replace")
        self._prefix = _new_prefix()
        self._node: str | None = None
        self._tried = False
        self._joining: Callable[[], str] | None = None  # waits for the contender that was sent
        self._session_id: int | None = None
        self._watch = QueueWatch(session)
        self._watched: Node | None = None  # on the last known predecessor
        self._first: str | None = None
        self._ahead = 0

    @property
    def path(self) -> str | None:
        """The path of this contender's node; ``None`` while it is not in the queue."""
        return None if self._node is None else f"{self._directory}/{self._node}"

    @property
    def ahead(self) -> int:
        return self._ahead

    def request(self) -> None:
        """Send the contender that ``try_acquire`` then waits for; ``release`` withdraws it."""
        self._tried = True
        self._joining = self._send_contender()

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free, and return whether it was; otherwise leave no contender behind."""
        try:
            if self._predecessor(self._join()) is None:
                return True
        except LockLostError as error:
            self.release()
            raise UnreachableError(
                f"the session was lost while the lock {self._directory} was acquired"
            ) from error
        except ZkdeploymentError:
            self.release()
            raise
        self.release()
        return False

    def acquire(self, timeout: float) -> bool:
        return self._watch.wait_for_turn(timeout, is_waiting=self._is_waiting, is_first=self._is_first)

    def check(self) -> None:
        if self._node is None:
            raise LockLostError(f"the lock {self._directory} was not acquired")
        node = self._session.get(f"{self._directory}/{self._node}")
        if node is None or node.owner != self._session.id:
            raise LockLostError(f"the lock {self._directory} is lost: the session that held it has ended")
        if self._predecessor(self._read_queue()) is not None:
            raise LockLostError(f"the lock {self._directory} is held by {self.holder()}")

    def releasing(self) -> list[Operation]:
        """Return the operations that release the lock as a part of a transaction, which fails if the lock is lost.

        Call ``note_released`` when the transaction was executed.
        """
        return [] if self.path is None else [Delete(self.path, 0)]

    def note_released(self) -> None:
        """Note that a transaction has released the lock."""
        self._node, self._tried = None, False

    def release(self) -> None:
        if not self._tried:
            return
        node, prefix = self._node, self._prefix
        # The withdrawal may continue after this call, and must not remove the contender of the next attempt.
        self._node, self._tried, self._joining, self._prefix = None, False, None, _new_prefix()
        try:
            self._withdraw(node, prefix)
        except (UnreachableError, DeniedError) as error:
            get_logger().warning("lock-not-released", lock=self._directory, reason=str(error))
            self._session.later(lambda: self._withdraw(node, prefix))
        except RestartError:
            pass  # the session has ended, and its contender with it

    def holder(self) -> str | None:
        if self._watched is not None and self._ahead == 1 and self._is_waiting():
            return _identity(self._watched)
        node = None if self._first is None else self._session.get(f"{self._directory}/{self._first}")
        if node is None:
            queue = self._read_queue()
            node = self._session.get(f"{self._directory}/{queue[0]}") if queue else None
        return None if node is None else _identity(node)

    def _is_waiting(self) -> bool:
        """Whether the contender is queued and watches a predecessor that still exists."""
        return self._node is not None and self._watch.is_active

    def _is_first(self) -> bool:
        """Join the queue if necessary; return whether this contender is first, otherwise watch its predecessor."""
        queue = self._join()
        session_id = self._session.id
        try:
            predecessor = self._predecessor(queue)
        except LockLostError:
            self._node = None  # the session that joined the queue has ended: join again
            return False
        if predecessor is not None:
            self._watched = self._watch.set(f"{self._directory}/{predecessor}", session_id)
        return predecessor is None

    def _join(self) -> list[str]:
        """Ensure that exactly one contender of this object is in the queue, even if an earlier answer was lost.

        Return the queue.
        """
        if self._joining is None:
            if self._node is None and self._tried:
                self._node = self._find(self._prefix)
            if self._node is not None:
                return self._read_queue()
            self.request()
        return self._enqueue()

    def _send_contender(self) -> Callable[[], str]:
        joining = self._session.begin_enqueue(f"{self._directory}/{self._prefix}", self._data)
        self._session_id = self._session.id  # known only once the session is connected
        return joining

    def _enqueue(self) -> list[str]:
        """Wait for the contender; create the directory if it is missing, or was removed as unused, and try again.

        Return the queue, which is read meanwhile.
        """
        for _ in range(_ATTEMPTS):
            finish, self._joining = self._joining or self._send_contender(), None
            try:
                queue = self._read_queue()
            except DeniedError:
                self._node = finish().rpartition("/")[2]  # raises if the creation was denied, too
                raise
            try:
                self._node = finish().rpartition("/")[2]
            except TransactionError:
                self._session.ensure(self._directory)
            else:
                return queue
        raise UnreachableError(
            f"cannot join the queue of {self._directory}: the node was removed during each of {_ATTEMPTS} attempts"
        )

    def _predecessor(self, queue: list[str]) -> str | None:
        """Return the contender just before this one; raises ``LockLostError`` if this one is gone."""
        if self._node not in queue:
            raise LockLostError(f"the lock {self._directory} is lost: this contender's node is gone")
        self._ahead = queue.index(self._node)
        return queue[self._ahead - 1] if self._ahead else None

    def _read_queue(self) -> list[str]:
        queue = queued(self._read_names())
        self._first = queue[0] if queue else None
        return queue

    def _read_names(self) -> Iterable[str]:
        """Return the names of the directory's children."""
        return self._session.children(self._directory) or ()

    def _find(self, prefix: str) -> str | None:
        self._session.sync()  # the server of a new connection may not know the contender yet
        names = self._session.children(self._directory) or ()
        return next((name for name in names if name.startswith(prefix)), None)

    def _withdraw(self, node: str | None, prefix: str) -> None:
        """Ensure that no contender with this prefix is left; ``node`` is the name of its node, if known."""
        if node is not None:
            with contextlib.suppress(TransactionError):
                self._session.commit(Delete(f"{self._directory}/{node}"))
                return
        while (name := self._find(prefix)) is not None:
            try:
                self._session.commit(Delete(f"{self._directory}/{name}"))
            except TransactionError:
                continue  # removed in the meantime
