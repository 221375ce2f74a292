"""The check that every act passes before it is pushed: the same as that of ``lint`` and the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import Severity
from zkdeployment.publishing.rules.review import lifting_problems, review
from zkdeployment.publishing.section import NO_BASIS, section

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.base.source_files import Problem, SourceFile
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.section import ApprovalObjection, ChangeBasis


def check_change(
    before: Sequence[SourceFile],
    after: Sequence[SourceFile],
    objection: ApprovalObjection,
    *,
    basis: ChangeBasis = NO_BASIS,
) -> Iterable[Problem]:
    """Return the problems of the files ``after`` an act, and of the change from those ``before`` it.

    ``objection`` is called for approvals that were not accepted before. The syncer compares the published files
    with the act. Therefore an act may correct a tip that the syncer refuses, but may not add a refusal. Raises
    ``RefusedError`` if the change breaks the life cycle of intents.
    """
    reviewed = review(after)
    refusals, warnings = _judge(before, reviewed, objection, basis)
    if refusals and basis.files is not None:
        published = basis.files()
        at_tip, _ = _judge(published, review(before), objection, basis)
        if at_tip:  # the syncer refuses this tip, so it will never be published
            refusals, warnings = _judge(published, reviewed, objection, basis)
            refusals = [refusal for refusal in refusals if refusal not in at_tip]
    if refusals:
        heading = "the act was not committed: it would break the life cycle of intents:"
        raise RefusedError("\n  ".join([heading, *refusals]))
    return (*reviewed.problems, *lifting_problems(reviewed, before), *warnings)


def _judge(
    before: Sequence[SourceFile], reviewed: Review, objection: ApprovalObjection, basis: ChangeBasis
) -> tuple[list[str], list[Problem]]:
    """Return the refusals of a change by the life cycle of intents, and warnings about leaving services."""
    found = section().judge_files(before, reviewed, objection, basis)
    errors = [problem for problem in found.problems if problem.severity is Severity.ERROR]
    refusals = [*(refusal.message for refusal in found.refusals), *map(str, errors)]
    return refusals, [problem for problem in found.problems if problem not in errors]
