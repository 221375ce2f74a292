"""Views of the publication history: search, the acts of operators during a publication, and JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.fleet.rollouts.views import rollout_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.act import Act
    from zkdeployment.model.history import HostResult
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.model.tree import Value
    from zkdeployment.rollout.state import RolloutState


def find_record(records: Sequence[PublicationRecord], name: str) -> PublicationRecord:
    """Return the newest publication of a revision, or the publication with a sequence number.

    A commit id may be shortened to its first four or more digits. ``records`` are sorted, the newest first. Raises
    ``RefusedError`` if no publication matches.
    """
    is_prefix = re.fullmatch(r"[0-9a-f]{4,40}", name) is not None
    for record in records:
        revision = str(record.revision)
        if name in {revision, str(record.sequence)} or (
            is_prefix and len(revision) >= 40 and revision.startswith(name)
        ):
            return record
    raise RefusedError(f"the history has no publication of {name}; 'zkdeployment history' lists all publications")


def acts_during(records: Sequence[PublicationRecord], record: PublicationRecord, acts: Iterable[Act]) -> list[Act]:
    """Return the acts of operators between a publication and the next publication."""
    later = [other.time for other in records if other.sequence > record.sequence]
    return [act for act in acts if record.time <= act.time and (not later or act.time < min(later))]


def by_importance(results: Iterable[HostResult]) -> list[HostResult]:
    """Return the results sorted: failures first, then by the time of the end."""
    return sorted(results, key=lambda result: (result.error is None, result.time, result.host_name))


def to_json(record: PublicationRecord, acts: Iterable[Act]) -> dict[str, Value]:
    """Return the details of one publication as ``-o json`` prints them."""
    return {
        **record.summary(),
        "left_out": record.left_out,
        "results": [result.to_json() for result in by_importance(record.results.values())],
        "acts": [act.to_json() for act in acts],
    }


def publication_body(
    record: PublicationRecord,
    records: Sequence[PublicationRecord],
    acts: Iterable[Act],
    rollouts: Iterable[RolloutState],
    *,
    now: float,
) -> dict[str, Value]:
    """Return the details of a publication as ``-o json`` prints them.

    ``records`` include the next publication, if there is one; ``now`` is in seconds since the epoch.
    """
    attempts: list[Value] = [rollout_status(attempt, led=True, now=now).to_json() for attempt in rollouts]
    return to_json(record, acts_during(records, record, acts)) | {"rollouts": attempts}
