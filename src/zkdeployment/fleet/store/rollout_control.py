"""Operators' acts on a rollout: one node per act, which the coordinator applies in order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, RefusedError
from zkdeployment.fleet.store.audit import recording
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.strategies.state import RolloutAct
from zkdeployment.strategies.store.acts import act_operations
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import read_attempts, read_leader, read_state
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Check

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.strategies.state import Directive, RolloutState
    from zkdeployment.zookeeper.session import Session


#: Attempts of a write that fails because other processes write to the same nodes.
_ATTEMPTS = 20


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
    state, operations = act_operations(session, paths.ROLLOUTS, rollout_id, RolloutAct(directive, act, group))
    session.commit(Check(paths.TARGETS, targets.version), *operations, recording(session, act))
    return state


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
