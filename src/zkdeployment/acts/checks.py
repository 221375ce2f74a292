"""The check that every act passes before it is pushed: what ``lint`` and the hooks check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.intents.revisions import change_refusals
from zkdeployment.planning.review import lifting_problems, review

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.model.problem import Problem
    from zkdeployment.model.source_files import SourceFile


def check_change(before: Sequence[SourceFile], after: Sequence[SourceFile]) -> Iterable[Problem]:
    """Return the problems of the files ``after`` an act, and of the change from those ``before`` it.

    Raises ``RefusedError`` if the change breaks the life cycle of intents.
    """
    reviewed = review(after)
    refusals = change_refusals(before, reviewed)
    if refusals:
        heading = "the act was not committed: it would break the life cycle of intents:"
        raise RefusedError("\n  ".join([heading, *map(str, refusals)]))
    return (*reviewed.problems, *lifting_problems(reviewed, before))
