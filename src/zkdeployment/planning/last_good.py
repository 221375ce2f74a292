"""Finds the last revision of the history that succeeded, to which a rollback returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.planning.convergence import is_completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.publishing.history import PublicationRecord
    from zkdeployment.rollout.state import RolloutState


def last_good_revision(
    records: Iterable[PublicationRecord], attempts: Callable[[int], Sequence[RolloutState]]
) -> Revision | None:
    """Return the last revision before the current one that succeeded; ``None`` if the history has none.

    ``records`` are newest first. ``attempts`` returns the rollouts of the publication with a sequence. A
    publication that changed only documents succeeded if the last one that concerned hosts did.
    """
    by_sequence = {record.sequence: record for record in records}
    current = next(iter(by_sequence.values()), None)
    for record in by_sequence.values():
        if current is None or current.revision == record.revision:
            continue
        if record.effective_since == current.effective_since:
            continue  # the same tree and strategy
        base = by_sequence.get(record.effective_since, record)
        if has_succeeded(base, attempts(base.sequence)):
            return record.revision
    return None


def has_succeeded(record: PublicationRecord, attempts: Sequence[RolloutState]) -> bool:
    """Whether a publication succeeded: its rollout did, or, without a rollout, every registered host has it."""
    if attempts:
        return any(is_completed(attempt) for attempt in attempts)
    return not record.failed and record.done >= record.expected
