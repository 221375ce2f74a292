"""The agent's side of the records of rollouts: the permission of its host, and the reports that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.strategies.permission import Grant, Permission, Phase, PhaseReport
from zkdeployment.strategies.store.agent_records import (
    decode_grant,
    decode_report,
    encode_report,
    granting_id,
    read_outline,
)
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.connection import WatchHandler
from zkdeployment.zookeeper.transactions import Create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation


def read_permission(
    session: Session,
    sequence: int,
    host_id: str,
    changed: Callable[[], None] | None = None,
    *,
    follows: bool = False,
) -> Permission:
    """Return a host's permission in the newest rollout of a publication; call ``changed`` at its next change.

    A host that only ``follows`` needs no grant when the rollout has ended without stopping the fleet.
    """
    if changed is not None:
        session.exists(paths.ROLLOUTS, WatchHandler(changed))
    rollout_id = granting_id(session.get(paths.ROLLOUTS))
    if rollout_id is None or not rollout_id.startswith(f"{sequence}-"):
        return Permission()
    grant_path = paths.grant_path(rollout_id, host_id)
    if changed is not None:
        session.exists(grant_path, WatchHandler(changed))
    report_paths = [paths.report_path(rollout_id, phase.value, host_id) for phase in Phase]
    grant, *nodes = session.get_many([grant_path, *report_paths])
    reports = {phase: decode_report(node) for phase, node in zip(Phase, nodes, strict=True) if node is not None}
    if follows:
        return Permission(rollout_id, _following_grant(session, rollout_id, sequence, changed), reports)
    return Permission(rollout_id, None if grant is None else decode_grant(grant), reports)


def _following_grant(
    session: Session, rollout_id: str, sequence: int, changed: Callable[[], None] | None
) -> Grant | None:
    """Return the grant of a host in no group: for both phases when the rollout has ended well."""
    if changed is not None:
        session.exists(paths.rollout_path(rollout_id), WatchHandler(changed))
    outline = read_outline(session, sequence)
    return Grant("", Phase.DEPLOY) if outline is not None and outline.ended_well else None


def reporting(
    session: Session, rollout: str, phase: Phase, host_id: str, report: PhaseReport
) -> Iterator[Operation]:
    """Return the operations that report a phase: none if it was reported before or the rollout was removed."""
    path = paths.report_path(rollout, phase.value, host_id)
    directory, former = session.get_many([path.rpartition("/")[0], path])
    if directory is not None and former is None:
        yield Create(path, encode_report(report))
