"""The acts of operators on a rollout: one node for each act, which the leading daemon applies in order.

``root`` is the node above the rollouts: those of the hosts of a fleet, or those of fleets.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, RefusedError
from zkdeployment.strategies.progress import apply_acts
from zkdeployment.strategies.state import RolloutAct
from zkdeployment.strategies.store.records import decode_state
from zkdeployment.strategies.views import directive_objection
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Check, Create, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.strategies.state import Directive, RolloutState
    from zkdeployment.zookeeper.session import Session
    from zkdeployment.zookeeper.transactions import Operation

_PREFIX = "act-"
_DIGITS = 10


def act_operations(
    session: Session,
    root: str,
    rollout_id: str,
    act: RolloutAct,
    objection: Callable[[RolloutState, Directive, str | None], str | None] = directive_objection,
) -> tuple[RolloutState, tuple[Operation, ...]]:
    """Return a rollout before an act, and the operations that record the act.

    The act is validated as if all earlier acts had been applied: ``objection`` returns why the rollout does not
    allow it. Raises ``RefusedError`` with that reason, and ``ConflictError`` if the rollout is gone.
    """
    directory, path = paths.acts_path(rollout_id, root), paths.rollout_path(rollout_id, root)
    node, above = session.get_many([path, directory])
    if node is None:
        raise ConflictError(f"the rollout {rollout_id} is gone")
    state, names = decode_state(node.data, root), session.children(directory) or ()
    applied = apply_acts(state, _read(session, directory, names), act.act.time)
    refusal = objection(applied, act.directive, act.group)
    if refusal is not None:
        raise RefusedError(refusal)
    number = max([state.last_act_number, *map(_number, names)]) + 1
    return state, (
        Check(path, node.version),
        # The directory gets a new version, so a leader that has not read this act cannot write a state.
        Create(directory) if above is None else Set(directory, b"", above.version),
        Create(_act_path(directory, number), encode(act.to_json())),
    )


def read_rollout_acts(
    session: Session,
    rollout_id: str,
    after: int = -1,
    watch: Callable[[object], None] | None = None,
    *,
    root: str = paths.ROLLOUTS,
) -> tuple[RolloutAct, ...]:
    """Return the acts with a number greater than ``after``, in order, without those that cannot be read.

    Calls ``watch`` (which must not block) once when another act is recorded.
    """
    directory = paths.acts_path(rollout_id, root)
    names = session.children(directory, watch) or ()
    return _read(session, directory, [name for name in names if _number(name) > after])


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
