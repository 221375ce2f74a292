"""The audit of acts that are commits: each is recorded when the repository has accepted it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.errors import ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.act import Act, sanitize
from zkdeployment.model.cluster import short

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.operator.audit import ZooKeeperActLog
    from zkdeployment.model.commits import CommitOutcome


@dataclass(frozen=True, slots=True)
class ActAudit:
    """Records the acts of one person, for one reason."""

    log: ZooKeeperActLog
    by: str
    reason: str

    def record(self, what: str, outcome: CommitOutcome) -> None:
        """Record an act whose commit was made. The commit is there if the record fails, which is logged."""
        if not outcome.made or outcome.commit is None:
            return
        act = Act(self.by, f"{what} (commit {short(outcome.commit)})", sanitize(self.reason), time.time())
        try:
            self.log.record(act)
        except ZkdeploymentError as error:
            get_logger().warning("act-not-recorded", act=str(act), reason=str(error))
