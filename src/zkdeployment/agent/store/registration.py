"""The registration of this host: an ephemeral node below ``/hosts``, and the claim of the host's name.

A claim is an ephemeral node below ``/zkdeployment/host-names``, named like the host, with the host's id. With the
claims, agents find another host of the same name with a number of reads that does not depend on the number of
hosts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.agent.files.run_directory import JoinedQueues, SessionFile
from zkdeployment.agent.store.service_locks import keep_works, remove_stale_contenders
from zkdeployment.base.errors import ConflictError, DuplicateError, HostFilesError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Create, Delete, Operation, Set, make_skeleton

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Revision
    from zkdeployment.zookeeper.session import Session


@dataclass(frozen=True, slots=True)
class Rival:
    """Another registered host that has this host's id or name: the value that both of them ``shared``.

    ``path`` is the rival's ephemeral node, and ``owner`` the session that created it.
    """

    shared: str
    host_id: str
    path: str
    owner: int


def read_claim(session: Session, identity: Identity) -> Node | None:
    """Return the claim of a host's name; ``None`` if no host has claimed it."""
    return session.get(paths.host_name_path(identity.name))


def claiming_rival(session: Session, identity: Identity, claim: Node | None) -> Rival | None:
    """Return the other registered host that has made the ``claim`` of a host's name, if there is one."""
    holder = None if claim is None else _holder(claim)
    if claim is None or holder is None or holder == identity.id:
        return None
    path = f"{paths.HOSTS}/{holder}"
    node = session.get(path)
    is_registered = node is not None and node.owner == claim.owner
    return Rival(identity.name, holder, path, claim.owner) if is_registered else None


def claiming(session: Session, identity: Identity, claim: Node | None) -> list[Operation]:
    """Return the operations that claim a host's name; empty if this session has claimed it.

    The operations replace the ``claim`` of a host that is not registered.
    """
    path = paths.host_name_path(identity.name)
    creation = Create(path, encode({"host": identity.id}), ephemeral=True)
    if claim is None:
        return [creation]
    is_own = _holder(claim) == identity.id and claim.owner == session.id
    return [] if is_own else [Delete(path, claim.version), creation]


def releasing(session: Session, identity: Identity) -> list[Operation]:
    """Return the operations that release a host's name; empty if this session has not claimed it."""
    path = paths.host_name_path(identity.name)
    claim = session.get(path)
    return [] if claim is None or claim.owner != session.id else [Delete(path, claim.version)]


def older_rival(session: Session, identity: Identity, *, all_hosts: bool) -> Rival | None:
    """Return an older registration that shares a name or an id with this registered host, if there is one.

    The check comes after the registration: of two hosts that register at the same time, the later one sees the
    earlier one. Hosts whose agents claim no names are examined only with ``all_hosts``, one by one. Raises
    ``ConflictError`` if this host's node does not exist.
    """
    path = f"{paths.HOSTS}/{identity.id}"
    host_of_name, claim_of_id = f"{paths.HOSTS}/{identity.name}", paths.host_name_path(identity.id)
    own, hosts, names, named, claim = session.get_many(
        [path, paths.HOSTS, paths.HOST_NAMES, host_of_name, claim_of_id]
    )
    if own is None or own.owner != session.id:
        raise ConflictError(f"{path} was removed right after it was created")
    if identity.name != identity.id and named is not None and _is_older(named, own):
        return Rival(identity.name, identity.name, host_of_name, named.owner)
    if claim is not None and _holder(claim) != identity.id and _is_older(claim, own):
        return Rival(identity.id, _holder(claim), claim_of_id, claim.owner)
    if all_hosts and hosts is not None and names is not None and hosts.children > names.children:
        return _rival_among_all_hosts(session, identity, own)
    return None


def _rival_among_all_hosts(session: Session, identity: Identity, own: Node) -> Rival | None:
    ids = [name for name in session.children(paths.HOSTS) or () if name != identity.id]
    host_paths = [f"{paths.HOSTS}/{name}" for name in ids]
    for other, path, node in zip(ids, host_paths, session.get_many(host_paths), strict=True):
        if node is not None and _is_older(node, own):
            shared = {other, node.properties.get("name")} & {identity.id, identity.name}
            if shared:
                return Rival(str(shared.pop()), other, path, node.owner)
    return None


def await_end(session: Session, rival: Rival, identity: Identity, deadline: float) -> None:
    """Wait until a rival's session has ended, for example because its agent was killed; ``deadline`` is monotonic.

    Raises ``DuplicateError`` at the deadline.
    """
    began, changed = time.monotonic(), threading.Event()
    if began < deadline:
        get_logger().warning(
            "name-is-taken",
            name=rival.shared,
            host=rival.host_id,
            action="wait until its session ends, in case its agent was killed",
            seconds=round(deadline - began),
        )
    while True:
        changed.clear()
        if time.monotonic() < deadline:
            session.exists(rival.path, lambda _: changed.set())
        node = session.get(rival.path)
        if node is None or node.owner != rival.owner:
            return
        if not changed.wait(max(0.0, deadline - time.monotonic())):
            raise DuplicateError(
                f"two hosts are called {rival.shared}: {rival.host_id}, which is registered, and {identity.id},"
                " this one; an id or name must mean one host"
            )


def _is_older(node: Node, own: Node) -> bool:
    """Whether a node belongs to a running agent and was created before this host's node."""
    return bool(node.owner) and node.born < own.born


def _holder(claim: Node) -> str:
    return str(claim.properties.get("host"))


#: The number of attempts to write while other processes write to the same node.
_ATTEMPTS = 20

#: Seconds after the session timeout in which ZooKeeper removes the node of an expired session.
_EXPIRY_MARGIN = 1.0


class HostRegistration:
    """Creates, updates and removes the node of one host, through one session.

    ``memory`` has the id of the session of this host's last agent: its node is replaced at once. If the node
    belongs to any other session, or another host has this host's name, the registration waits up to ``patience``
    seconds (default: the session timeout and a margin) for the end of that session; after that, the host counts as
    a duplicate. The current session's id and the queues for locks that this host's agents have joined are
    persisted for the next agent. The first registration in a session keeps the records of work that earlier
    sessions of this host left under the locks of services.
    """

    def __init__(
        self, session: Session, *, memory: SessionFile | None = None, patience: float | None = None
    ) -> None:
        self._session = session
        self._queues = JoinedQueues(memory)
        self._memory = memory
        self._previous_session = None if memory is None else memory.read_session()
        self._patience = session.session_timeout + _EXPIRY_MARGIN if patience is None else patience
        self._own_sessions = {self._previous_session}
        self._previous_session_lives = False
        self._identity: Identity | None = None  # of the registered host
        self._kept_in: int | None = None  # the last session in which the host's unfinished work was kept
        self._written: tuple[int, int] | None = None  # the session and the version of the last update of the node

    def register(self, host: Host, *, adopt: bool = False, patient: bool = True) -> Revision | None:
        """Create this host's ephemeral node, or update it if this session owns it.

        With ``adopt``, the version in a persistent node, which only zc.zkdeployment created, replaces the version
        of ``host`` and is returned. Raises ``DuplicateError`` if another live host has this id or name, without
        ``patient`` at once.
        """
        make_skeleton(self._session)
        path = host_path(host)
        deadline = time.monotonic() + (self._patience if patient else 0.0)
        adopted = None
        for _ in range(_ATTEMPTS):
            node = self._replaceable_node(path, host, deadline)
            found = _adopted_version(node) if adopt else None
            adopted = adopted if found is None else found
            claim = self._claim_of_nobody(host.identity, deadline)
            try:
                self._session.commit(
                    *self._registering(path, node, host, adopted),
                    *claiming(self._session, host.identity, claim),
                )
                self._remember_session()
                self._previous_session_lives = node is not None and node.owner == self._previous_session
                # Reconnecting hosts do not examine zc.zkdeployment's hosts, which claim no names, again.
                rival = older_rival(self._session, host.identity, all_hosts=self._identity is None)
            except ConflictError:
                continue  # another writer, or the end of a session, changed the nodes: read them again
            if rival is None:
                self._identity = host.identity
                self._keep_works(host.identity)
                return adopted
            self._remove(host.identity)
            await_end(self._session, rival, host.identity, deadline)
        raise ConflictError(
            f"cannot register {host.identity}: other writers changed {path} during each of {_ATTEMPTS} attempts"
        )

    def is_registered(self) -> bool:
        """Whether this host's node exists and belongs to this session."""
        node = None if self._identity is None else self._session.get(f"{paths.HOSTS}/{self._identity.id}")
        return node is not None and node.owner == self._session.id

    def update_host(self, host: Host, *, patient: bool = True) -> None:
        """Replace the properties of this host's node; register again if the session that owned it has ended."""
        path = host_path(host)
        if not self._write(path, host, self._own_version()):
            node = self._session.get(path)
            if node is None or node.owner != self._session.id or not self._write(path, host, node.version):
                self.register(host, patient=patient)
        self._keep_works(host.identity)

    def unregister(self) -> None:
        """Remove this host's node."""
        if self._identity is not None and self.is_registered():
            self._remove(self._identity)

    def clear_stale_nodes(self) -> None:
        """Remove the lock contenders of this host's killed agent, of which no process may still be running."""
        if self._identity is not None:
            previous = self._previous_session if self._previous_session_lives else None
            remove_stale_contenders(self._session, previous, self._queues.inherited)
            self._queues.forget_inherited()

    def _keep_works(self, identity: Identity) -> None:
        """Keep, once for each session, the work that was recorded in earlier sessions.

        A script that still runs, or that was interrupted, is then protected for longer than the lock delay.
        """
        session_id = self._session.id
        if session_id != self._kept_in:
            self._queues.kept.update(keep_works(self._session, identity.id, self._queues.locks))
            self._kept_in = session_id

    def _update_operations(self, host: Host, node: Node | None) -> list[Operation]:
        """Return the operations that update the host's ``node``; empty unless this session owns it."""
        if node is None or node.owner != self._session.id:
            return []
        self._written = None
        return [Set(host_path(host), encode(host.properties()), node.version)]

    def _own_version(self) -> int | None:
        """Return the version of the node that this session wrote last; ``None`` if it is unknown."""
        session_id, version = self._written or (None, 0)
        return version if session_id is not None and session_id == self._session.id else None

    def _write(self, path: str, host: Host, version: int | None) -> bool:
        """Update the node if its version is ``version`` (``None``: unknown), and return whether it was."""
        session_id, self._written = self._session.id, None  # after a lost answer the version is unknown
        if version is None:
            return False
        try:
            self._session.commit(Set(path, encode(host.properties()), version))
        except ConflictError:
            return False
        if session_id is not None:
            self._written = session_id, version + 1
        return True

    def _replaceable_node(self, path: str, host: Host, deadline: float) -> Node | None:
        """Return the existing node, which may be replaced, or ``None`` if it does not exist.

        Raises ``DuplicateError`` if another host's session still owns the node at the deadline.
        """
        changed = threading.Event()
        while True:
            changed.clear()
            if time.monotonic() < deadline:
                self._session.exists(path, lambda _: changed.set())
            node = self._session.get(path)
            if node is None or not node.owner or node.owner in {self._session.id, *self._own_sessions}:
                return node
            if not changed.wait(max(0.0, deadline - time.monotonic())):
                other = Host.from_properties(host.identity.id, node.properties)
                raise DuplicateError(
                    f"another agent is running with host id {host.identity.id}: {other.identity}"
                    f"{'' if other.pid is None else f', process {other.pid}'}; host ids must be unique"
                )

    def _claim_of_nobody(self, identity: Identity, deadline: float) -> Node | None:
        """Return the claim of the host's name, which may be replaced, or ``None`` if it does not exist.

        Raises ``DuplicateError`` if another registered host has claimed the name until the deadline.
        """
        while True:
            claim = read_claim(self._session, identity)
            rival = claiming_rival(self._session, identity, claim)
            if rival is None:
                return claim
            await_end(self._session, rival, identity, deadline)

    def _remove(self, identity: Identity) -> None:
        removals = [Delete(f"{paths.HOSTS}/{identity.id}"), *releasing(self._session, identity)]
        with contextlib.suppress(ConflictError):  # the session expired meanwhile, and the nodes with it
            self._session.commit(*removals)

    def _registering(self, path: str, node: Node | None, host: Host, adopted: Revision | None) -> list[Operation]:
        properties = host.properties() | ({} if adopted is None else {"version": adopted})
        data = encode(properties)
        if node is None:
            return [Create(path, data, ephemeral=True)]
        if node.owner == self._session.id:
            return [Set(path, data, node.version)]
        return [Delete(path, node.version), Create(path, data, ephemeral=True)]

    def _remember_session(self) -> None:
        """Persist the session id: otherwise a killed agent's successor waits for this session to expire."""
        session_id = self._session.id
        if session_id is not None and session_id not in self._own_sessions:
            self._own_sessions.add(session_id)
            try:
                if self._memory is not None:
                    self._memory.write_session(session_id)
            except HostFilesError as error:
                get_logger().warning("session-not-remembered", reason=str(error))


def host_path(host: Host) -> str:
    """Return the path of a host's node."""
    return f"{paths.HOSTS}/{host.identity.id}"


def _adopted_version(node: Node | None) -> Revision | None:
    """Return the version of a persistent node, which only agents of zc.zkdeployment created."""
    if node is None or node.owner:
        return None
    return Host.from_properties("", node.properties).version
