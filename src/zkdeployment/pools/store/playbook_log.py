"""The last runs of playbooks, one node in ZooKeeper for each, which only some identities may read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ZkdeploymentError, error_message
from zkdeployment.base.log import get_logger
from zkdeployment.pools.rules.results import PlaybookRun
from zkdeployment.pools.store.store import decode_record
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import pack
from zkdeployment.zookeeper.transactions import Create, Delete, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.zookeeper.servers import AclEntry
    from zkdeployment.zookeeper.session import Session

#: The number of kept runs.
_KEPT = 500


class ZooKeeperPlaybookLog:
    """The runs through one session; ``acl`` is the access list of their nodes."""

    def __init__(self, session: Session, acl: tuple[AclEntry, ...] = ()) -> None:
        self._session = session
        self._acl = acl

    def runs(self, node: int) -> Sequence[PlaybookRun]:
        """Return the runs that are kept for a node, the first one first; raises ``UnreachableError``."""
        found = [f"{paths.POOL_RUNS}/{number}" for number in self._numbers()]
        records = zip(found, self._session.get_many(found), strict=True)
        decoded = (decode_record(path, record, PlaybookRun) for path, record in records if record is not None)
        return [run for run in decoded if run is not None and node in run.nodes]

    def add(self, run: PlaybookRun, take_id: Callable[[], int]) -> None:
        """Record a run with an id of its own, and remove the oldest runs; failures are only logged."""
        try:
            self._session.ensure(paths.POOL_RUNS)
            numbered = replace(run, id=take_id())
            path = f"{paths.POOL_RUNS}/{numbered.id}"
            self._session.commit(Create(path, pack(numbered.to_json()), acl=self._acl))
            for number in self._numbers()[:-_KEPT]:
                with suppress(TransactionError):  # another worker removes it
                    self._session.commit(Delete(f"{paths.POOL_RUNS}/{number}"))
        except ZkdeploymentError as error:
            get_logger().warning("playbook-run-not-recorded", nodes=run.nodes, reason=error_message(error))

    def _numbers(self) -> list[int]:
        names = self._session.children(paths.POOL_RUNS) or ()
        return sorted(int(name) for name in names if name.isdecimal())
