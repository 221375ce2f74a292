"""The part of ``zkdeployment monitor`` that looks at the whole fleet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.locks.contention import read_locks
from zkdeployment.adapters.zookeeper.operator.operations import Operations
from zkdeployment.adapters.zookeeper.publication.reports import read_report
from zkdeployment.fleet.fleet_health import fleet_health

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.fleet.health import HealthLimits, HealthVerdict


def judge(session: Session, limits: HealthLimits) -> HealthVerdict:
    """Read the fleet and judge it; ``limits`` are in minutes."""
    locks = read_locks(session)
    syncer = read_report(session)
    snapshot = Operations(session).snapshot()
    return fleet_health(snapshot, locks, syncer, now=time.time(), limits=limits)
