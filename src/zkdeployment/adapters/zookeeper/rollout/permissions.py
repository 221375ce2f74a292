"""What a rollout lets one host do, and what that host reports: an agent's side of the rollout's nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.clients import WatchHandler
from zkdeployment.adapters.zookeeper.client.transactions import Create
from zkdeployment.adapters.zookeeper.rollout.records import decode_grant, decode_report, encode_report, granting_id
from zkdeployment.rollout.state import Permission, PhaseReport
from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.adapters.zookeeper.client.transactions import Operation


def read_permission(
    session: Session, sequence: int, host_id: str, changed: Callable[[], None] | None = None
) -> Permission:
    """Read what the newest rollout of a publication lets a host do; watch that for one change."""
    if changed is not None:
        session.exists(paths.ROLLOUTS, WatchHandler(changed))
    rollout = granting_id(session.get(paths.ROLLOUTS))
    if rollout is None or not rollout.startswith(f"{sequence}-"):
        return Permission()
    place = paths.grant_path(rollout, host_id)
    if changed is not None:
        session.exists(place, WatchHandler(changed))
    reports = [paths.report_path(rollout, phase.value, host_id) for phase in Phase]
    grant, *found = session.get_many([place, *reports])
    told = {phase: decode_report(node) for phase, node in zip(Phase, found, strict=True) if node is not None}
    return Permission(rollout, None if grant is None else decode_grant(grant), told)


def reporting(
    session: Session, rollout: str, phase: Phase, host_id: str, report: PhaseReport
) -> Iterator[Operation]:
    """Give what reports a phase, unless that was done before or the rollout is gone."""
    path = paths.report_path(rollout, phase.value, host_id)
    place, former = session.get_many([path.rpartition("/")[0], path])
    if place is not None and former is None:
        yield Create(path, encode_report(report))
