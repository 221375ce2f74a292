"""The state machine of one cycle of the agent: its states, its events, and the table of its transitions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class CycleState(Enum):
    """The states of a cycle. A cycle begins with ``READING``; the states after ``DEPLOYING`` are its outcomes."""

    READING = "read, plan"
    DEPLOYING = "execute"
    DONE = "done"  # the host is at the cluster version
    HELD = "held"  # nothing may start
    FAILED = "failed"  # the fleet was stopped, or the rollout continues without this host
    MOVED = "moved"  # the cycle was interrupted: read again at once


class CycleEvent(Enum):
    """The events of a cycle; each value is the cause in the manual's words."""

    CLUSTER_CLOSED = "the cluster is stopped, held or importing"
    PUBLICATION_LOST = "ZooKeeper lost a publication that this host knows"
    PUBLICATION_UNTRUSTED = "no publisher signed what ZooKeeper holds: the fleet stops"
    VERSION_PRESENT = "the host already has the cluster version"
    ONLY_DOCUMENTS_CHANGED = "only documents changed since the host's version; the new one is recorded"
    HOST_EXCLUDED = "the host failed before in this rollout, which continues without it"
    VERSION_WANTED = "the host has another version or publication; with a strategy, it waits for its phase"
    INTERRUPTED = "ZooKeeper is unreachable, nodes changed, or a reload or an upgrade is due"
    DEFECT_MET = "an unexpected error; the agent tries again later"
    STEPS_SUCCEEDED = "every step succeeded; the version is recorded"
    STEP_FAILED = "a step failed: the fleet stops, or the host's group is judged"


#: The state after an event in a state; a cycle ends in a state without events.
CYCLE_TRANSITIONS: Mapping[tuple[CycleState, CycleEvent], CycleState] = {
    (CycleState.READING, CycleEvent.CLUSTER_CLOSED): CycleState.HELD,
    (CycleState.READING, CycleEvent.PUBLICATION_LOST): CycleState.HELD,
    (CycleState.READING, CycleEvent.PUBLICATION_UNTRUSTED): CycleState.FAILED,
    (CycleState.READING, CycleEvent.VERSION_PRESENT): CycleState.DONE,
    (CycleState.READING, CycleEvent.ONLY_DOCUMENTS_CHANGED): CycleState.DONE,
    (CycleState.READING, CycleEvent.HOST_EXCLUDED): CycleState.FAILED,
    (CycleState.READING, CycleEvent.VERSION_WANTED): CycleState.DEPLOYING,
    (CycleState.READING, CycleEvent.INTERRUPTED): CycleState.MOVED,
    (CycleState.READING, CycleEvent.DEFECT_MET): CycleState.FAILED,
    (CycleState.DEPLOYING, CycleEvent.STEPS_SUCCEEDED): CycleState.DONE,
    (CycleState.DEPLOYING, CycleEvent.STEP_FAILED): CycleState.FAILED,
    (CycleState.DEPLOYING, CycleEvent.INTERRUPTED): CycleState.MOVED,
    (CycleState.DEPLOYING, CycleEvent.DEFECT_MET): CycleState.FAILED,
}
