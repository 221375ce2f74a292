"""The list that filters keep, the election of the filter that writes it, and its changes."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from zkdeployment.base.errors import LockLostError
from zkdeployment.providers.reader import (
    FilterRecord,
    ZooKeeperProviderReader,
    encode_record,
    read_record,
    read_with_children,
)
from zkdeployment.providers.selection import FilteredList, check_output, check_paths
from zkdeployment.publishing.store.last_publication import begun_tops, managed_tops
from zkdeployment.tree.values import parent_path
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock
from zkdeployment.zookeeper.nodes import check_path, encode
from zkdeployment.zookeeper.reads import Read
from zkdeployment.zookeeper.shared_nodes import FollowedNodes
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.providers.selection import FilterChange, ProviderList
    from zkdeployment.zookeeper.nodes import Node
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


class ZooKeeperFilter:
    """The list at ``output`` of the instances at ``source``, through one session.

    One of several filters leads, and only the leader changes the list.

    ``changed`` (which must not block) is called when the instances or the list changed. ``reach`` is called before
    and after each change of the list with ``before:switch`` and the like. Every change fails unless the lock node
    of this filter still exists: a filter whose session expired writes nothing. Raises ``ConfigurationError`` for
    unusable paths.
    """

    def __init__(
        self,
        session: Session,
        source: str,
        output: str,
        changed: Callable[[], None],
        *,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> None:
        check_paths(check_path(source), check_path(output))
        self._session = session
        self._source, self._output = source, output
        self._instances = ZooKeeperProviderReader(session, changed)
        self._list = FollowedNodes(session, changed)
        self._reach = reach
        identity = f"{socket.gethostname()} (process {os.getpid()})"
        self._lock = ContenderLock(session, paths.filter_path(output), identity)
        self._leads = False
        self._node: Node | None = None

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this filter leads now."""
        self._leads = False
        self._leads = self._lock.acquire(timeout)
        return self._leads

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._leads = False
        self._lock.release()

    def registered(self) -> ProviderList:
        """Return the registered instances; their next change wakes the filter. Raises ``LinkError``."""
        listed = self._instances.follow(self._source)
        check_paths(listed.path, self._output)
        return listed

    def filtered(self) -> FilteredList:
        """Return the present list; its next change wakes the filter.

        Raises ``RefusedError`` if the list's path is not free for this filter.
        """
        # The nodes of the instances in the list are not followed, because only filters change them.
        self._list.refresh(lambda: [Read(self._output), Read(self._output, children=True)])
        managed = self._session.get(paths.MANAGED)
        self._node, children = read_with_children(self._session, self._output)
        record = read_record(self._node)
        found = FilteredList(
            record.source, record.version, {name: child.properties for name, child in children.items()}
        )
        check_output(self._source, self._output, managed_tops(managed) | begun_tops(managed), found)
        return found

    def write(self, change: FilterChange) -> None:
        """Change the list, in one transaction.

        Raises ``LockLostError`` if another filter leads, and ``ConflictError`` if the list has changed since
        ``filtered`` returned it.
        """
        lock = self._lock.path
        if not self._leads or lock is None:
            raise LockLostError(f"this filter does not lead: another one keeps {self._output}")
        if self._node is None:
            self._session.ensure(parent_path(self._output))
        place = (
            "update" if self._node is not None and read_record(self._node).version == change.version else "switch"
        )
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(lock, 0), *self._operations(change))
        except TransactionError as error:
            if error.path == lock:
                raise LockLostError("this filter lost the lead: its ZooKeeper session expired") from error
            raise
        self._reach(f"after:{place}")

    def _operations(self, change: FilterChange) -> list[Operation]:
        """Return the operations on the list's children, and on its node, by which readers notice the change."""
        data = encode_record(FilterRecord(self._source, change.version))
        record = Create(self._output, data) if self._node is None else Set(self._output, data, self._node.version)
        return [
            record,
            *(Delete(f"{self._output}/{address}") for address in sorted(change.remove)),
            *(
                Set(f"{self._output}/{address}", encode(change.replace[address]))
                for address in sorted(change.replace)
            ),
            *(Create(f"{self._output}/{address}", encode(change.add[address])) for address in sorted(change.add)),
        ]
