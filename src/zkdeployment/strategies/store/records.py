"""The node of a rollout with its state, and all its reports; what agents need as well is in ``agent_records``.

Functions here read and encode; the modules of the coordinator, the agents and the operators write.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.strategies.phases import awaited
from zkdeployment.strategies.state import RolloutState, state_from_json, state_to_json, without_variables
from zkdeployment.strategies.store.agent_records import current_id, decode_report
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.nodes import pack, unpack
from zkdeployment.zookeeper.transactions import NODE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.strategies.permission import Phase, PhaseReport
    from zkdeployment.zookeeper.session import Session


#: The level of compression of a rollout's state: a higher level takes several times as long and saves almost
#: nothing.
_EFFORT = 5

#: Bytes for all errors and reasons of a rollout that is too large for its node; host names are not counted.
_TEXTS = 200_000


class RolloutNodes(NamedTuple):
    """The node above the rollouts of one kind, the one above its leaders; and how another rollout begins."""

    root: str
    leaders: str
    remedy: str


NODES = {
    MemberKind.HOST: RolloutNodes(
        paths.ROLLOUTS,
        paths.COORDINATORS,
        "the next publication begins another: 'zkdeployment resume --latest'",
    ),
    MemberKind.FLEET: RolloutNodes(paths.PROMOTIONS, paths.PROMOTERS, "the promoter begins another"),
}


def read_current(session: Session) -> str | None:
    """Return the id of the newest rollout; ``None`` before the first rollout."""
    return current_id(session.get(paths.ROLLOUTS))


def read_state(session: Session, rollout: str | None = None) -> RolloutState | None:
    """Return the state of a rollout (default: the newest); ``None`` if it does not exist.

    Raises ``ZkdeploymentError`` if the state cannot be read.
    """
    rollout_id = rollout or read_current(session)
    node = None if rollout_id is None else session.get(paths.rollout_path(rollout_id))
    return None if node is None else decode_state(node.data)


def read_attempts(session: Session, sequence: int) -> tuple[RolloutState, ...]:
    """Return the states of a publication's attempts, in order, without those that cannot be read."""
    numbers = (name.partition("-") for name in session.children(paths.ROLLOUTS) or ())
    attempts = sorted(int(attempt) for of, _, attempt in numbers if of == str(sequence) and attempt.isdecimal())
    states = []
    for node in session.get_many(paths.rollout_path(f"{sequence}-{attempt}") for attempt in attempts):
        with contextlib.suppress(ValueError):
            states += [] if node is None else [state_from_json(unpack(node.data))]
    return tuple(states)


def read_rollout(session: Session, sequence: int) -> RolloutState | None:
    """Return the newest rollout if it belongs to the publication with this sequence and can be read."""
    try:
        state = read_state(session)
    except ZkdeploymentError as error:
        get_logger().warning("rollout-unreadable", reason=str(error))
        return None
    return state if state is not None and state.sequence == sequence else None


def read_leader(session: Session, kind: MemberKind = MemberKind.HOST) -> str | None:
    """Return the identity of the leading coordinator or promoter, ``NAME (process PID)``; ``None`` without one."""
    queue = contenders(session, NODES[kind].leaders)
    return queue[0].identity if queue else None


def read_reports(
    session: Session, state: RolloutState, watch: Callable[[object], None]
) -> dict[tuple[Phase, str], PhaseReport]:
    """Return the awaited reports that exist, by phase and host; call ``watch`` once when another is written."""
    directory = paths.reports_path(state.id)
    existing = {*(session.children(directory, watch) or ())}
    keys = {f"{phase.value}:{quote(host, safe='')}": (phase, host) for phase, host in awaited(state)}
    names = [name for name in keys if name in existing]
    nodes = session.get_many(f"{directory}/{name}" for name in names)
    return {keys[name]: decode_report(node) for name, node in zip(names, nodes, strict=True) if node is not None}


def encode_state(state: RolloutState) -> bytes:
    """Return the data of a rollout's node, shortened if it would be too large.

    The values of queries' variables are dropped first, then errors and reasons are shortened and measurements
    thinned.
    """
    failed = len(state.errors) + (0 if state.active_phase is None else len(state.active_phase.reports))
    data = pack(state_to_json(state), effort=_EFFORT)
    for judged in (True, False):
        if len(data) > NODE_LIMIT and state.analyses:
            state = without_variables(state, judged=judged)
            data = pack(state_to_json(state), effort=_EFFORT)
    for longest in (_TEXTS // max(1, failed), 0):
        if len(data) > NODE_LIMIT:
            data = pack(state_to_json(state, longest=longest), effort=9)
    return data


def decode_state(data: bytes, kind: MemberKind = MemberKind.HOST) -> RolloutState:
    """Return the state in the data of a rollout's node; raises ``ZkdeploymentError`` if it cannot be read."""
    try:
        return state_from_json(unpack(data))
    except ValueError as error:
        root, _, remedy = NODES[kind]
        raise ZkdeploymentError(f"{root} has a rollout that cannot be read: {error}; {remedy}") from error
