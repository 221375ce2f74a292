"""The check that every act passes before it is pushed: the same as that of ``lint`` and the hooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import Severity
from zkdeployment.intents.rules.revisions import change_refusals, governance_problems
from zkdeployment.publishing.rules.review import lifting_problems, place, review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.base.publication import Targets
    from zkdeployment.base.source_files import Problem, SourceFile
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.publishing.acts.commits import ApprovalObjection
    from zkdeployment.publishing.left_service import LeftService
    from zkdeployment.publishing.rules.review import Review


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBasis:
    """The published state with which a change is compared.

    ``known`` are records of intents, whose approvals were accepted. ``left`` are the services that left the
    governance of their intents, ``deployed`` the published targets. ``files`` reads the published files.
    """

    known: Mapping[IntentSubject, IntentRecord] = field(default_factory=dict)
    left: Sequence[LeftService] = ()
    deployed: Targets | None = None
    files: Callable[[], Sequence[SourceFile]] | None = None


_NO_BASIS = ChangeBasis()


def check_change(
    before: Sequence[SourceFile],
    after: Sequence[SourceFile],
    objection: ApprovalObjection,
    *,
    basis: ChangeBasis = _NO_BASIS,
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
    problems = [
        place(problem, reviewed.linted)
        for problem in governance_problems(before, reviewed, basis.left, basis.deployed)
    ]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    refusals = [*change_refusals(before, reviewed, objection, known=basis.known), *errors]
    return [str(refusal) for refusal in refusals], [problem for problem in problems if problem not in errors]
