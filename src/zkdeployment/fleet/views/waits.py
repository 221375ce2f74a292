"""The verdict on a wait for a revision: reached, never reached, or still waiting."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import ClusterState, is_named
from zkdeployment.fleet.views.status import UNAWAITED, FleetStatus, HostStatus, all_have, select_hosts
from zkdeployment.publishing.records import PublicationSummary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from zkdeployment.publishing.records import PublicationRecord


class WaitVerdict(Enum):
    """The state of a wait for a revision."""

    REACHED = "reached"
    STOPPED = "stopped"
    REFUSED = "refused"  # the syncer does not publish the revision
    PASSED = "passed"  # a later publication is wanted, and not all hosts had reached the revision before
    WAITING = "waiting"


def wait_verdict(
    status: FleetStatus,
    revision: str | int | None = None,
    hosts: Collection[str] = (),
    history: Iterable[PublicationRecord] = (),
) -> WaitVerdict:
    """Return whether the fleet, or these ``hosts`` (ids or names), reached a revision (``None``: the wanted one).

    Revisions are compared as text; a commit id may be shortened to seven or more digits. The fleet has reached the
    wanted revision only when the rollout of that revision is completed, and not before the first publication. A
    named host that is excluded or in maintenance gets no revision, so such a wait counts as stopped. In a stopped
    fleet, a wait for the host that an operator retries continues, and so does any wait once each failure is
    repaired, until an operator resumes the fleet. A tip that the syncer refuses is not reached before the next
    push.

    ``history`` has the publications, newest first. Once a later publication than that of the revision is wanted,
    the results of hosts there show whether they had reached the revision.
    """
    awaited = select_hosts(status.hosts, hosts, status.wanted) if hosts else status.hosts
    state = None if status.cluster is None else status.cluster.state
    stopped = (
        status.missed
        or (state is ClusterState.STOPPED and not _will_continue(status, awaited))
        or any(host.expected and host.state in UNAWAITED for host in awaited)
    )
    if revision is None:
        reached = status.is_published and (bool(hosts) or state is ClusterState.RUNNING) and all_have(awaited)
    else:
        is_awaited = any(host.expected for host in awaited) or is_named(status.wanted, str(revision))
        reached = is_awaited and all_have(awaited, str(revision))
    pending = not hosts and not status.completed and (revision is None or is_named(status.wanted, str(revision)))
    if reached and not pending:
        return WaitVerdict.REACHED
    refused = (
        None if status.refusal is None or status.refusal.revision == status.wanted else status.refusal.revision
    )
    if revision is not None and is_named(refused, str(revision)):
        return WaitVerdict.REFUSED
    if stopped:
        return WaitVerdict.STOPPED
    record = next((each for each in history if is_named(each.revision, str(revision))), None)
    if record is None or status.publication is None or record.sequence >= status.publication.sequence:
        return WaitVerdict.WAITING
    named = [host.id for host in awaited] if hosts else []
    return WaitVerdict.REACHED if _was_reached(record, named) else WaitVerdict.PASSED


def _was_reached(record: PublicationRecord, named: Sequence[str]) -> bool:
    """Return whether all hosts, or those that are ``named`` by id, had a publication before the next one."""
    results = [record.results.get(host_id) for host_id in named]
    if named and all(result is not None and result.error is None for result in results):
        return True
    return PublicationSummary.of(record).outcome(newest=False).is_complete


def _will_continue(status: FleetStatus, awaited: Sequence[HostStatus]) -> bool:
    """Return whether hosts of a stopped fleet may get the revision: by a retry, or because all is repaired."""
    retry = None if status.cluster is None else status.cluster.retry
    is_retried = retry is not None and all(host.id == retry.host for host in awaited)
    return is_retried or (bool(status.stops) and all(stop.repaired for stop in status.stops))
