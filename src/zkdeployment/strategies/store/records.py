"""The nodes of rollouts: the state, the acts of operators, and the lead; ``agent_records`` has what agents need.

An act of an operator is a node; the leading daemon applies the acts in order. Every write of a leader is a
transaction that fails unless the leader's lock node still exists: a daemon whose session expired cannot write.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import quote

from zkdeployment.base.errors import ConflictError, LockLostError, RefusedError, ZkdeploymentError
from zkdeployment.base.log import get_logger
from zkdeployment.strategies.phases import awaited
from zkdeployment.strategies.progress import apply_acts
from zkdeployment.strategies.state import (
    RolloutAct,
    RolloutState,
    state_from_json,
    state_to_json,
    without_variables,
)
from zkdeployment.strategies.store.agent_records import current_id, decode_report
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import directive_objection
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.contender_lock import ContenderLock, contenders, process_identity
from zkdeployment.zookeeper.nodes import encode, pack, unpack
from zkdeployment.zookeeper.transactions import NODE_LIMIT, Check, Create, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


_PREFIX = "act-"
_DIGITS = 10

#: Attempts of a write that fails because other processes write to the same nodes.
_ATTEMPTS = 20


def record_act(
    session: Session, kind: MemberKind, act: RolloutAct, current: Callable[[], tuple[str, tuple[Operation, ...]]]
) -> RolloutState:
    """Record an operator's act for the leading daemon and return the rollout, before the act.

    ``current`` returns the id of the rollout, and further operations of the transaction. The act is validated as
    if all earlier acts had been applied. Raises ``RefusedError`` for an act that the rollout does not allow.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(ConflictError):
            rollout_id, further = current()
            state, operations = _act_operations(session, kind, rollout_id, act)
            session.commit(*further, *operations)
            return state
    raise ConflictError(
        f"the act was not recorded: the {kind.whole} changed during each of {_ATTEMPTS} attempts; check it with"
        f" 'zkdeployment {kind.verb} show' and try again"
    )


def _act_operations(
    session: Session, kind: MemberKind, rollout_id: str, act: RolloutAct
) -> tuple[RolloutState, tuple[Operation, ...]]:
    root = NODES[kind].root
    directory, path = paths.acts_path(rollout_id, root), paths.rollout_path(rollout_id, root)
    node, above = session.get_many([path, directory])
    if node is None:
        raise ConflictError(f"the {kind.whole} {rollout_id} is gone")
    state, names = decode_state(node.data, kind), session.children(directory) or ()
    applied = apply_acts(state, _read(session, directory, names), act.act.time)
    refusal = directive_objection(applied, act.directive, act.group)
    if refusal is not None:
        raise RefusedError(refusal)
    number = max([state.last_act_number, *map(_number, names)]) + 1
    return state, (
        Check(path, node.version),
        # The directory gets a new version, so a leader that has not read this act cannot write a state.
        Create(directory) if above is None else Set(directory, b"", above.version),
        Create(_act_path(directory, number), encode(act.to_json())),
    )


class NewActs(NamedTuple):
    """The acts that a rollout does not contain yet, in order; the guard fails a transaction if there are more."""

    acts: tuple[RolloutAct, ...] = ()
    guard: tuple[Check, ...] = ()


def read_new_acts(session: Session, state: RolloutState, watch: Callable[[object], None] | None = None) -> NewActs:
    """Return the acts that a rollout does not contain yet, without those that cannot be read.

    Calls ``watch`` (which must not block) once when another act is recorded.
    """
    directory = paths.acts_path(state.id, NODES[state.kind].root)
    # The version is read before the acts: an act that arrives in between makes the guard fail.
    above = session.get(directory)
    names = session.children(directory, watch) or ()
    acts = _read(session, directory, [name for name in names if _number(name) > state.last_act_number])
    return NewActs(acts, () if above is None else (Check(directory, above.version),))


def _read(session: Session, directory: str, names: Sequence[str]) -> tuple[RolloutAct, ...]:
    nodes = session.get_many(f"{directory}/{name}" for name in names)
    acts = []
    for name, node in zip(names, nodes, strict=True):
        if node is not None:
            with contextlib.suppress(ValueError):
                acts.append(RolloutAct.from_json(node.properties, number=_number(name)))
    return tuple(acts)


def _act_path(directory: str, number: int) -> str:
    return f"{directory}/{_PREFIX}{number:0{_DIGITS}}"


def _number(name: str) -> int:
    digits = name.removeprefix(_PREFIX)
    return int(digits) if name.startswith(_PREFIX) and digits.isascii() and digits.isdecimal() else -1


_Item = TypeVar("_Item")

#: Operations of one transaction, besides the check of the lead; a large transaction blocks the whole ensemble.
_BATCH = 499


class FencedLead:
    """One daemon's contention for the lead, and the transactions that it may commit as the leader.

    The daemon leads rollouts over members of a ``kind``. ``identity`` is its name in the queue (default: its host
    and process). ``reach`` is called before and after each commit with ``before:PLACE`` and ``after:PLACE``.
    """

    def __init__(
        self,
        session: Session,
        kind: MemberKind,
        reach: Callable[[str], None] = lambda _place: None,
        *,
        identity: str | None = None,
    ) -> None:
        self._session = session
        self._reach = reach
        self._role = kind.leader
        self._lock = ContenderLock(session, NODES[kind].leaders, identity or process_identity())
        self._node: str | None = None

    @property
    def node(self) -> str | None:
        """The path of the lock node that gives the lead; ``None`` while another daemon leads."""
        return self._node

    def acquire(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this daemon leads now."""
        leads = False
        try:
            leads = self._lock.acquire(timeout)
        finally:
            # While this daemon continues to lead, other threads always find the node.
            self._node = self._lock.path if leads else None
        return leads

    def release(self) -> None:
        """Leave the lead, or the queue for it; never raises."""
        self._node = None
        self._lock.release()

    def confirm(self) -> None:
        """Raise ``LockLostError`` if this daemon does not lead any more."""
        self.commit("lead")

    def commit(self, place: str, *operations: Operation) -> None:
        """Commit a transaction as the leader; raises ``LockLostError`` if another daemon leads."""
        if self._node is None:
            raise LockLostError(
                f"this {self._role} does not lead any more: another one leads; it queues for the lead again"
            )
        self._reach(f"before:{place}")
        try:
            self._session.commit(Check(self._node, 0), *operations)
        except TransactionError as error:
            if error.path == self._node:
                raise LockLostError(
                    f"this {self._role} lost the lead: its ZooKeeper session expired; it queues for the lead again"
                ) from error
            raise
        self._reach(f"after:{place}")

    def commit_in_batches(self, place: str, operations: Iterable[Operation]) -> None:
        """Commit operations that do not depend on each other, in as many transactions as they need."""
        for batch in batches([*operations]):
            self.commit(place, *batch)


def batches(items: list[_Item]) -> Iterator[list[_Item]]:
    """Return the items in lists that are short enough for the operations of one transaction."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
