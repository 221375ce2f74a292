"""The cluster version: the revision that ``/hosts`` orders every host to run, and its state machine.

Every writer of ``/hosts`` derives the new cluster version from ``advance``: operators, agents that failed, the
coordinator, and publications. The check of rights to cause an event belongs to the callers.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.act import Maintenance
    from zkdeployment.base.json_values import Properties, Value


#: The version of the whole tree: a git commit id (text) or a subversion revision (number).
Revision: TypeAlias = str | int

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

#: The revision of a cluster before the first publication. Deploying it changes nothing on any host.
INITIAL = "initial"

#: The placeholder for the coming revision while a large manual import is under way, which publishes no revision.
BY_HAND = "a change by hand"


class ClusterState(Enum):
    """The state of the fleet, as the cluster version determines it."""

    RUNNING = "running"
    STOPPED = "stopped"  # version null: agents start nothing, nothing is published without force
    HELD = "held"  # version false: agents start nothing, the syncer publishes
    IMPORTING = "importing"  # a large publication is under way: agents start nothing


#: A ZooKeeper server answers about ten thousand requests a second, and a host starts a deployment with about ten.
_HOSTS_PER_SECOND = 1000

#: The number of hosts that may start at the same moment.
_HOSTS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Retry:
    """An operator's order that one host of a stopped fleet, named by its id, deploys the revision again.

    A retry that has ``succeeded`` permits nothing more.
    """

    host: str
    revision: Revision
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class Mandate:
    """The revision that one host may deploy now; ``is_retry``: only because an operator retries the host.

    With ``is_drain``, the host in maintenance deploys nothing, and only undeploys services that other hosts have.

    A deployment belongs to the mandate with which it began: a host that was retried needs a grant of the rollout
    as soon as the fleet is resumed, although the revision stays the same.
    """

    revision: Revision
    is_retry: bool = False
    is_drain: bool = False

    def __str__(self) -> str:
        if self.is_drain:
            return f"a drain at {self.revision}"
        return f"a retry of {self.revision}" if self.is_retry else str(self.revision)


@dataclass(frozen=True)
class Cluster:
    """``/hosts``: the cluster version and, during a large publication, the coming revision.

    While the fleet is stopped, a ``retry`` lets one host continue. A retry belongs to the stop in which it was
    given: its record names the data version of ``/hosts``. Each write that does not renew the record ends the
    retry, for example if a person sets the version by hand and keeps all other properties.

    ``maintenance`` has the maintenance of the host that read the cluster, by host id, if there is one;
    ``maintenance_stamp`` is the data version of the node that each begin of a maintenance writes, if it exists.

    When ``/hosts`` was read, ``hosts`` was the number of registered hosts, and ``stamp`` the data version of the
    node, which changes with each write.
    """

    version: Revision | Literal[False] | None
    importing: Revision | None = None
    retry: Retry | None = None
    hosts: int = field(default=0, compare=False)
    stamp: int = field(default=0, compare=False)
    maintenance: Mapping[str, Maintenance] = field(default_factory=dict, compare=False)
    maintenance_stamp: int | None = field(default=None, compare=False)

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
        """The seconds over which hosts spread their starts after a change wakes them all; 0 for a small fleet."""
        return max(0, self.hosts - _HOSTS_AT_ONCE) / _HOSTS_PER_SECOND

    def properties(self, former: Properties, *, stamp: int) -> dict[str, Value]:
        """Return the properties of ``/hosts`` for this cluster.

        ``former`` are the properties that they replace, ``stamp`` is the data version of the node after the write.
        """
        kept = {name: value for name, value in former.items() if name not in {"importing", "retry"}}
        importing = {} if self.importing is None else {"importing": self.importing}
        retry = {} if self.retry is None else {"retry": _retry_properties(self.retry, stamp)}
        return kept | {"version": self.version} | importing | retry

    def mandate(self, host_id: str) -> Mandate | None:
        """Return the mandate of a host; ``None`` if the host may start nothing.

        Only this function decides whether a host may act on a retry, and what its maintenance permits.
        """
        if host_id in self.maintenance:
            return None
        if self.revision is not None:
            return Mandate(self.revision)
        retry = self.retry
        if retry is None or retry.succeeded or retry.host != host_id:
            return None
        return Mandate(retry.revision, is_retry=True)

    def drain(self, host_id: str) -> Mandate | None:
        """Return the mandate to drain a host in maintenance; ``None`` without one, and unless the fleet runs."""
        record = self.maintenance.get(host_id)
        if record is None or not record.drain or self.revision is None:
            return None
        return Mandate(self.revision, is_drain=True)

    @classmethod
    def from_properties(cls, properties: Properties, *, stamp: int, hosts: int = 0) -> Cluster:
        """Return the cluster that the properties of ``/hosts`` describe at the data version ``stamp``.

        A missing or malformed version reads as null: all stop.
        """
        version = properties.get("version")
        importing = properties.get("importing")
        known = version if is_revision(version) or version is False else None
        coming = importing if is_revision(importing) else None
        return cls(
            version=known,
            importing=coming,
            retry=_retry(properties.get("retry"), stamp) if known is None and coming is None else None,
            hosts=hosts,
            stamp=stamp,
        )


def _retry_properties(retry: Retry, stamp: int) -> Value:
    properties: dict[str, Value] = {"host": retry.host, "revision": retry.revision, "stamp": stamp}
    return properties | {"succeeded": True} if retry.succeeded else properties


def _retry(value: object, stamp: int) -> Retry | None:
    """Return the retry of a record; ``None`` if it is malformed, or ended with a write since."""
    if not isinstance(value, dict) or value.get("stamp") != stamp:
        return None
    host, revision = value.get("host"), value.get("revision")
    if not isinstance(host, str) or not is_revision(revision):
        return None
    return Retry(host, revision, succeeded=value.get("succeeded") is True)


def is_revision(value: object) -> TypeGuard[Revision]:
    """Whether a property's value is a revision: text, or a number that is not a boolean."""
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def is_commit(text: str) -> bool:
    """Whether a text is a full git commit id."""
    return _COMMIT.fullmatch(text) is not None


def is_named(revision: Revision | None, name: str) -> bool:
    """Whether ``name`` is the name of a revision: a commit id may be shortened to seven or more digits."""
    text = "" if revision is None else str(revision)
    is_prefix = re.fullmatch(r"[0-9a-f]{7,}", name) is not None and is_commit(text)
    return text == name or (is_prefix and text.startswith(name))


def short(revision: Revision | None) -> str:
    """Return a revision for display: a git commit id is shortened to twelve digits."""
    text = str(revision)
    return text[:12] if is_commit(text) else text


class ClusterEvent(Enum):
    """The causes of changes of the cluster version; each value is the manual's term for the cause."""

    STOP = "stop, rollout abort; a host or a critical group failed"
    HOLD = "hold"
    RESUME = "resume"
    BEGIN = "a publication, or an import by hand, that needs several transactions begins"
    COMPLETE = "a publication is complete"
    REVERT = "an import by hand is complete"


#: The state after an event in a state. Events that are missing here are refused.
CLUSTER_TRANSITIONS: Mapping[tuple[ClusterState, ClusterEvent], ClusterState] = {
    **{(state, ClusterEvent.STOP): ClusterState.STOPPED for state in ClusterState},
    (ClusterState.RUNNING, ClusterEvent.HOLD): ClusterState.HELD,
    (ClusterState.HELD, ClusterEvent.HOLD): ClusterState.HELD,
    (ClusterState.HELD, ClusterEvent.RESUME): ClusterState.RUNNING,
    (ClusterState.STOPPED, ClusterEvent.RESUME): ClusterState.RUNNING,
    (ClusterState.RUNNING, ClusterEvent.BEGIN): ClusterState.IMPORTING,
    (ClusterState.IMPORTING, ClusterEvent.BEGIN): ClusterState.IMPORTING,
    (ClusterState.HELD, ClusterEvent.BEGIN): ClusterState.HELD,
    (ClusterState.STOPPED, ClusterEvent.BEGIN): ClusterState.STOPPED,
    **{(state, ClusterEvent.COMPLETE): ClusterState.RUNNING for state in ClusterState},
    (ClusterState.IMPORTING, ClusterEvent.REVERT): ClusterState.RUNNING,
    (ClusterState.HELD, ClusterEvent.REVERT): ClusterState.HELD,
    (ClusterState.STOPPED, ClusterEvent.REVERT): ClusterState.STOPPED,
}

#: The versions that stand for a state instead of a revision.
_VERSIONS: Mapping[ClusterState, bool | None] = {ClusterState.STOPPED: None, ClusterState.HELD: False}


#: The refusal to resume the fleet, or to retry a host, without a revision to deploy.
UNPUBLISHED = (
    "no revision is wholly published (a publication was interrupted, the live tree was changed by hand, or nothing"
    " was published yet); publish one with 'zkdeployment resume --latest' or 'zkdeployment sync --force'"
)


def advance(cluster: Cluster, event: ClusterEvent, revision: Revision | None = None) -> Cluster:
    """Return the cluster after an event.

    ``revision`` is the revision to resume (``None`` if no revision is wholly published), the coming revision of
    ``BEGIN``, or the published revision of ``COMPLETE``. Raises ``RefusedError`` for an event that is not in
    ``CLUSTER_TRANSITIONS``, and for a resume or a hold during a publication. Every event ends a retry.
    """
    cluster = replace(cluster, retry=None)
    state = CLUSTER_TRANSITIONS.get((cluster.state, event))
    if state is None:
        raise RefusedError(_refusal(cluster, event))
    importing = cluster.importing
    match event:
        case ClusterEvent.HOLD if importing is not None:
            raise RefusedError(_refusal(cluster, event))
        case ClusterEvent.RESUME if revision is None or importing is not None:
            raise RefusedError(UNPUBLISHED)
        case ClusterEvent.BEGIN:
            importing = revision
        case ClusterEvent.COMPLETE | ClusterEvent.REVERT:
            importing = None
    if state in _VERSIONS:
        return replace(cluster, version=_VERSIONS[state], importing=importing)
    is_new = event in {ClusterEvent.RESUME, ClusterEvent.COMPLETE}
    return replace(cluster, version=revision if is_new else cluster.version, importing=importing)


def retrying(cluster: Cluster, host_id: str, revision: Revision | None) -> Cluster:
    """Return a stopped cluster in which one host deploys the published revision again.

    Raises ``RefusedError`` for a cluster that is not stopped, and if no revision is wholly published (``None``).
    """
    if obstacle := retry_obstacle(cluster.state):
        raise RefusedError(obstacle)
    if revision is None or cluster.importing is not None:
        raise RefusedError(UNPUBLISHED)
    return replace(cluster, retry=Retry(host_id, revision))


def succeeding(cluster: Cluster, host_id: str, revision: Revision) -> Cluster | None:
    """Return the cluster after the retry of a host for a revision succeeded; ``None`` if it is not in force."""
    if cluster.retry is None or cluster.mandate(host_id) != Mandate(revision, is_retry=True):
        return None
    return replace(cluster, retry=replace(cluster.retry, succeeded=True))


#: What an operator can do for a failed host, by the state of a fleet that is not stopped.
_WITHOUT_RETRY: Mapping[ClusterState, str] = {
    ClusterState.HELD: "'zkdeployment resume' ends the hold, and failed hosts try again",
    ClusterState.IMPORTING: "hosts try again by themselves when the publication is complete",
    ClusterState.RUNNING: (
        "hosts try again by themselves; for a host that a rollout excludes, 'zkdeployment resume --latest' begins"
        " another rollout when the running one is over"
    ),
}


def held_reason(cluster: Cluster | None, host_id: str) -> str:
    """Return why a host without a mandate starts nothing."""
    if cluster is not None and host_id in cluster.maintenance:
        return f"the host is {cluster.maintenance[host_id]}"
    return f"the cluster is {(ClusterState.STOPPED if cluster is None else cluster.state).value}"


def retry_obstacle(state: ClusterState) -> str:
    """Return why no operator can let a single host try again in this state; empty if the cluster is stopped."""
    advice = _WITHOUT_RETRY.get(state)
    return (
        ""
        if advice is None
        else f"the fleet is {state.value}, and single hosts are retried only while it is stopped: {advice}"
    )


def _refusal(cluster: Cluster, event: ClusterEvent) -> str:
    if event is not ClusterEvent.HOLD:
        return f"the cluster is neither stopped nor held: it is {cluster.state.value} at {cluster.version}"
    if cluster.state is ClusterState.STOPPED:
        return "the cluster is stopped, and a hold would lift that; see 'zkdeployment status'"
    return (
        f"{cluster.importing} is being published, which would end the hold at once; try again when it is, or use"
        " 'zkdeployment stop'"
    )
