"""The two statuses of a resource: what was done with it, and whether it exists. Each is a table."""

from __future__ import annotations

import functools
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class RsyncStatus(Enum):
    """The last action on a resource."""

    PENDING = "Pending"
    APPLIED = "Applied"
    FAILED = "Failed"
    RETRYING = "Retrying"
    TERMINATED = "Terminated"


class ClusterStatus(Enum):
    """Whether a resource exists on its host."""

    NOT_PRESENT = "NotPresent"
    PRESENT = "Present"
    UNKNOWN = "Unknown"


class ResourceFacts(NamedTuple):
    """The known facts about a resource.

    ``is_recorded`` is whether its host recorded it as wanted at or after the last change of the instance.
    ``has_marker`` is ``None`` if the host never published an inventory. ``was_host_seen`` is whether the fleet
    has, or had, a host for the target at all.
    """

    is_wanted: bool
    has_failed: bool
    is_recorded: bool
    has_marker: bool | None
    is_host_present: bool
    was_host_seen: bool = True


#: The first rule that holds decides; the text is the manual's.
RSYNC_RULES: tuple[tuple[RsyncStatus, str, Callable[[ResourceFacts], bool]], ...] = (
    (
        RsyncStatus.FAILED,
        "its host failed at it, or at its packages, in the group's current publication",
        lambda facts: facts.has_failed,
    ),
    (
        RsyncStatus.APPLIED,
        "it is wanted, and its host recorded it as wanted at or after the group's last change",
        lambda facts: facts.is_wanted and facts.is_recorded,
    ),
    (
        RsyncStatus.TERMINATED,
        "it is not wanted any more, and its host's inventory does not have it, or its host was never seen",
        lambda facts: not facts.is_wanted and (facts.has_marker is False or not facts.was_host_seen),
    ),
    (
        RsyncStatus.RETRYING,
        "its host is absent; the deployment continues when the host is back",
        lambda facts: not facts.is_host_present,
    ),
    (RsyncStatus.PENDING, "otherwise", lambda _: True),
)

#: The status by what the inventory of the host has.
CLUSTER_RULES: dict[bool | None, tuple[ClusterStatus, str]] = {
    None: (ClusterStatus.UNKNOWN, "its host never published an inventory"),
    False: (ClusterStatus.NOT_PRESENT, "the inventory of its host has no marker of it"),
    True: (ClusterStatus.PRESENT, "the inventory of its host has its marker"),
}


@functools.cache
def rsync_status(facts: ResourceFacts) -> RsyncStatus:
    """Return what was done with a resource."""
    return next(status for status, _, holds in RSYNC_RULES if holds(facts))


def cluster_status(facts: ResourceFacts) -> ClusterStatus:
    """Return whether a resource exists."""
    return CLUSTER_RULES[facts.has_marker][0]
