"""Rollouts as they are kept: the state, what hosts may enter, what they report, what operators ask for."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.packed import pack, unpack
from zkdeployment.adapters.zookeeper.client.transactions import NODE_LIMIT
from zkdeployment.adapters.zookeeper.locks.contender_lock import contenders
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.rollout.phases import awaited
from zkdeployment.rollout.state import Grant, PhaseReport
from zkdeployment.rollout.state_json import state_from_json, state_to_json
from zkdeployment.rollout.state_machine import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.rollout.state import RolloutState


#: Bytes that all texts of a rollout that is too large for its node may take, besides the names of its hosts.
_TEXTS = 200_000


def read_current(session: Session) -> str | None:
    """Return the id of the newest rollout; ``None`` where there never was one."""
    return current_id(session.get(paths.ROLLOUTS))


def current_id(rollouts: Node | None) -> str | None:
    """Return which rollout the node above all names as the newest."""
    current = None if rollouts is None else rollouts.properties.get("current")
    return current if isinstance(current, str) and current else None


def granting_id(rollouts: Node | None) -> str | None:
    """Return the newest rollout unless it is over and stopped the fleet: its grants mean nothing any more."""
    return None if rollouts is None or rollouts.properties.get("over") is True else current_id(rollouts)


def read_state(session: Session, rollout: str | None = None) -> RolloutState | None:
    """Read a rollout (default: the newest); ``None`` if there is none.

    Raises ``ZkdeploymentError`` for what makes no sense.
    """
    found = rollout or read_current(session)
    node = None if found is None else session.get(paths.rollout_path(found))
    return None if node is None else decode_state(node.data)


def read_attempts(session: Session, sequence: int) -> tuple[RolloutState, ...]:
    """Read the rollouts of a publication that are kept, the first one first; those that make sense."""
    numbers = (name.partition("-") for name in session.children(paths.ROLLOUTS) or ())
    attempts = sorted(int(attempt) for of, _, attempt in numbers if of == str(sequence) and attempt.isdecimal())
    found = []
    for node in session.get_many(paths.rollout_path(f"{sequence}-{attempt}") for attempt in attempts):
        with contextlib.suppress(ValueError):
            found += [] if node is None else [state_from_json(unpack(node.data))]
    return tuple(found)


def read_rollout(session: Session, sequence: int) -> RolloutState | None:
    """Read the newest rollout, if it is one of the publication with this sequence, and makes sense."""
    try:
        state = read_state(session)
    except ZkdeploymentError as error:
        get_logger().warning("rollout-not-understood", reason=str(error))
        return None
    return state if state is not None and state.sequence == sequence else None


def read_leader(session: Session) -> str | None:
    """Say which coordinator leads: ``NAME (process PID)``; ``None`` if none runs."""
    found = contenders(session, paths.COORDINATORS)
    return found[0].identity if found else None


def read_reports(
    session: Session, state: RolloutState, watch: Callable[[object], None]
) -> dict[tuple[Phase, str], PhaseReport]:
    """Read the reports that are awaited; calls ``watch`` once when there are more."""
    above = paths.reports_path(state.id)
    there = {*(session.children(above, watch) or ())}
    places = {f"{phase.value}:{quote(host, safe='')}": (phase, host) for phase, host in awaited(state)}
    names = [name for name in places if name in there]
    nodes = session.get_many(f"{above}/{name}" for name in names)
    return {places[name]: decode_report(node) for name, node in zip(names, nodes, strict=True) if node is not None}


def encode_state(state: RolloutState) -> bytes:
    """Return the data of a rollout's node; where it would be too large, errors and reasons are cut short."""
    failed = len(state.errors) + (0 if state.active_phase is None else len(state.active_phase.reports))
    data = pack(state_to_json(state))
    for longest in (_TEXTS // max(1, failed), 0):
        if len(data) > NODE_LIMIT:
            data = pack(state_to_json(state, longest=longest))
    return data


def decode_state(data: bytes) -> RolloutState:
    """Read the data of a rollout's node; raises ``ZkdeploymentError`` for what makes no sense."""
    try:
        return state_from_json(unpack(data))
    except ValueError as error:
        raise ZkdeploymentError(
            f"{paths.ROLLOUTS} has a rollout that cannot be read: {error}; the next publication begins another:"
            " 'zkdeployment resume --latest'"
        ) from error


def encode_grant(grant: Grant) -> bytes:
    """Return the data of a grant's node."""
    phase = None if grant.phase is None else grant.phase.value
    return encode({"phase": phase, "group": grant.group, "reason": grant.reason})


def decode_grant(node: Node) -> Grant:
    """Read a grant; what makes no sense lets nobody in."""
    found = node.properties
    try:
        phase = None if found.get("phase") is None else Phase(found.get("phase"))
    except ValueError:
        return Grant("", None, "the grant cannot be read")
    return Grant(str(found.get("group", "")), phase, str(found.get("reason", "")))


def encode_report(report: PhaseReport) -> bytes:
    """Return the data of a report's node."""
    return encode({"error": report.error, "time": report.time})


def decode_report(node: Node) -> PhaseReport:
    """Read a report; what makes no sense is a failure."""
    found = node.properties
    if "error" not in found:
        return PhaseReport(node.modified, "its report cannot be read")
    error, time = found["error"], found.get("time")
    return PhaseReport(
        time=float(time) if isinstance(time, int | float) else node.modified,
        error=None if error is None else str(error),
    )
