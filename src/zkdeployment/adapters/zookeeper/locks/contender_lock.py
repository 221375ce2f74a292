"""Locks: contenders queue as ephemeral sequential nodes; the lowest number holds.

The nodes are named as kazoo's own ``Lock`` names them, so that both exclude each other. Differences: a fresh
contender that finds others leaves nothing behind, whatever happens to the connection; waiting has one
deadline; and ``check`` asks the server instead of remembering. A contender that waits watches its predecessor and
reads nothing.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.transactions import Delete, TransactionError
from zkdeployment.adapters.zookeeper.locks.queue_watch import QueueWatch
from zkdeployment.errors import DeniedError, LockLostError, RestartError, UnreachableError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.lock import Contender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session

_MARK = "__lock__"
_ATTEMPTS = 5  # at making a contender
_CONTENDER = re.compile(r"(?:__lock__)(-?\d{10})$")
_HOST = re.compile(r"\(([^()\s]+)\)$")  # NAME (HOST-ID)


def contenders(session: Session, directory: str) -> tuple[Contender, ...]:
    """Return who contends for a lock: the holder first, then who waits, in order."""
    paths = [f"{directory}/{name}" for name in queued(session.children(directory) or ())]
    nodes = session.get_many(paths)
    return tuple(contender(path, node) for path, node in zip(paths, nodes, strict=True) if node is not None)


def contender(path: str, node: Node) -> Contender:
    """Read a contender's node."""
    identity = _identity(node)
    host = _HOST.search(identity)
    return Contender(identity, node.created, path, None if host is None else host[1])


def _identity(node: Node) -> str:
    return node.data.decode("utf-8", errors="replace")


def queued(names: Iterable[str]) -> list[str]:
    """Return those of a lock's children that are contenders, the lowest number first."""
    numbered = [(int(match[1]), name) for name in names if (match := _CONTENDER.search(name)) is not None]
    return [name for _, name in sorted(numbered)]


class ContenderLock:
    """One attempt at the lock whose contenders are the children of ``directory`` (a ``NodeLock``).

    ``identity`` is the text by which people know the contender. Not for use by several threads at once.
    """

    def __init__(self, session: Session, directory: str, identity: str) -> None:
        self._session = session
        self._directory = directory
        self._data = identity.encode("utf-8", errors="replace")
        # Nobody else's contender starts like ours: it can be found again when the answer to its creation got lost.
        self._prefix = uuid.uuid4().hex + _MARK
        self._node: str | None = None
        self._tried = False
        self._session_id: int | None = None
        self._watch = QueueWatch(session)
        self._first: str | None = None
        self._ahead = 0

    @property
    def path(self) -> str | None:
        """Our contender's node, once we are in the queue; it is gone when we are not any more."""
        return None if self._node is None else f"{self._directory}/{self._node}"

    @property
    def ahead(self) -> int:
        return self._ahead

    def try_acquire(self) -> bool:
        try:
            names = self._session.children(self._directory)
            if self._tried or not queued(names or ()):
                self._join(there=names is not None)
                if self._predecessor() is None:
                    return True
        except LockLostError as error:
            self.release()
            raise UnreachableError(f"the session was lost while taking the lock {self._directory}") from error
        except ZkdeploymentError:
            self.release()
            raise
        self.release()
        return False

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            if not self._is_waiting and self._is_first():
                return True
            if self._is_waiting and not self._watch.wait(deadline - time.monotonic()):
                return False

    def check(self) -> None:
        if self._node is None:
            raise LockLostError(f"the lock {self._directory} was not taken")
        owner = self._session.get(f"{self._directory}/{self._node}")
        if owner is None or owner.owner != self._session_id or self._session.id != self._session_id:
            raise LockLostError(f"the lock {self._directory} is lost: the session that held it is over")
        if self._predecessor() is not None:
            raise LockLostError(f"the lock {self._directory} is held by {self.holder()}")

    def release(self) -> None:
        if not self._tried:
            return
        node, self._node, self._tried = self._node, None, False
        try:
            self._withdraw(node)
        except (UnreachableError, DeniedError) as error:
            get_logger().warning("lock-not-released", lock=self._directory, reason=str(error))
            self._session.later(lambda: self._withdraw(node))
        except RestartError:
            pass  # the session is over, and with it our contender

    def holder(self) -> str | None:
        node = None if self._first is None else self._session.get(f"{self._directory}/{self._first}")
        if node is None:
            queue = self._read_queue()
            node = self._session.get(f"{self._directory}/{queue[0]}") if queue else None
        return None if node is None else _identity(node)

    @property
    def _is_waiting(self) -> bool:
        """Whether our place is behind a contender that was there when the queue was read, and is watched since."""
        return self._node is not None and self._watch.stands

    def _is_first(self) -> bool:
        """Be in the queue and return whether ours is the first place; if it is not, the one before is watched."""
        self._join()
        session_id = self._session.id
        try:
            predecessor = self._predecessor()
        except LockLostError:
            self._node = None  # the session we queued in is over; queue again
            return False
        if predecessor is not None:
            self._watch.set(f"{self._directory}/{predecessor}", session_id)
        return predecessor is None

    def _join(self, *, there: bool = False) -> None:
        """Have a contender in the queue, only one, also when an earlier answer got lost.

        ``there``: the directory is known to be there.
        """
        if self._node is not None:
            return
        if self._tried:
            self._node = self._find()
            if self._node is not None:
                return
        if not there:
            self._session.ensure(self._directory)
        self._session_id = self._session.id
        self._tried = True
        self._node = self._enqueue().rpartition("/")[2]

    def _enqueue(self) -> str:
        """Make our contender; the directory may have been removed as unused after it was found."""
        for _ in range(_ATTEMPTS):
            try:
                return self._session.enqueue(f"{self._directory}/{self._prefix}", self._data)
            except TransactionError:
                self._session.ensure(self._directory)
        raise UnreachableError(f"the lock {self._directory} is removed again and again")

    def _predecessor(self) -> str | None:
        """Return the contender just before ours; raises ``LockLostError`` if ours is gone."""
        queue = self._read_queue()
        if self._node not in queue:
            raise LockLostError(f"the lock {self._directory} is lost: our place in its queue is gone")
        self._ahead = queue.index(self._node)
        return queue[self._ahead - 1] if self._ahead else None

    def _read_queue(self) -> list[str]:
        queue = queued(self._session.children(self._directory) or ())
        self._first = queue[0] if queue else None
        return queue

    def _find(self) -> str | None:
        ours = (name for name in self._session.children(self._directory) or () if name.startswith(self._prefix))
        return next(ours, None)

    def _withdraw(self, node: str | None) -> None:
        """Make sure that no contender of ours is left; ``node`` is what ours is called, if we know."""
        if node is not None:
            with contextlib.suppress(TransactionError):
                self._session.commit(Delete(f"{self._directory}/{node}"))
                return
        while (ours := self._find()) is not None:
            try:
                self._session.commit(Delete(f"{self._directory}/{ours}"))
            except TransactionError:
                continue  # gone meanwhile
