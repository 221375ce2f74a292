"""Views of the history: which publication somebody means, and what operators did meanwhile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.act import Act
    from zkdeployment.model.history import HostResult, PublicationRecord
    from zkdeployment.model.tree import Value


def find_record(records: Sequence[PublicationRecord], what: str) -> PublicationRecord:
    """Return the newest publication of a revision (whole, or the first four digits at least), or of a sequence.

    ``records`` are the newest first. Raises ``RefusedError`` if there is none.
    """
    start = re.fullmatch(r"[0-9a-f]{4,40}", what) is not None
    for record in records:
        revision = str(record.revision)
        if what in {revision, str(record.sequence)} or (
            start and len(revision) >= 40 and revision.startswith(what)
        ):
            return record
    raise RefusedError(f"no publication of {what} is in the history; 'zkdeployment history' lists what is")


def acts_during(records: Sequence[PublicationRecord], record: PublicationRecord, acts: Iterable[Act]) -> list[Act]:
    """Return what operators did between a publication and the next."""
    later = [one.time for one in records if one.sequence > record.sequence]
    return [act for act in acts if record.time <= act.time and (not later or act.time < min(later))]


def by_importance(results: Iterable[HostResult]) -> list[HostResult]:
    """Sort results: those that failed first, then as they ended."""
    return sorted(results, key=lambda one: (one.error is None, one.time, one.host_name))


def to_json(record: PublicationRecord, acts: Iterable[Act]) -> dict[str, Value]:
    """Return one publication in detail as ``-o json`` prints it."""
    return {
        **record.summary(),
        "left_out": record.left_out,
        "results": [one.to_json() for one in by_importance(record.results.values())],
        "acts": [act.to_json() for act in acts],
    }
