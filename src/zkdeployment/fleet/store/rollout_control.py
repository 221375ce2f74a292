"""Operators' acts on a rollout: one node per act, which the coordinator applies in order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, RefusedError
from zkdeployment.fleet.store.audit import recording
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.strategies.progress import apply_acts
from zkdeployment.strategies.state import RolloutAct
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import decode_state, read_attempts, read_leader, read_state
from zkdeployment.strategies.views import directive_objection
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import encode
from zkdeployment.zookeeper.transactions import Check, Create, Set

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.strategies.state import Directive, RolloutState
    from zkdeployment.zookeeper.session import Session


#: Attempts of a write that fails because other processes write to the same nodes.
_ATTEMPTS = 20

_PREFIX = "act-"
_DIGITS = 10


def direct(session: Session, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
    """Record an operator's act for the coordinator and return the published revision's rollout, before the act.

    The act is validated as if all earlier acts had been applied. The coordinator applies it unless another
    revision is published first. Raises ``RefusedError`` for an act that the rollout does not allow.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(ConflictError):
            return _direct(session, directive, act, group)
    raise ConflictError(
        f"the act was not recorded: the rollout changed during each of {_ATTEMPTS} attempts; check it with"
        " 'zkdeployment rollout show' and try again"
    )


def _direct(session: Session, directive: Directive, act: Act, group: str | None) -> RolloutState:
    targets, above = session.get_many([paths.TARGETS, paths.ROLLOUTS])
    rollout_id, sequence = current_id(above), decode_published(targets).effective_since
    if targets is None or rollout_id is None or not rollout_id.startswith(f"{sequence}-"):
        raise RefusedError(
            "there is no rollout: none was begun for what is published; 'zkdeployment rollout show' shows why"
        )
    directory = paths.acts_path(rollout_id)
    node, above_acts = session.get_many([paths.rollout_path(rollout_id), directory])
    if node is None:
        raise ConflictError(f"the rollout {rollout_id} is gone")
    state, names = decode_state(node.data), session.children(directory) or ()
    refusal = directive_objection(apply_acts(state, _read(session, directory, names), act.time), directive, group)
    if refusal is not None:
        raise RefusedError(refusal)
    number = max([state.last_act_number, *map(_number, names)]) + 1
    session.commit(
        Check(paths.TARGETS, targets.version),
        Check(paths.rollout_path(rollout_id), node.version),
        # The directory gets a new version, so a coordinator that has not read this act cannot write a state.
        Create(directory) if above_acts is None else Set(directory, b"", above_acts.version),
        Create(_act_path(directory, number), encode(RolloutAct(directive, act, group).to_json())),
        recording(session, act),
    )
    return state


def read_rollout_acts(
    session: Session, rollout_id: str, after: int = -1, watch: Callable[[object], None] | None = None
) -> tuple[RolloutAct, ...]:
    """Return the acts with a number greater than ``after``, in order, without those that cannot be read.

    Calls ``watch`` (which must not block) once when another act is recorded.
    """
    directory = paths.acts_path(rollout_id)
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


class ZooKeeperRolloutControl:
    """Rollouts, and the directives of operators to the coordinator, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rollout(self, rollout_id: str | None = None) -> RolloutState | None:
        """Return a rollout by its id, or the current one; ``None`` if it does not exist."""
        return read_state(self._session, rollout_id)

    def attempts(self, sequence: int) -> tuple[RolloutState, ...]:
        """Return all rollouts of the publication with this sequence, in order."""
        return read_attempts(self._session, sequence)

    def coordinator(self) -> str | None:
        """Return the identity of the leading coordinator; ``None`` if no coordinator runs."""
        return read_leader(self._session)

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
        """Record a directive for the coordinator and return the rollout; ``group`` is the group to promote.

        Raises ``RefusedError`` if the rollout does not accept the directive now.
        """
        return direct(self._session, directive, act, group)
