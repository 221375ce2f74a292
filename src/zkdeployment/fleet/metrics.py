"""What the daemons tell Prometheus: from values to metrics, named and explained for whoever writes alerts.

What is not known has no sample: nothing is said then, instead of something wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.rollout_states import (
    GroupState,
    RolloutProgressState,
    group_state,
    last_movement,
    rollout_state,
)
from zkdeployment.model.cluster import ClusterState
from zkdeployment.rollout.state_machine import HostProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.connection_status import ConnectionStatus
    from zkdeployment.model.host import Host
    from zkdeployment.rollout.state import RolloutState


class MetricKind(Enum):
    """What a metric's values do: go up and down, or only up while the process lives."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its whole name, what it means, and its values by the values of its ``labels``."""

    name: str
    help: str
    samples: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    kind: MetricKind = MetricKind.GAUGE


@dataclass(frozen=True, slots=True)
class Process:
    """A daemon: the version of its program, when it started, whether it runs, and its connection.

    Times are in seconds since the epoch here and below; ``now`` is when all of this was true.
    """

    version: str
    started: float
    now: float
    up: bool
    link: ConnectionStatus


class DeploymentResult(Enum):
    """How a deployment ended."""

    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"  # something else is wanted by now, or nothing


@dataclass(frozen=True, slots=True)
class Ended:
    """The last deployment: how it ended, when, and how many seconds it took."""

    result: DeploymentResult
    time: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What an agent knows of itself.

    ``looked`` is when it read the cluster version, which was ``cluster`` then. ``since`` is when the host came to
    be at the cluster version, or not to be, as far as this process saw; ``begun`` when the deployment under way
    began. ``ended`` counts the deployments of this process.
    """

    process: Process
    host: Host
    cluster: Cluster | None = None
    looked: float | None = None
    since: float | None = None
    begun: float | None = None
    last: Ended | None = None
    ended: Mapping[DeploymentResult, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """The last publication: when, how many seconds it took, reading the repository included, nodes it changed."""

    time: float
    seconds: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncerFacts:
    """What a syncer that follows a branch knows of itself.

    ``interval`` are the seconds between two looks, ``looks`` counts them by what became of them. ``fetched`` is
    when the repository could be read, ``waiting`` since when it has had something that is not ``published``.
    """

    process: Process
    interval: float
    looks: Mapping[str, int]
    fetched: float | None = None
    published: Revision | None = None
    waiting: float | None = None
    last: Publishing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFacts:
    """What a coordinator knows of itself.

    ``leads``: of several it is the one that leads. ``looks`` counts what its looks came to. ``running`` is the
    newest rollout, if it leads that.
    """

    process: Process
    leads: bool
    looks: Mapping[str, int]
    running: RolloutState | None = None


def is_current(host: Host, cluster: Cluster | None) -> bool | None:
    """Whether a host is at the cluster version; ``None`` where there is none to be at."""
    wanted = None if cluster is None else cluster.revision
    return None if wanted is None else host.has(wanted)


def agent_metrics(facts: AgentFacts) -> tuple[Metric, ...]:
    """Return an agent's metrics, ``zkdeployment_agent_…``."""
    one, who = facts.host, facts.host.identity
    state = ClusterState.STOPPED if facts.cluster is None else facts.cluster.state
    states = {} if facts.looked is None else {each.value: float(each is state) for each in ClusterState}
    revision = None if facts.cluster is None else facts.cluster.revision
    return (
        *_process_metrics("agent", facts.process),
        Metric(
            "zkdeployment_agent_host_info",
            "Who this host is, as labels.",
            {(who.id, who.name, who.role or ""): 1},
            ("host_id", "host_name", "role"),
        ),
        _info("agent_revision_info", "The revision that this host has, as the label.", one.version),
        _info("agent_cluster_revision_info", "The revision that hosts are to have, as the label.", revision),
        _by(
            "agent_cluster_state",
            "1 for what the cluster version allows: running, stopped, held or importing.",
            ("state", states),
        ),
        _one("agent_cluster_seen_timestamp_seconds", "When the cluster version was read.", facts.looked),
        _one(
            "agent_converged",
            "1 if this host is at the cluster version; nothing while all is stopped or held.",
            is_current(one, facts.cluster),
        ),
        _one("agent_converged_since_timestamp_seconds", "When zkdeployment_agent_converged changed.", facts.since),
        _one(
            "agent_error", "1 if this host's last deployment failed, or its agent refuses.", one.error is not None
        ),
        *_deployment_metrics(facts),
    )


def _deployment_metrics(facts: AgentFacts) -> tuple[Metric, ...]:
    """Return those of the deployment under way, and of those before."""
    done, total = facts.host.steps or (None, None)
    waits = facts.host.is_waiting
    time, seconds, success = None, None, None
    if facts.last is not None:
        time, seconds, success = facts.last.time, facts.last.seconds, facts.last.result is DeploymentResult.DONE
    return (
        _one("agent_deploying", "1 while this host deploys.", facts.host.deploying is not None and not waits),
        _one("agent_waiting", "1 while this host waits for its turn in a rollout.", waits),
        _one(
            "agent_deploying_since_timestamp_seconds",
            "When the deployment under way began, or was last let in by its rollout.",
            None if waits else facts.begun,
        ),
        _one("agent_steps_done", "Steps of the deployment under way that are done.", done),
        _one("agent_steps", "Steps of the deployment under way.", total),
        _by(
            "agent_deployments_total",
            "Deployments that ended, since this process began, by how: done, failed or abandoned.",
            ("result", {result.value: facts.ended.get(result, 0) for result in DeploymentResult}),
            MetricKind.COUNTER,
        ),
        _one("agent_last_deployment_timestamp_seconds", "When the last deployment ended.", time),
        _one("agent_last_deployment_duration_seconds", "How long it took.", seconds),
        _one("agent_last_deployment_success", "1 if it was done, 0 if it failed or was abandoned.", success),
    )


def syncer_metrics(facts: SyncerFacts) -> tuple[Metric, ...]:
    """Return a syncer's metrics, ``zkdeployment_syncer_…``."""
    time, seconds, nodes = None, None, None
    if facts.last is not None:
        time, seconds, nodes = facts.last.time, facts.last.seconds, facts.last.nodes
    return (
        *_process_metrics("syncer", facts.process),
        _one("syncer_interval_seconds", "How often it looks at the tree's repository.", facts.interval),
        _one(
            "syncer_fetched_timestamp_seconds", "When it could read the repository the last time.", facts.fetched
        ),
        _by(
            "syncer_looks_total",
            "Looks at the repository, since this process began, by what became of them.",
            ("result", facts.looks),
            MetricKind.COUNTER,
        ),
        _info("syncer_revision_info", "The revision that it saw published, as the label.", facts.published),
        _one(
            "syncer_unpublished_since_timestamp_seconds",
            "When it first saw something on the branch that is not published yet; nothing if all is.",
            facts.waiting,
        ),
        _one("syncer_last_publication_timestamp_seconds", "When it last published.", time),
        _one(
            "syncer_last_publication_duration_seconds",
            "How long that took, from the look at the repository on.",
            seconds,
        ),
        _one("syncer_last_publication_nodes", "How many nodes of the tree that changed.", nodes),
    )


def coordinator_metrics(facts: CoordinatorFacts) -> tuple[Metric, ...]:
    """Return a coordinator's metrics, ``zkdeployment_coordinator_…``."""
    return (
        *_process_metrics("coordinator", facts.process),
        _one("coordinator_leads", "1 if it leads: of several one does.", facts.leads),
        _by(
            "coordinator_looks_total",
            "Looks at the fleet or at the queue for the lead, since this process began, by what became of them.",
            ("result", facts.looks),
            MetricKind.COUNTER,
        ),
        *_rollout_metrics(facts.running),
    )


def _rollout_metrics(running: RolloutState | None) -> Iterator[Metric]:
    """Give those of the newest rollout; other coordinators than the one that leads say nothing of it."""
    begun, moved, waits = None, None, None
    who: dict[tuple[str, ...], float] = {}
    state: dict[str, float] = {}
    groups: dict[str, float] = {}
    hosts: dict[str, float] = {}
    if running is not None:
        strategy, rollout = running.rollout.strategy, running.rollout
        members = frozenset[str]().union(*rollout.members.values())
        states = [state for host, state in rollout.hosts.items() if host in members]
        at = [group_state(running, group.name) for group in strategy.groups]
        who = {(str(running.revision), running.id, strategy.name): 1.0}
        begun, moved, waits = running.begun, last_movement(running), bool(running.waiting)
        state = {each.value: float(each is rollout_state(running)) for each in RolloutProgressState}
        groups = {each.value: at.count(each) for each in GroupState}
        hosts = {each.value: states.count(each) for each in HostProgress}
    labels = ("revision", "rollout", "strategy")
    yield Metric("zkdeployment_coordinator_rollout_info", "The newest rollout, as labels.", who, labels)
    yield _by("coordinator_rollout_state", "1 for how far it is.", ("state", state))
    yield _one("coordinator_rollout_begun_timestamp_seconds", "When it began.", begun)
    yield _one("coordinator_rollout_moved_timestamp_seconds", "When anything last happened in it.", moved)
    yield _one("coordinator_rollout_waiting", "1 while it waits: for a promotion, a window, a resume.", waits)
    yield _by("coordinator_rollout_groups", "Its groups, by how far they are.", ("state", groups))
    yield _by("coordinator_rollout_hosts", "The hosts of its groups, by how far they are.", ("state", hosts))


def _process_metrics(daemon: str, process: Process) -> tuple[Metric, ...]:
    link = process.link
    return (
        _one(f"{daemon}_up", "1 while it runs, 0 once it ended in order.", process.up),
        _info(f"{daemon}_build_info", "The version of the program, as the label.", process.version, "version"),
        _one(f"{daemon}_start_timestamp_seconds", "When it started.", process.started),
        _one(f"{daemon}_alive_timestamp_seconds", "When it gave its last sign of life.", process.now),
        _one(f"{daemon}_zookeeper_connected", "1 while a server of ZooKeeper answers.", link.connected),
        _count(f"{daemon}_zookeeper_connections_total", "Connections made to ZooKeeper.", link.connections),
        _count(
            f"{daemon}_zookeeper_sessions_total",
            "Sessions with ZooKeeper; each after the first replaces one that was lost.",
            link.sessions,
        ),
    )


def _one(name: str, words: str, value: float | None) -> Metric:
    return Metric(f"zkdeployment_{name}", words, {} if value is None else {(): float(value)})


def _by(
    name: str, words: str, values: tuple[str, Mapping[str, float]], kind: MetricKind = MetricKind.GAUGE
) -> Metric:
    label, numbers = values
    return Metric(f"zkdeployment_{name}", words, {(key,): value for key, value in numbers.items()}, (label,), kind)


def _count(name: str, words: str, value: int) -> Metric:
    return Metric(f"zkdeployment_{name}", words, {(): value}, kind=MetricKind.COUNTER)


def _info(name: str, words: str, value: object, label: str = "revision") -> Metric:
    return Metric(f"zkdeployment_{name}", words, {} if value is None else {(str(value),): 1}, (label,))
