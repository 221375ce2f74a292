"""Operators' acts on a rollout: one node per act, which the coordinator applies in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.fleet.store.audit import recording
from zkdeployment.publishing.store.cluster import decode_published
from zkdeployment.strategies.state import Directive, RolloutAct, RolloutState
from zkdeployment.strategies.store.acts import record_act
from zkdeployment.strategies.store.agent_records import current_id
from zkdeployment.strategies.store.records import read_attempts, read_leader, read_state
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.transactions import Check, Operation

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.zookeeper.session import Session


def direct(session: Session, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
    """Record an operator's act for the coordinator and return the published revision's rollout, before the act.

    The coordinator applies the act unless another revision is published first. Raises ``RefusedError`` for an act
    that the rollout does not allow.
    """

    def current() -> tuple[str, tuple[Operation, ...]]:
        targets, above = session.get_many([paths.TARGETS, paths.ROLLOUTS])
        rollout_id, sequence = current_id(above), decode_published(targets).effective_since
        if targets is None or rollout_id is None or not rollout_id.startswith(f"{sequence}-"):
            raise RefusedError(
                "there is no rollout: none was begun for what is published; 'zkdeployment rollout show' shows why"
            )
        return rollout_id, (Check(paths.TARGETS, targets.version), recording(session, act))

    return record_act(session, MemberKind.HOST, RolloutAct(directive, act, group), current)


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
