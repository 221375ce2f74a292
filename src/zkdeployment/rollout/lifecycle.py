"""Begin and end of a rollout: which attempt begins, from which state, and what an end changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.rollout import absence, engine, late_joiners, recovery
from zkdeployment.rollout.state import Ending, RolloutState
from zkdeployment.rollout.state_machine import RolloutResult

if TYPE_CHECKING:
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.rollout.state import RolloutObservation, RolloutSnapshot


def start(
    strategy: Strategy,
    observation: RolloutObservation,
    *,
    sequence: int,
    attempt: int,
    revision: Revision,
    before: RolloutState | None = None,
) -> RolloutState:
    """Return the first state of a rollout; hosts that already have the revision count as successful.

    Hosts that proved themselves with the revision in the rollout ``before`` are not watched again.
    """
    had = observation.current & observation.present.keys()
    proven = before.proven if before is not None and before.revision == revision else frozenset[str]()
    return RolloutState(
        sequence=sequence,
        attempt=attempt,
        revision=revision,
        rollout=engine.begin(strategy, {**observation.absent, **observation.present}, successful=had),
        begun=observation.now,
        absent=absence.at_start(strategy, observation),
        proven=proven & had,
    )


def is_superseded(snapshot: RolloutSnapshot) -> bool:
    """Whether the newest rollout has not ended and belongs to an earlier publication."""
    state = snapshot.state
    return state is not None and state.ended is None and state.sequence != snapshot.published.effective_since


def next_attempt(snapshot: RolloutSnapshot) -> int | None:
    """Return the number of the attempt that begins now; ``None`` if none begins.

    A failed attempt stops the fleet at its end. If the fleet is active again, an operator resumed it: the next
    attempt begins.
    """
    state = snapshot.state
    if not snapshot.active:
        return None
    if state is None or state.sequence != snapshot.published.effective_since:
        return 1
    return state.attempt + 1 if has_failed(state) else None


def has_failed(state: RolloutState) -> bool:
    """Whether the rollout ended in a way that stops the fleet: aborted, or with a failed critical group."""
    completed = state.ending is Ending.COMPLETED
    return state.ending is Ending.ABORTED or (completed and state.rollout.result is RolloutResult.FAILED)


def supersede(state: RolloutState, now: float) -> RolloutState:
    """Return the rollout ended by a newer publication."""
    return end(state, Ending.SUPERSEDED, now)


def end(state: RolloutState, ending: Ending, now: float) -> RolloutState:
    """Return the ended rollout; only a successful end leaves it open for late joiners.

    The failure of a critical group begins the recovery that the strategy asks for.
    """
    absent = {host: since for host, since in state.absent.items() if host in state.late_joiners}
    ended = late_joiners.close(
        replace(state, ended=now, ending=ending, active_phase=None, waiting="", absent=absent)
    )
    failed = ending is Ending.COMPLETED and ended.rollout.result is RolloutResult.FAILED
    return recovery.begin_recovery(ended) if failed else ended
