"""The audit record: one node with the latest acts of operators, written in the transaction of each act."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.base.act import Act, sanitize
from zkdeployment.base.cluster import short
from zkdeployment.base.errors import ConflictError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.base.values import dataclass
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode
from zkdeployment.zookeeper.transactions import Create, Operation, Set

if TYPE_CHECKING:
    from zkdeployment.base.json_values import Value
    from zkdeployment.publishing.acts.commits import CommitOutcome
    from zkdeployment.zookeeper.session import Session

#: The limits of kept acts and of kept bytes.
ACTS_LIMIT = 500
BYTES_LIMIT = 256 * 1024

#: Attempts of a write to the record while other processes write to it.
_ATTEMPTS = 20


class ZooKeeperActLog:
    """The record of acts of operators that no other adapter records, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(self, act: Act) -> None:
        """Add an act to the record; raises ``ConflictError`` if other processes keep writing to it."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._session.commit(recording(self._session, act))
            except ConflictError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return


def read_acts(session: Session) -> tuple[Act, ...]:
    """Return the recorded acts, oldest first."""
    return tuple(map(Act.from_json, _recorded(session.get(paths.AUDIT))))


def recording(session: Session, act: Act) -> Operation:
    """Return the operation that records an act; the oldest acts are dropped when a limit is exceeded.

    An act that is recorded, with the same time, is not recorded again: daemons repeat an act until it succeeds.
    """
    node = session.get(paths.AUDIT)
    recorded, new = _recorded(node), act.to_json()
    acts = [*recorded, *([] if new in recorded else [new])][-ACTS_LIMIT:]
    while len(data := encode({"acts": [*acts]})) > BYTES_LIMIT:
        acts = acts[len(acts) // 10 + 1 :]
    return Create(paths.AUDIT, data) if node is None else Set(paths.AUDIT, data, node.version)


def _recorded(node: Node | None) -> list[dict[str, Value]]:
    """Return the recorded acts, with the keys that only other versions know."""
    listed = None if node is None else node.properties.get("acts")
    return [act for act in listed if isinstance(act, dict)] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class ActAudit:
    """Records the acts of one person, for one reason."""

    log: ZooKeeperActLog
    by: str
    reason: str

    def record(self, what: str, outcome: CommitOutcome) -> None:
        """Record an act whose commit was made.

        If the record fails, the commit stays in the branch, and the failure is logged.
        """
        if not outcome.made or outcome.commit is None:
            return
        act = Act(self.by, f"{what} (commit {short(outcome.commit)})", sanitize(self.reason), time.time())
        try:
            self.log.record(act)
        except ZkdeploymentError as error:
            get_logger().warning("act-not-recorded", act=str(act), reason=str(error))
