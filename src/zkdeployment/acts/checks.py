"""The check that every act passes before it is pushed: the same problems that ``lint`` and the hooks report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.planning.review import lifting_problems, review

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.problem import Problem
    from zkdeployment.model.source_files import SourceFile


def check_change(before: Sequence[SourceFile], after: Sequence[SourceFile]) -> Iterable[Problem]:
    """Return the problems of the files ``after`` an act, and of the change from those ``before`` it."""
    reviewed = review(after)
    return (*reviewed.problems, *lifting_problems(reviewed, before))
