"""The port of the coordinator to the records of rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.permission import Grant
    from zkdeployment.rollout.state import RolloutObservation, RolloutSnapshot, RolloutState


class RolloutStore(Protocol):
    """The records of rollouts. Each method raises ``UnreachableError`` if ZooKeeper does not answer.

    Only the leading coordinator can write; writes of any other raise ``LockLostError``.
    """

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds and return whether this coordinator leads.

        The place in the queue is kept from call to call.
        """

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""

    def snapshot(self) -> RolloutSnapshot:
        """Return the published revision and the newest rollout; a change of either wakes from now on."""

    def strategy(self) -> Strategy | None:
        """Return the published strategy; raises ``TreeError`` if it cannot be read."""

    def first_observation(self, revision: Revision, *, now: float) -> RolloutObservation:
        """Return all registered and absent hosts, freshly read, before a rollout of ``revision`` begins."""

    def observation(self, snapshot: RolloutSnapshot, state: RolloutState, *, now: float) -> RolloutObservation:
        """Return the hosts, the awaited reports and the new acts of a rollout; a change of these wakes once."""

    def begin(self, state: RolloutState, stamp: int) -> None:
        """Make a rollout the newest one; raises ``ConflictError`` unless ``Published.stamp`` is ``stamp``."""

    def record(self, state: RolloutState, stop: Stop | None = None) -> None:
        """Replace the state of the newest rollout; with a ``stop`` the fleet stops and all grants become void.

        The fleet is not stopped if its cluster version is another revision than the rollout's. Raises
        ``ConflictError`` if the state changed since ``snapshot`` read it, or if there are acts that
        ``observation`` has not returned.
        """

    def clear_reports(self, state: RolloutState, hosts: Collection[str]) -> None:
        """Remove the reports of hosts that start again in a rollout."""

    def grant(self, state: RolloutState, wanted: Mapping[str, Grant]) -> None:
        """Make the published grants of a rollout equal to the wanted ones."""

    def tidy(self, current: str) -> None:
        """Remove the records of all rollouts but the current one, except for the final states in the history."""
