"""The statuses of resources as pages show them: each with a sign, in order of urgency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import IntentState
from zkdeployment.fleet.host_status import HostState
from zkdeployment.intents.resource_status import ClusterStatus, RsyncStatus
from zkdeployment.web.views.states import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.intents.resources import ResourceRow
    from zkdeployment.web.views.states import StateSign

#: A status of a resource, of either kind.
ResourceStatus = RsyncStatus | ClusterStatus


@dataclass(frozen=True, slots=True)
class StatusSign:
    """The sign of a status: its word, and the sign of hosts that has its shape and colour."""

    word: str
    meaning: str
    sign: StateSign


#: The signs of what was done with resources, the most urgent first.
RSYNC_SIGNS: Mapping[RsyncStatus, StatusSign] = {
    RsyncStatus.FAILED: StatusSign("Failed", "its host failed at it", SIGNS[HostState.FAILED]),
    RsyncStatus.RETRYING: StatusSign("Retrying", "its host is absent", SIGNS[HostState.ABSENT]),
    RsyncStatus.PENDING: StatusSign("Pending", "not done yet", SIGNS[HostState.DEPLOYING]),
    RsyncStatus.APPLIED: StatusSign("Applied", "done", SIGNS[HostState.CONVERGED]),
    RsyncStatus.TERMINATED: StatusSign("Terminated", "undeployed", SIGNS[HostState.EXCLUDED]),
}

#: The signs of what exists, the most urgent first.
CLUSTER_SIGNS: Mapping[ClusterStatus, StatusSign] = {
    ClusterStatus.NOT_PRESENT: StatusSign("NotPresent", "its host does not have it", SIGNS[HostState.BEHIND]),
    ClusterStatus.UNKNOWN: StatusSign("Unknown", "its host never reported", SIGNS[HostState.UNKNOWN]),
    ClusterStatus.PRESENT: StatusSign("Present", "its host has it", SIGNS[HostState.CONVERGED]),
}

#: The colours and icons of the states of intents: the tones of the style sheet.
STATE_TONES: Mapping[IntentState, str] = {
    IntentState.CREATED: "planned",
    IntentState.APPROVED: "busy",
    IntentState.INSTANTIATED: "good",
    IntentState.APPLIED: "good",
    IntentState.TERMINATED: "ended",
}


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """How many resources have each status, the most urgent first, without zeros."""

    rsync: tuple[tuple[StatusSign, int], ...] = ()
    exists: tuple[tuple[StatusSign, int], ...] = ()

    @property
    def unfinished(self) -> int:
        """How many resources are neither applied nor undeployed yet."""
        done = {RSYNC_SIGNS[RsyncStatus.APPLIED], RSYNC_SIGNS[RsyncStatus.TERMINATED]}
        return sum(count for sign, count in self.rsync if sign not in done)

    @property
    def is_failing(self) -> bool:
        """Whether a resource failed."""
        return any(sign is RSYNC_SIGNS[RsyncStatus.FAILED] for sign, _ in self.rsync)


def status_counts(rows: Iterable[ResourceRow]) -> StatusCounts:
    """Return how many of some resources have each status."""
    rsync: dict[RsyncStatus | None, int] = {}
    exists: dict[ClusterStatus, int] = {}
    for row in rows:
        rsync[row.rsync] = rsync.get(row.rsync, 0) + 1
        exists[row.exists] = exists.get(row.exists, 0) + 1
    return StatusCounts(
        tuple((sign, rsync[status]) for status, sign in RSYNC_SIGNS.items() if status in rsync),
        tuple((sign, exists[status]) for status, sign in CLUSTER_SIGNS.items() if status in exists),
    )
