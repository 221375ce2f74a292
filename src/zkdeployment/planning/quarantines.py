"""Refuses wanted versions that are in quarantine, by the documents of a revision and by those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.quarantine import QUARANTINE, Quarantine, quarantined
from zkdeployment.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zkdeployment.documents.collection import Documents
    from zkdeployment.model.publication import Targets


def quarantine_problems(targets: Targets, documents: Documents) -> Iterator[Problem]:
    """Yield an error for each service that wants a version in quarantine."""
    for path, quarantine in _wanted(targets, documents.of(QUARANTINE).values()):
        yield Problem(f"{quarantine.sentence}; choose another version", path=path)


def lifted_quarantine_problems(
    targets: Targets, documents: Documents, before: Iterable[Quarantine]
) -> Iterator[Problem]:
    """Yield an error for each service that wants a version whose quarantine the same change removes.

    ``before`` are the quarantines that are in force until the change.
    """
    kept = documents.of(QUARANTINE)
    lifted = [quarantine for quarantine in before if (quarantine.name, quarantine.version) not in kept]
    for path, quarantine in _wanted(targets, lifted):
        message = (
            f"{quarantine.sentence}; this change removes the quarantine and wants the version at once:"
            " remove the quarantine first, and want the version in a later change"
        )
        yield Problem(message, path=path)


def _wanted(targets: Targets, quarantines: Iterable[Quarantine]) -> Iterator[tuple[str, Quarantine]]:
    assignments = (assignment for listed in targets.values() for assignment in listed)
    for assignment, quarantine in quarantined(assignments, quarantines):
        yield assignment.path, quarantine
