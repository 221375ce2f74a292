"""The cluster version: what ``/hosts`` says that every host is to run, or why none may start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties

#: The version of the whole tree: a git commit id (text) or a subversion revision (number).
Revision: TypeAlias = str | int

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

#: The revision of a cluster to which nothing was published yet. Deploying it changes nothing on any host.
INITIAL = "initial"

#: What stands in for the coming revision while a large import by hand is under way: none comes of it.
BY_HAND = "a change by hand"


class ClusterState(Enum):
    """What the cluster version allows."""

    RUNNING = "running"
    STOPPED = "stopped"  # null: all stop, nothing starts and nothing is published
    HELD = "held"  # false: agents hold, the syncer syncs
    IMPORTING = "importing"  # a large publication is under way


#: A ZooKeeper server answers some ten thousand requests a second, and a host begins with about ten.
_HOSTS_PER_SECOND = 1000

#: So many may begin at the same moment.
_HOSTS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Cluster:
    """``/hosts``: the cluster version and, during a large publication, the coming revision.

    ``hosts`` is how many were registered when that was read.
    """

    version: Revision | Literal[False] | None
    importing: Revision | None = None
    hosts: int = field(default=0, compare=False)

    @property
    def state(self) -> ClusterState:
        """What may start now."""
        if self.version is None:
            return ClusterState.STOPPED
        if self.version is False:
            return ClusterState.HELD
        return ClusterState.RUNNING if self.importing is None else ClusterState.IMPORTING

    @property
    def revision(self) -> Revision | None:
        """The revision that hosts are to run now; ``None`` when none may start."""
        if self.state is not ClusterState.RUNNING or self.version is None or self.version is False:
            return None
        return self.version

    @property
    def start_spread(self) -> float:
        """Seconds over which hosts begin that a change wakes all at once: none for a small fleet."""
        return max(0, self.hosts - _HOSTS_AT_ONCE) / _HOSTS_PER_SECOND

    @classmethod
    def from_properties(cls, properties: Properties, *, hosts: int = 0) -> Cluster:
        """Read the properties of ``/hosts``; a missing or malformed version counts as null: all stop."""
        version = properties.get("version")
        importing = properties.get("importing")
        return cls(
            version=version if is_revision(version) or version is False else None,
            importing=importing if is_revision(importing) else None,
            hosts=hosts,
        )


def is_revision(value: object) -> TypeGuard[Revision]:
    """Whether a property's value is a revision; ``True`` and ``False`` are not numbers here."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def is_commit(text: str) -> bool:
    """Whether a text is a whole git commit id."""
    return _COMMIT.fullmatch(text) is not None


def short(revision: Revision | None) -> str:
    """Return a revision for reading: a git commit id is cut to twelve digits."""
    text = str(revision)
    return text[:12] if is_commit(text) else text
