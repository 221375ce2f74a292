"""The grants of a rollout: one node per host, written by the leading coordinator.

An agent reads the grant of its own host with ``permissions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Set
from zkdeployment.adapters.zookeeper.rollout.agent_records import decode_grant, encode_grant
from zkdeployment.adapters.zookeeper.rollout.leadership import batches
from zkdeployment.errors import ZkdeploymentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation
    from zkdeployment.adapters.zookeeper.rollout.leadership import RolloutLeadership
    from zkdeployment.rollout.permission import Grant


class PublishedGrants:
    """The grants of the newest rollout, with a copy of the nodes so that only differences are written."""

    def __init__(self, session: Session, leadership: RolloutLeadership) -> None:
        self._session = session
        self._leadership = leadership
        self._copy: tuple[str, dict[str, Grant]] | None = None

    def forget(self) -> None:
        """Read the nodes again before the next change: another coordinator may have written them."""
        self._copy = None

    def publish(self, rollout_id: str, wanted: Mapping[str, Grant]) -> None:
        """Create, replace and delete nodes until the grants of a rollout are the wanted ones."""
        published = self._read(rollout_id)
        changed = [host for host, grant in wanted.items() if published.get(host) != grant]
        withdrawn = [host for host in published if host not in wanted]
        for hosts in batches(changed + withdrawn):
            operations = [_operation(rollout_id, host, published, wanted) for host in hosts]
            try:
                self._leadership.commit("grant", *operations)
            except ZkdeploymentError:
                self.forget()  # it is unknown whether the transaction was committed
                raise
            for host in hosts:
                if host in wanted:
                    published[host] = wanted[host]
                else:
                    del published[host]

    def _read(self, rollout_id: str) -> dict[str, Grant]:
        if self._copy is None or self._copy[0] != rollout_id:
            directory = paths.grants_path(rollout_id)
            names = self._session.children(directory) or ()
            nodes = self._session.get_many(f"{directory}/{name}" for name in names)
            grants = {
                unquote(name): decode_grant(node)
                for name, node in zip(names, nodes, strict=True)
                if node is not None
            }
            self._copy = rollout_id, grants
        return self._copy[1]


def _operation(
    rollout_id: str, host: str, published: Mapping[str, Grant], wanted: Mapping[str, Grant]
) -> Operation:
    path = paths.grant_path(rollout_id, host)
    if host not in wanted:
        return Delete(path)
    data = encode_grant(wanted[host])
    return Set(path, data) if host in published else Create(path, data)
