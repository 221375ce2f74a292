"""The cluster version: the revision that ``/hosts`` orders every host to run, or the reason why none may start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

if TYPE_CHECKING:
    from zkdeployment.model.tree import Properties, Value

#: The version of the whole tree: a git commit id (text) or a subversion revision (number).
Revision: TypeAlias = str | int

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

#: The revision of a cluster before the first publication. Deploying it changes nothing on any host.
INITIAL = "initial"

#: The placeholder for the coming revision while a large manual import is under way, which publishes no revision.
BY_HAND = "a change by hand"


class ClusterState(Enum):
    """The state of the fleet that the cluster version stands for."""

    RUNNING = "running"
    STOPPED = "stopped"  # version null: agents start nothing, nothing is published without force
    HELD = "held"  # version false: agents start nothing, the syncer publishes
    IMPORTING = "importing"  # a large publication is under way: agents start nothing


#: A ZooKeeper server answers about ten thousand requests a second, and a host starts a deployment with about ten.
_HOSTS_PER_SECOND = 1000

#: The number of hosts that may start at the same moment.
_HOSTS_AT_ONCE = 50


@dataclass(frozen=True)
class Cluster:
    """``/hosts``: the cluster version and, during a large publication, the coming revision.

    When ``/hosts`` was read, ``hosts`` was the number of registered hosts, and ``stamp`` the data version of the
    node, which changes with each write.
    """

    version: Revision | Literal[False] | None
    importing: Revision | None = None
    hosts: int = field(default=0, compare=False)
    stamp: int = field(default=0, compare=False)

    @property
    def state(self) -> ClusterState:
        """The state of the fleet."""
        if self.version is None:
            return ClusterState.STOPPED
        if self.version is False:
            return ClusterState.HELD
        return ClusterState.RUNNING if self.importing is None else ClusterState.IMPORTING

    @property
    def revision(self) -> Revision | None:
        """The revision that hosts may deploy now; ``None`` when they may deploy nothing."""
        if self.state is not ClusterState.RUNNING or self.version is None or self.version is False:
            return None
        return self.version

    @property
    def start_spread(self) -> float:
        """Seconds over which hosts spread their start after a change wakes them all; 0 for a small fleet."""
        return max(0, self.hosts - _HOSTS_AT_ONCE) / _HOSTS_PER_SECOND

    def properties(self, former: Properties) -> dict[str, Value]:
        """Return the properties of ``/hosts`` for this cluster; ``former`` are the properties that it replaces."""
        kept = {name: value for name, value in former.items() if name != "importing"}
        importing = {} if self.importing is None else {"importing": self.importing}
        return kept | {"version": self.version} | importing

    @classmethod
    def from_properties(cls, properties: Properties, *, hosts: int = 0, stamp: int = 0) -> Cluster:
        """Return the cluster that the properties of ``/hosts`` describe.

        A missing or malformed version reads as null: all stop.
        """
        version = properties.get("version")
        importing = properties.get("importing")
        return cls(
            version=version if is_revision(version) or version is False else None,
            importing=importing if is_revision(importing) else None,
            hosts=hosts,
            stamp=stamp,
        )


def is_revision(value: object) -> TypeGuard[Revision]:
    """Whether a property's value is a revision: text, or a number that is not a boolean."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def is_commit(text: str) -> bool:
    """Whether a text is a full git commit id."""
    return _COMMIT.fullmatch(text) is not None


def short(revision: Revision | None) -> str:
    """Return a revision for display: a git commit id is shortened to twelve digits."""
    text = str(revision)
    return text[:12] if is_commit(text) else text
