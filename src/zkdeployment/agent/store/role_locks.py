"""Role locks: hosts queue with persistent requests; the one with the lowest number holds the lock.

A request belongs to a host, not to a session: the request outlives crashes and failures of its host, and a
returning host adopts it. If a host left a role half-deployed, the role is therefore locked for other hosts until
the same host has succeeded or has another role, or an operator removes the request. A host finds its requests in
its own record (``JoinedRoles``); only a host without a record searches the queues.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

from zkdeployment.base.errors import DeniedError, LockLostError, RestartError, TreeError, UnreachableError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import QueueWatch
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Delete, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.agent.files.run_directory import JoinedRoles
    from zkdeployment.base.host import Identity
    from zkdeployment.zookeeper.session import Session

_PREFIX = "lr-"
_REQUEST = re.compile(r"lr-(-?\d{10})")


@dataclass(frozen=True)
class Request:
    """A host's request.

    An unreadable request has no requestor, and blocks the queue until an operator removes it.
    """

    path: str
    requestor: str | None
    hostname: str | None

    def __str__(self) -> str:
        return f"{self.hostname} ({self.requestor})" if self.requestor else f"an unreadable request ({self.path})"

    @property
    def role(self) -> str:
        """The role whose lock is requested."""
        return self.path.split("/")[-2]

    @classmethod
    def read(cls, path: str, node: Node) -> Request:
        """Decode the node at ``path``."""
        requestor, hostname = (node.properties.get(name) for name in ("requestor", "hostname"))
        return cls(
            path,
            requestor if isinstance(requestor, str) else None,
            hostname if isinstance(hostname, str) else None,
        )


def requests(session: Session, role: str, most: int | None = None) -> tuple[Request, ...]:
    """Return the requests for a role's lock: the holder's first, then in queue order; at most ``most`` of them."""
    directory = f"{paths.ROLE_LOCKS}/{role}"
    request_paths = [f"{directory}/{name}" for name in queued(session.children(directory) or ())[:most]]
    nodes = session.get_many(request_paths)
    return tuple(
        Request.read(path, node) for path, node in zip(request_paths, nodes, strict=True) if node is not None
    )


def queued(names: Iterable[str]) -> list[str]:
    """Return the names that are requests among a role lock's children, the lowest number first."""
    numbered = [(int(match[1]), name) for name in names if (match := _REQUEST.fullmatch(name)) is not None]
    return [name for _, name in sorted(numbered)]


def requests_of(session: Session, host_id: str, roles: Collection[str] | None = None) -> list[Request]:
    """Search the queues for the locks of these roles (default: all); return a host's requests, in queue order."""
    roles = session.children(paths.ROLE_LOCKS) or () if roles is None else roles
    directories = [f"{paths.ROLE_LOCKS}/{role}" for role in roles]
    queues = session.look([], directories)[1]
    request_paths = [
        f"{directory}/{name}"
        for directory, names in zip(directories, queues, strict=True)
        for name in queued(names or ())
    ]
    return _own(session, host_id, request_paths)


def _own(session: Session, host_id: str, request_paths: Sequence[str]) -> list[Request]:
    nodes = session.get_many(request_paths) if request_paths else ()
    return [
        request
        for path, node in zip(request_paths, nodes, strict=True)
        if node is not None and (request := Request.read(path, node)).requestor == host_id
    ]


def _paths(own: Sequence[Request]) -> dict[str, str | None]:
    """Return the path of the oldest of a host's requests by role."""
    return {request.role: request.path for request in reversed(own)}


def _held(session: Session, own: Sequence[Request]) -> list[str]:
    """Return the roles whose locks are held with one of these requests."""
    directories = sorted({request.path.rpartition("/")[0] for request in own})
    queues = session.look([], directories)[1] if directories else ()
    first = {
        f"{above}/{name}"
        for above, names in zip(directories, queues, strict=True)
        for name in queued(names or ())[:1]
    }
    return [request.role for request in own if request.path in first]


def _refuse_late_requests(session: Session, role: str) -> None:
    """Let ZooKeeper refuse all requests for a role's lock that were sent before and have not arrived.

    A request is created at a version of the node above it. A killed agent's request may arrive after its successor
    has searched the queue, and would stay there.
    """
    directory = f"{paths.ROLE_LOCKS}/{role}"
    node = session.get(directory)
    if node is not None:
        with contextlib.suppress(TransactionError):  # another host has changed the version
            session.commit(Set(directory, node.data, node.version))


def _delete(session: Session, path: str) -> None:
    with contextlib.suppress(TransactionError):  # removed in the meantime
        session.commit(Delete(path))


class RoleRequests:
    """The requests of this host for locks of roles; ``joined`` records where the host has requests."""

    def __init__(self, session: Session, joined: JoinedRoles) -> None:
        self.session = session
        self.joined = joined

    def lock(self, role: str, identity: Identity) -> RoleRequestLock:
        """Return the lock of a role that has a controller; raises ``TreeError`` if its lock node is missing."""
        return RoleRequestLock(self, role, identity)

    def hand_on(self, identity: Identity, *, former: bool = False) -> list[str]:
        """Remove the host's requests before the host has finished; return the roles whose locks the host held.

        With ``former`` a request for the lock of the host's own role stays. If the host held a lock, the role
        controller's start script may have run on the host, but not its end script. The host is then marked as out
        of service until it releases the lock of its role itself, or leaves all roles.
        """
        known = self.known(identity.id)
        leaving = [request for request in known if not (former and request.role == identity.role)]
        held = _held(self.session, leaving)
        if (
            held
        ):  # the mark is written before the lock is free: a crash in between must not leave the host unmarked
            self.session.ensure(paths.out_of_service_path(identity.id), encode({"role": held[0]}))
        for request in leaving:
            _delete(self.session, request.path)
        self.joined.keep(identity.id, _paths([request for request in known if request not in leaving]))
        return held

    def leave(self, identity: Identity) -> list[str]:
        """Remove the host's requests, and its mark as out of service, when it has finished its work.

        Return the roles of the requests: the host may have got another role since it made a request.
        """
        known = self.known(identity.id)
        for request in known:
            _delete(self.session, request.path)
        self.joined.keep(identity.id, {})
        mark = paths.out_of_service_path(identity.id)
        if self.session.get(mark) is not None:
            _delete(self.session, mark)
        return [request.role for request in known]

    def known(self, host_id: str) -> list[Request]:
        """Return the requests in all queues, according to the record; without a record, search the queues."""
        known = self.joined.requests(host_id)
        if known is None:
            return requests_of(self.session, host_id)
        recorded = _own(self.session, host_id, [path for path in known.values() if path is not None])
        unclear = [role for role, path in known.items() if path is None]
        for role in unclear:
            _refuse_late_requests(self.session, role)
        return [*recorded, *(requests_of(self.session, host_id, unclear) if unclear else ())]


class RoleRequestLock:
    """The lock of a role, held by at most one host, across restarts of that host.

    A request that this host left earlier is adopted. After ``UnreachableError``, call the method again. Only
    ``release``, or an operator, gives the lock to the next host: on return from ``release`` this host has no
    request, and is no longer marked as out of service. Only one process of a host may use the lock.

    Raises ``TreeError`` if there is no ``/role-locks/ROLE``.
    """

    def __init__(self, own: RoleRequests, role: str, identity: Identity) -> None:
        session = own.session
        self._own = own
        self._session = session
        self._role = role
        self._identity = identity
        self._requests = own.joined
        self._directory = f"{paths.ROLE_LOCKS}/{role}"
        self._watch = QueueWatch(session)
        self._request: str | None = None
        self._first: str | None = None
        self._ahead = 0
        self._joined = False
        self._version = self._read_version()

    @property
    def ahead(self) -> int:
        return self._ahead

    def acquire(self, timeout: float) -> bool:
        return self._watch.wait_for_turn(timeout, is_waiting=self._is_waiting, is_first=self._is_first)

    def check(self) -> None:
        first = requests(self._session, self._role, 1)
        if not first or first[0].requestor != self._identity.id:
            raise LockLostError(f"the lock of role {self._role} is lost: an operator removed this host's request")

    def release(self) -> None:
        mark = paths.out_of_service_path(self._identity.id)
        if self._session.get(mark) is not None:
            _delete(self._session, mark)
        self._remove_requests()

    def _remove_requests(self) -> None:
        request = self._request or self._adopt()
        if request is not None:
            _delete(self._session, request)
        self._request = None
        self._requests.leave(self._identity.id, self._role)

    def withdraw(self) -> None:
        """Leave the queue, or release an unused lock.

        Never raises. An adopted request stays, because an earlier deployment may have begun under it.
        """
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

    def _is_waiting(self) -> bool:
        """Whether the request is queued and watches a predecessor that still exists."""
        return self._request is not None and self._watch.is_active

    def _is_first(self) -> bool:
        """Join the queue if necessary; return whether this request is first, otherwise watch its predecessor."""
        if self._request is None:
            self._request = self._adopt() or self._join()
        session_id = self._session.id
        queue = self._read_queue()
        if self._request not in queue:
            self._request = None  # an operator removed the request: join again
            return False
        self._ahead = queue.index(self._request)
        if self._ahead:
            self._watch.set(queue[self._ahead - 1], session_id)
        return not self._ahead

    def _adopt(self) -> str | None:
        """Return this host's oldest request, and remove its newer ones; ``None`` without a request."""
        known = self._own.known(self._identity.id)
        own = [request.path for request in known if request.role == self._role]
        for newer in own[1:]:
            _delete(self._session, newer)
        self._requests.keep(self._identity.id, _paths(known))
        return own[0] if own else None

    def _join(self) -> str:
        """Create a request; after ``UnreachableError`` the record has its role without a path."""
        data = encode({"requestor": self._identity.id, "hostname": self._identity.name})
        self._requests.join(self._identity.id, self._role)
        self._joined = True  # even if the answer is lost, every request of this host is one of this object
        while True:
            try:
                path = self._session.enqueue_lasting(f"{self._directory}/{_PREFIX}", data, self._version)
            except TransactionError:  # a host refuses late requests
                self._version = self._read_version()
            else:
                self._requests.join(self._identity.id, self._role, path)
                return path

    def _read_version(self) -> int:
        node = self._session.get(self._directory)
        if node is None:
            raise TreeError(
                f"cannot lock role {self._role}, which has a controller: {self._directory} does not exist; the"
                " syncer creates it, so publish again"
            )
        return node.version

    def _read_queue(self) -> list[str]:
        queue = [f"{self._directory}/{name}" for name in queued(self._session.children(self._directory) or ())]
        self._first = queue[0] if queue else None
        return queue
