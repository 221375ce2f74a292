"""What is not published unless an operator says so: history that goes back, and the end of much at once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from zkdeployment.model.cluster import INITIAL, is_commit
from zkdeployment.model.publication import RequestState
from zkdeployment.planning.targets import unchecked_assignments

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.host import Identity
    from zkdeployment.model.origin import Origin
    from zkdeployment.model.publication import PublicationRequest, Targets
    from zkdeployment.planning.published_state import PublishedState

#: The part of the deployments that may end at once; one of them always may, however few there are.
MOST_REMOVED = 0.3

_SHOWN = 5


def predecessor(published_state: PublishedState) -> Revision | None:
    """Return the revision that the next one has to descend from; ``None`` if none is known to be published.

    Where a publication was interrupted it is that one's, else the published one, else the cluster version, else
    the last one that was published: a fleet that was stopped, and its tree changed by hand, tells nothing else.
    """
    cluster, published = published_state.cluster, published_state.published
    importing, version = (None, None) if cluster is None else (cluster.importing, cluster.version or None)
    known = [importing, published.revision, version, published.ordered]
    return next((one for one in known if isinstance(one, int) or is_commit(str(one))), None)


def rewind_refusal(tip: Revision, before: Revision, *, descends: bool) -> str | None:
    """Say why a tip would take history back, or nothing."""
    if descends:
        return None
    return (
        f"{tip} is not published: it does not descend from {before}, which is published; history was rewritten, or"
        " another branch or repository is read. If that is meant, use --allow-rewind"
    )


def request_refusal(request: PublicationRequest, published_state: PublishedState, now: float) -> str | None:
    """Return why an operator's request is not carried out any more, or nothing; ``now`` is ZooKeeper's time."""
    again = "look at 'zkdeployment status', then ask again"
    if request.is_expired(now):
        return (
            f"the request of {request.by} expired: expected to be served within {request.age_limit:g} s, but it is"
            f" {now - request.written:.0f} s old; {again}"
        )
    version = INITIAL if published_state.cluster is None else published_state.cluster.version
    if request.state is None or request.state == RequestState(version, published_state.stops or 0):
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
    """Say why a signed commit is dated back, or nothing.

    Whether a key is valid is judged at the date that the commit gives itself.
    """
    if origin.signer is None or origin.time >= before.time:
        return None
    return (
        f"{tip} is not published: it was signed by {origin.signer}, but its date is"
        f" {before.time - origin.time:.0f} s before that of the published commit; commit again"
    )


def removal_refusal(
    tip: Revision, before: Targets, after: Targets, hosts: Collection[Identity], pruned: Collection[str] = ()
) -> str | None:
    """Return why targets that replace those ``before`` would end too many deployments at once, or nothing.

    ``hosts`` are all known ones: an instance on each host that a target means is a deployment. What is below the
    ``pruned`` top-level nodes does not count: those are removed only where that was asked for.
    """
    had = _deployments(before, hosts)
    gone = had - _deployments(after, hosts)
    ended: Counter[str] = Counter()
    for (path, _), number in gone.items():
        if f"/{path.split('/')[1]}" not in pruned:
            ended[path] += number
    if ended.total() <= max(1, MOST_REMOVED * had.total()):
        return None
    listed = ", ".join(f"{path}: {number}" for path, number in sorted(ended.items())[:_SHOWN])
    return (
        f"{tip} is not published: it would end {ended.total()} of {had.total()} deployments"
        f" ({listed}{', …' if len(ended) > _SHOWN else ''}), more than {MOST_REMOVED:.0%}; if that is meant, use"
        " --allow-mass-removal"
    )


def _deployments(targets: Targets, hosts: Collection[Identity]) -> Counter[tuple[str, str]]:
    """Count the instances of each service on each host, by path and host; an unknown target is one host."""
    found: Counter[tuple[str, str]] = Counter()
    for host in hosts:
        for assignment in unchecked_assignments(host, targets):
            found[assignment.path, host.id] += assignment.n
    known = {name for host in hosts for name in host.target_names}
    for name, assignments in targets.items():
        if name not in known and not name.startswith("/"):
            for assignment in assignments:
                found[assignment.path, name] += assignment.n
    return found
