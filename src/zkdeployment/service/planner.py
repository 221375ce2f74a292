"""Plans and differences of revisions: few at a time, so that the service does not run out of threads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError, SourceError, TreeError
from zkdeployment.fleet.package_check import with_package_check
from zkdeployment.fleet.views.forecast import Prediction, predict, with_additions
from zkdeployment.publishing.rules.changes import ordered_revision
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.service.request_slots import RequestSlots
from zkdeployment.tree.diff import describe_change, diff
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from fastapi import Request

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.service.dependencies import ServerAdapters

#: The most lines of a difference.
_MOST_LINES = 1000

#: The number of plans that are made at a time; further requests are answered that they should be repeated.
_AT_ONCE = 2


class RevisionPlanner:
    """Makes plans; it is made once for each application."""

    def __init__(self) -> None:
        self._slots = RequestSlots("plans", _AT_ONCE)

    def plan(self, adapters: ServerAdapters, revision: str | None) -> Prediction:
        """Return the plan of a branch or a commit of the configured repository, with the check of its packages.

        Raises ``TreeError`` with all problems of a tree with errors, ``UnknownRevisionError`` for a revision that
        the repository does not have, ``SourceError`` if the repository cannot be read, and ``RefusedError`` if no
        repository is configured.
        """
        if adapters.read_revision is None:
            raise _without_repository()
        with self.place():
            found, files = adapters.read_revision(revision)
            reviewed = review(files)
            if reviewed.errors:
                raise TreeError("; ".join(str(problem) for problem in reviewed.problems))
            return _prediction(adapters, reviewed, found)

    def refusals(self, adapters: ServerAdapters, revision: str) -> tuple[str, ...]:
        """Return the reasons for which the syncer would refuse a commit of any branch of the repository.

        Raises what ``plan`` raises, except ``TreeError``: the errors of a tree are such reasons.
        """
        if adapters.read_refusals is None:
            raise _without_repository()
        with self.place():
            return adapters.read_refusals(revision)

    def plan_files(self, adapters: ServerAdapters, files: Sequence[SourceFile], title: str) -> Prediction:
        """Return the plan of files that no revision has yet and ``title`` names; raises what ``plan`` raises."""
        with self.place():
            return _prediction(adapters, review(files), None, title)

    def changes(self, adapters: ServerAdapters, before: Revision, after: Revision) -> tuple[str, ...]:
        """Return the changes of the tree from the revision ``before`` to ``after``, a line for each effect.

        Raises ``SourceError`` if the repository does not have both or cannot be read, ``BusyError`` if too many
        plans are made. Without a configured
        repository, the result is empty.
        """
        if adapters.read_revision is None:
            return ()
        with self.place():
            old, new = (lint(adapters.read_revision(str(revision))[1]).tree for revision in (before, after))
            lines = tuple(describe_change(diff(old, new), old))
        more = len(lines) - _MOST_LINES
        return lines if more <= 0 else (*lines[:_MOST_LINES], f"and {more} more")

    def place(self) -> AbstractContextManager[None]:
        """Occupy one of the slots for plans; raises ``BusyError`` if none is free."""
        return self._slots.taken()


def _without_repository() -> RefusedError:
    return RefusedError(
        "the service knows no repository, so it cannot plan: expected url and tree-directory in [sync]"
    )


def _prediction(
    adapters: ServerAdapters, reviewed: Review, revision: Revision | None, title: str = ""
) -> Prediction:
    """Return the plan of a reviewed tree, with the check of its packages if the repositories are configured."""
    basis = adapters.operator.prediction_basis()
    ordered = ordered_revision(basis.published)
    if ordered is not None and adapters.read_revision is not None:
        basis = replace(basis, ordered_text=_reviewed(adapters.read_revision, ordered))
    predicted = predict(reviewed, basis, revision=revision, title=title)
    if adapters.repositories is not None:
        predicted = with_package_check(predicted, basis, adapters.repositories)
    return with_additions(predicted, reviewed, basis)


def _reviewed(
    read: Callable[[str | None], tuple[Revision, Sequence[SourceFile]]], revision: Revision
) -> Review | None:
    """Return the text of a revision; ``None`` if the repository no longer contains it."""
    try:
        return review(read(str(revision))[1])
    except SourceError:
        return None


def planner_of(request: Request) -> RevisionPlanner:
    """Return the planner of the application that handles a request."""
    planner: RevisionPlanner = request.app.state.planner
    return planner
