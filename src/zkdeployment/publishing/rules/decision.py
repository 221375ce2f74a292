"""Decides whether the tip of the branch is published now, and why not; guards against unintended publications.

The syncer asks in the order of the costs: ``request_refusal`` before it contacts the repository, ``decide`` when
it knows the tip, ``draft_refusal`` when the publication is built.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from zkdeployment.base.cluster import INITIAL, Cluster, ClusterState, Revision, is_commit
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.records import GuardOverrides, PublicationRequest, RequestState, SyncOptions
from zkdeployment.publishing.rules.changes import is_set_by_hand
from zkdeployment.publishing.rules.convergence import (
    PublicationSnapshot,
    PublishedState,
    has_unfinished_hosts,
    is_converged,
    is_under_way,
    refusal,
)
from zkdeployment.publishing.targets.services import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from zkdeployment.base.host import Identity
    from zkdeployment.base.publication import Origin, Targets
    from zkdeployment.publishing.rules.changes import Draft


@dataclass(frozen=True, slots=True)
class Ancestry:
    """The ``origin`` of a tip, and whether the tip ``descends`` from the revision that it has to descend from.

    ``previous`` is the origin of that revision; it is read only if the tip is signed and descends from it.
    """

    origin: Origin
    descends: bool = True
    previous: Origin | None = None


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The published ``state`` and the ``tip`` of the branch in one run of the syncer.

    ``stands`` is whether a published tip needs no further publication, ``is_last`` whether the publication that
    ZooKeeper names is certainly the last one. Other facts are read only if the decision depends on them:
    ``read_snapshot`` reads the hosts and the rollout, ``read_ancestry`` the origin of the tip and its relation to
    a predecessor.
    """

    state: PublishedState
    tip: Revision
    read_snapshot: Callable[[], PublicationSnapshot]
    read_ancestry: Callable[[Revision | None], Ancestry]
    stands: bool = True
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class Publish:
    """The decision to publish the tip over the fleet's ``snapshot``, with the ``options`` of the run.

    With ``whole``, the last published text is not enough, so the whole live tree is read. With ``optional``, the
    tip is published already, so an empty change needs no publication. With ``may_repeat``, the last publication is
    certainly the one that ZooKeeper names, and no host has to try it again; then hosts with that publication have
    nothing to do if the tip does not differ. ``rollout`` is the id of the rollout of the tip that is under way, if
    there is one; a publication that repeats the last one continues it.
    """

    tip: Revision
    origin: Origin
    snapshot: PublicationSnapshot
    options: SyncOptions
    whole: bool
    optional: bool
    may_repeat: bool
    rollout: str | None = None


@dataclass(frozen=True, slots=True)
class UpToDate:
    """The tip is published, and no option requires more."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The tip is published when the fleet has converged; ``reason`` names the hosts or the rollout."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The tip is not published unless an operator allows it; ``reason`` names the option."""

    reason: str


def decide(facts: PublicationFacts, options: SyncOptions) -> Publish | UpToDate | Wait | Refuse:
    """Return whether the observed tip is published now.

    The hosts are read only if the tip is not published yet, or is to be forced or pruned; the ancestry of the tip
    only if the tip need not wait.
    """
    tip = facts.tip
    is_published = facts.stands and _is_published(facts.state, tip)
    if is_published and not (options.force or options.prune):
        return UpToDate()
    snapshot = facts.read_snapshot()
    if not options.force:
        if _is_held_at(snapshot, tip):
            return UpToDate()
        if _must_wait(snapshot, tip):
            return Wait(refusal(snapshot, tip))
    before = predecessor(snapshot)
    ancestry = facts.read_ancestry(None if options.overrides.rewind or before == tip else before)
    reason = _ancestry_refusal(tip, before, ancestry)
    if reason is not None:
        return Refuse(reason)
    rollout = snapshot.rollout.id if snapshot.rollout is not None and is_under_way(snapshot, tip) else None
    # Only another rollout lets the hosts try again that failed within the criteria of their group.
    tries_again = options.force and has_unfinished_hosts(snapshot) and rollout is None
    return Publish(
        tip,
        ancestry.origin,
        snapshot,
        options,
        whole=options.reads_whole_tree or not facts.stands,
        optional=is_published and not options.force,
        may_repeat=facts.is_last and not tries_again,
        rollout=rollout,
    )


def _is_published(state: PublishedState, tip: Revision) -> bool:
    """Whether the tip is the published revision and the cluster version."""
    return state.cluster == Cluster(tip) and state.published.revision == tip


def _is_held_at(snapshot: PublicationSnapshot, tip: Revision) -> bool:
    """Whether an operator recorded a hold at this tip; that hold lasts until there is a new tip."""
    return snapshot.cluster == Cluster(False) and snapshot.held_by_operator and snapshot.published.revision == tip


def _must_wait(snapshot: PublicationSnapshot, tip: Revision) -> bool:
    """Whether the tip waits until the fleet has converged.

    An interrupted publication is completed with any versions of the hosts: they wait for it. A held cluster gets
    the tip, which ends the hold. A version that was set by hand is published once the tip has it; an import by
    hand ends no rollout.
    """
    cluster, published = snapshot.cluster, snapshot.published
    if cluster is None or cluster.state in (ClusterState.HELD, ClusterState.IMPORTING):
        return False
    if cluster.version == tip != published.revision and not published.governs(cluster):
        return False
    return not is_converged(snapshot)


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


def _ancestry_refusal(tip: Revision, before: Revision | None, ancestry: Ancestry) -> str | None:
    """Return why a tip is refused that does not descend from ``before`` or is signed with an earlier date.

    The validity of a key is verified at the date that the commit itself states.
    """
    origin, previous = ancestry.origin, ancestry.previous
    if not ancestry.descends:
        return (
            f"{tip} is not published: it does not descend from {before}, which is published; history was"
            " rewritten, or another branch or repository is read. If that is meant, use"
            f" {GuardOverrides(rewind=True).command}"
        )
    if origin.signer is None or previous is None or origin.time >= previous.time:
        return None
    return (
        f"{tip} is not published: it was signed by {origin.signer}, but its date is"
        f" {previous.time - origin.time:.0f} s before that of the published commit; commit again"
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


#: The fraction of the deployments that one publication may end; a single deployment may always end.
MOST_REMOVED = 0.3

#: In a fleet with fewer deployments, only the end of a whole service is refused.
_SMALL = 10

_SHOWN = 5


def draft_refusal(draft: Draft, snapshot: PublicationSnapshot) -> str | None:
    """Return why a publication is refused that ends too many deployments, else ``None``.

    A publication that completes an interrupted one was checked before. Deployments that end because of the state
    of their intents do not count.
    """
    is_checked = snapshot.cluster is not None and snapshot.cluster.importing == draft.revision
    if is_checked:
        return None
    baseline, after = draft.baseline, draft.compilation
    by_hand = is_set_by_hand(snapshot.published, snapshot.cluster)
    before = baseline.targets if by_hand else baseline.ordered
    changed = after.changed_since(before, whole=True)
    pruned = draft.change.delete
    return removal_refusal(draft.revision, before, after.whole, snapshot.known, pruned, changed=changed)


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

    Each instance on each host of a target is a deployment; ``hosts`` are all known hosts. A service that moves to
    other hosts ends no deployments. Services below ``pruned`` top-level nodes do not count: an operator asked for
    their removal. ``changed`` are the names of the targets that differ, if they are known; equal targets end no
    deployment.
    """
    changed = before.keys() | after.keys() if changed is None else changed
    if before.keys().isdisjoint(changed):
        return None  # as in the first publication: nothing that was deployed changes
    ended = _ended(_instances(before, hosts, changed), _instances(after, hosts, changed))
    ended = Counter({path: number for path, number in ended.items() if f"/{path.split('/')[1]}" not in pruned})
    if ended.total() <= 1:
        return None
    deployed = _instances(before, hosts, before.keys()).all
    is_whole = any(number == deployed[path] for path, number in ended.items())
    if ended.total() <= MOST_REMOVED * deployed.total() or (deployed.total() < _SMALL and not is_whole):
        return None
    listed = ", ".join(f"{path}: {number}" for path, number in sorted(ended.items())[:_SHOWN])
    return (
        f"{tip} is not published: it would end {ended.total()} of {deployed.total()} deployments"
        f" ({listed}{', …' if len(ended) > _SHOWN else ''}), more than {MOST_REMOVED:.0%}; if that is a"
        " mistake, push a repair, or undo the push with 'zkdeployment rollback'; if it is meant, use"
        f" {GuardOverrides(mass_removal=True).command}"
    )


@dataclass(frozen=True, slots=True)
class _Instances:
    """The numbers of instances by service: on known hosts, and at targets that match no known host."""

    known: Counter[str]
    unknown: Counter[str]

    @property
    def all(self) -> Counter[str]:
        return self.known + self.unknown


def _ended(before: _Instances, after: _Instances) -> Counter[str]:
    """Return the number of instances that each service loses over the fleet.

    Nothing runs yet at a target that matches no known host, so such a target does not replace known hosts.
    """
    return (before.known - after.known) | (before.all - after.all)


def _instances(targets: Targets, hosts: Collection[Identity], names: Collection[str]) -> _Instances:
    """Return the numbers of instances; an unknown target counts as one host.

    Only the targets with these ``names`` count.
    """
    targets = {name: targets[name] for name in names if name in targets}
    found = _Instances(Counter(), Counter())
    for host in hosts:
        for assignment in unchecked_assignments(host, targets):
            found.known[assignment.path] += assignment.n
    known = {name for host in hosts for name in host.target_names}
    for name, assignments in targets.items():
        if name not in known and not name.startswith("/"):
            for assignment in assignments:
                found.unknown[assignment.path] += assignment.n
    return found
