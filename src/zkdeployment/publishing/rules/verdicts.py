"""Decides whether the tip of the branch is published now; guards against unintended publications.

The questions come in the order of their costs: ``is_stopped`` before the repository is contacted,
``is_up_to_date`` before the hosts are read, then ``judge``.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Literal

from zkdeployment.base.cluster import INITIAL, Cluster, ClusterState, is_commit
from zkdeployment.publishing.records import RequestState
from zkdeployment.publishing.rules.convergence import is_converged
from zkdeployment.publishing.targets.assignments import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Origin, Targets
    from zkdeployment.publishing.records import PublicationRequest
    from zkdeployment.publishing.rules.convergence import PublicationSnapshot, PublishedState


class PublicationVerdict(Enum):
    """Whether a branch's tip is to be published."""

    PUBLISH = "publish"
    UP_TO_DATE = "up to date"
    NOT_CONVERGED = "not converged"


def is_stopped(cluster: Cluster | None, *, force: bool = False) -> bool:
    """Whether nothing may be published, so that the repository need not be contacted."""
    return cluster is not None and cluster.state is ClusterState.STOPPED and not force


def is_up_to_date(published_state: PublishedState, tip: Revision) -> bool:
    """Whether the tip is the published revision and the cluster version."""
    return published_state.cluster == Cluster(tip) and published_state.published.revision == tip


def judge(snapshot: PublicationSnapshot, tip: Revision, *, force: bool = False) -> PublicationVerdict:
    """Return the verdict on a ``tip`` that is not up to date, or that is to be forced or pruned.

    An interrupted publication is finished whatever versions the hosts have: they wait for it. A held cluster gets
    the tip, which ends the hold; a hold that an operator recorded lasts until there is a new tip. A version that
    was set by hand is published once the tip has it; an import by hand ends no rollout.
    """
    cluster, published = snapshot.cluster, snapshot.published.revision
    if force or cluster is None:
        return PublicationVerdict.PUBLISH
    if cluster == Cluster(False) and snapshot.held_by_operator and published == tip:
        return PublicationVerdict.UP_TO_DATE
    if cluster.state in (ClusterState.HELD, ClusterState.IMPORTING):
        return PublicationVerdict.PUBLISH
    if cluster.version == tip != published and not snapshot.published.governs(cluster):
        return PublicationVerdict.PUBLISH
    return PublicationVerdict.PUBLISH if is_converged(snapshot) else PublicationVerdict.NOT_CONVERGED


#: The fraction of the deployments that one publication may end; a single deployment may always end.
MOST_REMOVED = 0.3

_SHOWN = 5


def predecessor(published_state: PublishedState) -> Revision | None:
    """Return the revision that the next one must descend from; ``None`` if no published revision is known.

    In order of precedence: the revision of an interrupted publication, the published revision, the cluster
    version, the revision that hosts were last ordered to deploy. Only the last one is known if the fleet was
    stopped and its tree changed by hand.
    """
    cluster, published = published_state.cluster, published_state.published
    importing, version = (None, None) if cluster is None else (cluster.importing, cluster.version or None)
    known = [importing, published.revision, version, published.ordered]
    return next((revision for revision in known if isinstance(revision, int) or is_commit(str(revision))), None)


def rewind_refusal(tip: Revision, before: Revision, *, descends: bool) -> str | None:
    """Return why a tip that does not descend from ``before`` is refused, else ``None``."""
    if descends:
        return None
    return (
        f"{tip} is not published: it does not descend from {before}, which is published; history was rewritten, or"
        " another branch or repository is read. If that is meant, use --allow-rewind"
    )


def request_refusal(request: PublicationRequest, published_state: PublishedState, now: float) -> str | None:
    """Return why an operator's request is no longer served, else ``None``; ``now`` is ZooKeeper's time."""
    again = "check 'zkdeployment status', then ask again"
    if request.is_expired(now):
        return (
            f"the request of {request.by} expired: expected to be served within {request.age_limit:g} s, but it is"
            f" {now - request.written:.0f} s old; {again}"
        )
    version = INITIAL if published_state.cluster is None else published_state.cluster.version
    if request.state is None:
        return (
            f"the request of {request.by} lacks 'state': expected the cluster version and the number of stops that"
            f" it refers to; {again}"
        )
    if request.state == RequestState(version, published_state.stops or 0):
        return None
    if request.state.version == version:
        return f"the fleet was stopped again after {request.by} had asked for a publication; {again}"
    return (
        f"the cluster version changed after {request.by} had asked for a publication: expected"
        f" {_shown(request.state.version)}, found {_shown(version)}; {again}"
    )


def _shown(version: Revision | Literal[False] | None) -> str:
    return "null (stopped)" if version is None else "false (held)" if version is False else str(version)


def date_refusal(tip: Revision, origin: Origin, before: Origin) -> str | None:
    """Return why a signed commit that is dated before its predecessor is refused, else ``None``.

    The validity of a key is verified at the date that the commit itself states.
    """
    if origin.signer is None or origin.time >= before.time:
        return None
    return (
        f"{tip} is not published: it was signed by {origin.signer}, but its date is"
        f" {before.time - origin.time:.0f} s before that of the published commit; commit again"
    )


def removal_refusal(
    tip: Revision,
    before: Targets,
    after: Targets,
    hosts: Collection[Identity],
    pruned: Collection[str] = (),
    *,
    changed: Collection[str] | None = None,
) -> str | None:
    """Return why targets are refused that end too many deployments of the targets ``before``, else ``None``.

    Each instance on each host of a target is a deployment; ``hosts`` are all known hosts. Services below
    ``pruned`` top-level nodes do not count: an operator asked for their removal. ``changed`` are the names of the
    targets that differ, if they are known; equal targets end no deployment.
    """
    changed = before.keys() | after.keys() if changed is None else changed
    removed = _deployments(before, hosts, changed) - _deployments(after, hosts, changed)
    ended: Counter[str] = Counter()
    for (path, _), number in removed.items():
        if f"/{path.split('/')[1]}" not in pruned:
            ended[path] += number
    if ended.total() <= 1:
        return None
    deployed = _deployments(before, hosts, before.keys())
    if ended.total() <= MOST_REMOVED * deployed.total():
        return None
    listed = ", ".join(f"{path}: {number}" for path, number in sorted(ended.items())[:_SHOWN])
    return (
        f"{tip} is not published: it would end {ended.total()} of {deployed.total()} deployments"
        f" ({listed}{', …' if len(ended) > _SHOWN else ''}), more than {MOST_REMOVED:.0%}; if that is meant, use"
        " --allow-mass-removal"
    )


def _deployments(
    targets: Targets, hosts: Collection[Identity], names: Collection[str]
) -> Counter[tuple[str, str]]:
    """Return the number of instances by service path and host; an unknown target counts as one host.

    Only the targets with these ``names`` count.
    """
    targets = {name: targets[name] for name in names if name in targets}
    instances: Counter[tuple[str, str]] = Counter()
    for host in hosts:
        for assignment in unchecked_assignments(host, targets):
            instances[assignment.path, host.id] += assignment.n
    known = {name for host in hosts for name in host.target_names}
    for name, assignments in targets.items():
        if name not in known and not name.startswith("/"):
            for assignment in assignments:
                instances[assignment.path, name] += assignment.n
    return instances
