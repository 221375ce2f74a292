"""The operators' side of the records of rollouts (a ``RolloutControl``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.rollout.acts import direct
from zkdeployment.adapters.zookeeper.rollout.records import read_attempts, read_leader, read_state

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.act import Act
    from zkdeployment.rollout.state import Directive, RolloutState


class ZooKeeperRolloutControl:
    """The records of rollouts, through one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def rollout(self, rollout_id: str | None = None) -> RolloutState | None:
        return read_state(self._session, rollout_id)

    def attempts(self, sequence: int) -> tuple[RolloutState, ...]:
        return read_attempts(self._session, sequence)

    def coordinator(self) -> str | None:
        return read_leader(self._session)

    def direct(self, directive: Directive, act: Act, group: str | None = None) -> RolloutState:
        return direct(self._session, directive, act, group)
