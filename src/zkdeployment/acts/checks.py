"""The check that every act passes before it is pushed: what ``lint`` and the hooks check."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.errors import RefusedError
from zkdeployment.intents.revisions import change_refusals, governance_problems
from zkdeployment.model.problem import Severity
from zkdeployment.planning.review import lifting_problems, place, review

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.problem import Problem
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.ports.commits import ApprovalObjection


def check_change(
    before: Sequence[SourceFile],
    after: Sequence[SourceFile],
    objection: ApprovalObjection,
    *,
    known: Mapping[IntentSubject, IntentRecord] = MappingProxyType({}),
    left: Sequence[LeftService] = (),
    deployed: Targets | None = None,
) -> Iterable[Problem]:
    """Return the problems of the files ``after`` an act, and of the change from those ``before`` it.

    ``objection`` is asked for approvals that ``known`` records of publications have not accepted. ``left`` are the
    services that left the governance of their intents, ``deployed`` the published targets. Raises
    ``RefusedError`` if the change breaks the life cycle of intents.
    """
    reviewed = review(after)
    governance = [
        place(problem, reviewed.linted) for problem in governance_problems(before, reviewed, left, deployed)
    ]
    refusals = [
        *change_refusals(before, reviewed, objection, known=known),
        *(problem for problem in governance if problem.severity is Severity.ERROR),
    ]
    if refusals:
        heading = "the act was not committed: it would break the life cycle of intents:"
        raise RefusedError("\n  ".join([heading, *map(str, refusals)]))
    return (*reviewed.problems, *lifting_problems(reviewed, before), *governance)
