"""The records of rollouts, for the coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import (
        Grant,
        RolloutObservation,
        RolloutSnapshot,
        RolloutState,
    )


class RolloutStore(Protocol):
    """What a coordinator does to ZooKeeper. Raises ``UnreachableError``.

    Only the one that leads can write: others get ``LockLostError``, whatever they believe.
    """

    def lead(self, timeout: float) -> bool:
        """Queue for the lead for ``timeout`` seconds, keeping the place over calls; say whether we have it."""

    def resign(self) -> None:
        """Leave the lead, or the queue for it; never raises."""

    def snapshot(self) -> RolloutSnapshot:
        """Read what is to be rolled out and the newest rollout; a change of the first wakes from now on."""

    def strategy(self) -> Strategy | None:
        """Read the published strategy; raises ``TreeError`` for what makes no sense."""

    def first_observation(self, revision: Revision, *, now: float) -> RolloutObservation:
        """Read all hosts, and those that are away, before a rollout of ``revision`` begins."""

    def observation(self, snapshot: RolloutSnapshot, state: RolloutState, *, now: float) -> RolloutObservation:
        """Read what concerns a rollout: hosts, reports that are awaited, acts; a change of those wakes once."""

    def begin(self, state: RolloutState, stamp: int) -> None:
        """Make a rollout the newest one; raises ``ConflictError`` unless ``Published.stamp`` is still this."""

    def record(self, state: RolloutState, stop: Stop | None = None) -> None:
        """Replace the state of the newest rollout; with a ``stop`` the fleet stops, and no grant counts any more.

        Raises ``ConflictError`` if that was changed since ``situation`` read it, or if there are acts that
        ``world`` has not told.
        """

    def clear_reports(self, state: RolloutState, hosts: Collection[str]) -> None:
        """Remove what hosts reported in a rollout, in which they begin again."""

    def grant(self, state: RolloutState, wanted: Mapping[str, Grant]) -> None:
        """Make the grants of a rollout what they should be."""

    def tidy(self, current: str) -> None:
        """Remove what is left of all rollouts but the current one, except for their final reports."""
