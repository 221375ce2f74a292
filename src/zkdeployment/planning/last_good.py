"""The last revision of the history that succeeded, which a rollback goes back to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.planning.convergence import is_completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.history import PublicationRecord
    from zkdeployment.rollout.state import RolloutState


def last_good_revision(
    records: Iterable[PublicationRecord], attempts: Callable[[int], Sequence[RolloutState]]
) -> Revision | None:
    """Return the last revision before the current one that succeeded; ``None`` if the history has none.

    ``records`` are newest first. ``attempts`` returns the rollouts of the publication with a sequence.
    """
    current = None
    for record in records:
        if current is None:
            current = record.revision
        if record.revision != current and has_succeeded(record, attempts(record.sequence)):
            return record.revision
    return None


def has_succeeded(record: PublicationRecord, attempts: Sequence[RolloutState]) -> bool:
    """Whether a publication succeeded: its rollout did, or, without a rollout, every registered host has it."""
    if attempts:
        return any(is_completed(attempt) for attempt in attempts)
    return not record.failed and record.done >= record.expected
