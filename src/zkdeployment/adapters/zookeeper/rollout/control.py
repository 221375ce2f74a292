"""The operators' side of the records of rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.rollout.acts import direct
from zkdeployment.adapters.zookeeper.rollout.records import read_attempts, read_leader, read_state

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.act import Act
    from zkdeployment.rollout.state import Directive, RolloutState


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
