"""Role locks: hosts queue with persistent requests; the lowest number holds.

A request belongs to a host, not to a session: it outlives crashes and failures of its host, which finds it again
when it comes back. So a role that was left half-deployed stays closed to other hosts until the same host has
succeeded or somebody removes the request.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Delete, TransactionError
from zkdeployment.adapters.zookeeper.locks.queue_watch import QueueWatch
from zkdeployment.errors import DeniedError, LockLostError, RestartError, TreeError, UnreachableError
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.host import Identity

_PREFIX = "lr-"
_REQUEST = re.compile(r"lr-(-?\d{10})$")


@dataclass(frozen=True, slots=True)
class Request:
    """One host's request; one that cannot be read is nobody's, and counts until somebody removes it."""

    path: str
    requestor: str | None
    hostname: str | None

    def __str__(self) -> str:
        return f"{self.hostname} ({self.requestor})" if self.requestor else f"an unreadable request ({self.path})"

    @classmethod
    def read(cls, path: str, node: Node) -> Request:
        """Read the node at a path."""
        requestor, hostname = (node.properties.get(name) for name in ("requestor", "hostname"))
        return cls(
            path,
            requestor if isinstance(requestor, str) else None,
            hostname if isinstance(hostname, str) else None,
        )


def requests(session: Session, role: str, most: int | None = None) -> tuple[Request, ...]:
    """Return who asks for a role's lock: the holder first, then who waits, in order; ``most`` of them or all."""
    directory = f"{paths.ROLE_LOCKS}/{role}"
    found = [f"{directory}/{name}" for name in queued(session.children(directory) or ())[:most]]
    nodes = session.get_many(found)
    return tuple(Request.read(path, node) for path, node in zip(found, nodes, strict=True) if node is not None)


def queued(names: Iterable[str]) -> list[str]:
    """Return those of a role lock's children that are requests, the lowest number first."""
    numbered = [(int(match[1]), name) for name in names if (match := _REQUEST.fullmatch(name)) is not None]
    return [name for _, name in sorted(numbered)]


def hand_on(session: Session, identity: Identity) -> bool:
    """Remove a host's requests for the lock of its role; return whether the host held the lock.

    Then the role controller's start script may have run there, and its end script has not: the host is marked as
    out of service, until it has released the lock itself.
    """
    role = identity.role
    queue = () if role is None else requests(session, role)
    mine = [request for request in queue if request.requestor == identity.id]
    held = mine != [] and mine[0] == queue[0]
    if held:  # the mark is there first: it is never missing, whatever happens in between
        session.ensure(paths.out_of_service_path(identity.id), encode({"role": role}))
    for request in mine:
        _delete(session, request.path)
    return held


def read_out_of_service(session: Session) -> dict[str, str]:
    """Return the role of each host that is out of service, by host id."""
    hosts = session.children(paths.OUT_OF_SERVICE) or []
    nodes = session.get_many(map(paths.out_of_service_path, hosts)) if hosts else []
    return {
        host: str(node.properties.get("role")) for host, node in zip(hosts, nodes, strict=True) if node is not None
    }


def _delete(session: Session, path: str) -> None:
    with contextlib.suppress(TransactionError):  # gone meanwhile
        session.commit(Delete(path))


class RoleRequestLock:
    """A host's way to the lock of its role (a ``RoleLock``). One process of a host may use it at a time.

    Raises ``TreeError`` if there is no ``/role-locks/ROLE``.
    """

    def __init__(self, session: Session, role: str, identity: Identity) -> None:
        self._session = session
        self._role = role
        self._identity = identity
        self._directory = f"{paths.ROLE_LOCKS}/{role}"
        self._watch = QueueWatch(session)
        self._request: str | None = None
        self._first: str | None = None
        self._ahead = 0
        self._joined = self._may_be_several = False
        if session.get(self._directory) is None:
            raise TreeError(
                f"{self._directory} does not exist, so the role {role}, which has a controller, cannot be locked;"
                " the syncer makes it: publish again"
            )

    @property
    def ahead(self) -> int:
        return self._ahead

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while True:
            if not self._is_waiting and self._is_first():
                self._joined = False
                return True
            if self._is_waiting and not self._watch.wait(deadline - time.monotonic()):
                return False

    def check(self) -> None:
        first = requests(self._session, self._role, 1)
        if not first or first[0].requestor != self._identity.id:
            raise LockLostError(f"the lock of role {self._role} is lost: somebody removed this host's request")

    def release(self) -> None:
        mark = paths.out_of_service_path(self._identity.id)
        if self._session.get(mark) is not None:
            _delete(self._session, mark)
        self._remove_requests()

    def _remove_requests(self) -> None:
        if self._request is None or self._may_be_several:
            for mine in self._mine(requests(self._session, self._role)):
                _delete(self._session, mine.path)
        else:
            _delete(self._session, self._request)
        self._request, self._may_be_several = None, False

    def withdraw(self) -> None:
        if not self._joined:
            return
        try:
            self._remove_requests()
        except (UnreachableError, DeniedError, RestartError) as error:
            get_logger().warning("role-request-left", role=self._role, reason=str(error))

    def holder(self) -> str | None:
        node = None if self._first is None else self._session.get(self._first)
        if node is None:
            self._read_queue()
            node = None if self._first is None else self._session.get(self._first)
        return None if node is None or self._first is None else str(Request.read(self._first, node))

    @property
    def _is_waiting(self) -> bool:
        """Whether our place is behind a request that was there when the queue was read, and is watched since."""
        return self._request is not None and self._watch.stands

    def _is_first(self) -> bool:
        """Be in the queue and return whether ours is the first place; if it is not, the one before is watched."""
        if self._request is None:
            self._request = self._adopt() or self._join()
        session_id = self._session.id
        queue = self._read_queue()
        if self._request not in queue:
            self._request = None  # somebody removed it: queue again
            return False
        self._ahead = queue.index(self._request)
        if self._ahead:
            self._watch.set(queue[self._ahead - 1], session_id)
        return not self._ahead

    def _adopt(self) -> str | None:
        """Return the oldest request that this host has, and remove newer ones; read all, once for each place."""
        mine = self._mine(requests(self._session, self._role))
        for newer in mine[1:]:
            _delete(self._session, newer.path)
        return mine[0].path if mine else None

    def _join(self) -> str:
        data = encode({"requestor": self._identity.id, "hostname": self._identity.name})
        self._joined = True  # also when the answer gets lost: any request of this host is ours then
        try:
            return self._session.enqueue(f"{self._directory}/{_PREFIX}", data, ephemeral=False)
        except UnreachableError:
            self._may_be_several = True  # this one may come to light when another one has been made
            raise

    def _read_queue(self) -> list[str]:
        queue = [f"{self._directory}/{name}" for name in queued(self._session.children(self._directory) or ())]
        self._first = queue[0] if queue else None
        return queue

    def _mine(self, queue: Iterable[Request]) -> list[Request]:
        return [one for one in queue if one.requestor == self._identity.id]
