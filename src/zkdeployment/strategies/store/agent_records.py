"""The nodes of a rollout that agents read and write: the newest rollout's id and outline, grants and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.json_values import json_problem
from zkdeployment.base.log import get_logger
from zkdeployment.strategies.permission import (
    Grant,
    Permission,
    Phase,
    PhaseReport,
    RolloutOutline,
    RolloutPart,
    outline_from_json,
)
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import Node, encode, unpack

if TYPE_CHECKING:
    from zkdeployment.base.cluster import Cluster
    from zkdeployment.base.publication import Published
    from zkdeployment.zookeeper.session import Session


def current_id(rollouts: Node | None) -> str | None:
    """Return the id of the newest rollout, as the parent node of all rollouts names it."""
    current = None if rollouts is None else rollouts.properties.get("current")
    return current if isinstance(current, str) and current else None


def granting_id(rollouts: Node | None) -> str | None:
    """Return the id of the newest rollout, or ``None`` if its grants are void because it stopped the fleet."""
    return None if rollouts is None or rollouts.properties.get("over") is True else current_id(rollouts)


def read_outline(session: Session, sequence: int) -> RolloutOutline | None:
    """Return the outline of the newest rollout if it belongs to this publication and can be read."""
    rollout_id = current_id(session.get(paths.ROLLOUTS))
    node = None if rollout_id is None else session.get(paths.rollout_path(rollout_id))
    if node is None:
        return None
    try:
        outline = outline_from_json(unpack(node.data))
    except ValueError as error:
        get_logger().warning("rollout-unreadable", reason=str(error))
        return None
    return outline if outline.sequence == sequence else None


def read_rollout_id(session: Session, sequence: int) -> str | None:
    """Return the id of the rollout of a publication; ``None`` without one, and if its grants are void."""
    rollout_id = granting_id(session.get(paths.ROLLOUTS))
    return rollout_id if rollout_id is not None and rollout_id.startswith(f"{sequence}-") else None


def read_permission(session: Session, rollout_id: str, host_id: str) -> Permission:
    """Read the grant and the reports of a host in a rollout."""
    report_paths = [paths.report_path(rollout_id, phase.value, host_id) for phase in Phase]
    grant, *nodes = session.get_many([paths.grant_path(rollout_id, host_id), *report_paths])
    reports = {phase: decode_report(node) for phase, node in zip(Phase, nodes, strict=True) if node is not None}
    return Permission(rollout_id, None if grant is None else decode_grant(grant), reports)


def read_judging_part(
    session: Session, published: Published, cluster: Cluster | None, sequence: int, host_id: str
) -> RolloutPart | None:
    """Return the part of the present rollout that judges a failure of a host in the publication ``sequence``.

    ``None`` if no rollout of that publication is under way, or the strategy does not govern the cluster version.
    """
    if not published.governs(cluster) or sequence < published.effective_since:
        return None
    rollout_id = read_rollout_id(session, published.effective_since)
    return None if rollout_id is None else read_permission(session, rollout_id, host_id).part


def encode_grant(grant: Grant) -> bytes:
    """Return the data of a grant's node."""
    phase = None if grant.phase is None else grant.phase.value
    return encode({"phase": phase, "group": grant.group, "reason": grant.reason})


def decode_grant(node: Node) -> Grant:
    """Return the grant in a node; a grant that cannot be read is a withdrawn one."""
    properties = node.properties
    try:
        phase = None if properties.get("phase") is None else Phase(properties.get("phase"))
    except ValueError:
        return Grant("", None, "the grant cannot be read")
    return Grant(str(properties.get("group", "")), phase, str(properties.get("reason", "")))


def encode_report(report: PhaseReport) -> bytes:
    """Return the data of a report's node."""
    return encode({"error": report.error, "time": report.time})


def decode_report(node: Node) -> PhaseReport:
    """Return the report in a node; a report that cannot be read is a failure."""
    properties = node.properties
    if "error" not in properties:
        return PhaseReport(node.modified, "its report cannot be read")
    error, time = properties["error"], properties.get("time")
    return PhaseReport(
        time=float(time) if isinstance(time, int | float) and json_problem(time) is None else node.modified,
        error=None if error is None else str(error),
    )
