"""The acts of operators on a rollout: one node for each act, which the leading daemon applies in order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import ConflictError, RefusedError
from zkdeployment.strategies.progress import apply_acts
from zkdeployment.strategies.state import RolloutAct, RolloutState
from zkdeployment.strategies.store.records import NODES, decode_state
from zkdeployment.strategies.views import directive_objection
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Check, Create, Operation, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.strategies.strategy import MemberKind
    from zkdeployment.zookeeper.session import Session

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
