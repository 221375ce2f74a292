"""Judges the change from one revision to another one by their files alone, as hooks, ``lint`` and acts do."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.intents.approvals import accepted_by_records, documented_instance, with_objections
from zkdeployment.intents.judge import judge_change
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.model.problem import Problem
from zkdeployment.planning.review import place, review
from zkdeployment.planning.targets.governance import INTENT_KINDS, Governance, read_intents
from zkdeployment.planning.targets.leaving import (
    FormerGovernance,
    adoption_problems,
    change_governance,
    left_problems,
)
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.life_cycle import IntentRefusal, IntentSnapshot
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.planning.review import Review


def has_intents(files: Iterable[SourceFile]) -> bool:
    """Whether documents among these files are intents; trees without them need not be compared."""
    return bool(read_intents(read_documents(document_files(files))))


def change_refusals(
    before: Sequence[SourceFile],
    reviewed: Review,
    objection: Callable[[IntentSnapshot], str | None] | None = None,
    *,
    known: Mapping[IntentSubject, IntentRecord] = MappingProxyType({}),
) -> tuple[IntentRefusal, ...]:
    """Return why the change from the files ``before`` to a reviewed tree breaks the life cycle of intents.

    Documents are taken as they stand if there were no intents before. Whether hosts still undeploy an instance is
    not known here: only the syncer judges that. A tree with errors is not judged. ``objection`` is asked why the
    approval of a present content does not count, if the change concerns the intent and the ``known`` records of
    publications have not accepted the approval.
    """
    if reviewed.errors or not has_intents(before):
        return ()
    documents = read_documents(document_files(before))
    old = intent_snapshots(documents, lint(before).tree)
    new = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    if objection is not None:
        concerned = {subject: snapshot for subject, snapshot in new.items() if snapshot != old.get(subject)}
        instances = {subject: documented_instance(snapshot) for subject, snapshot in old.items()}
        last = {subject: instance for subject, instance in instances.items() if instance is not None}
        new |= with_objections(concerned, objection, accepted_by_records(known), last)
    return judge_change(old, new).refusals


def governance_problems(
    before: Sequence[SourceFile],
    reviewed: Review,
    left: Sequence[LeftService] = (),
    deployed: Targets | None = None,
) -> Iterator[Problem]:
    """Yield the problems of a change by which services leave governance, or come under an intent.

    ``left`` are the services that left governance earlier, ``deployed`` the published targets. Without these, a
    service that no document before the change governs counts as deployed, unless the new document has the state
    Terminated.
    """
    if reviewed.errors or not (read_intents(reviewed.documents) or has_intents(before)):
        return
    former = review(before)
    governance = Governance(read_intents(former.documents), tuple(left))
    compilation = former.compilation.under(governance)
    tree = reviewed.linted.tree
    published = FormerGovernance(governance, former.linted.tree, compilation.targets, compilation.withheld)
    change = change_governance(published, reviewed.documents, tree, tree, "this change")
    yield from left_problems(change, reviewed.documents, tree)
    yield from adoption_problems(
        governance,
        compilation.targets if deployed is None else deployed,
        reviewed.compilation.under(change.after),
        change,
        reviewed.documents,
        is_published_known=deployed is not None,
    )


def change_problems(
    before: Sequence[SourceFile],
    reviewed: Review,
    objection: Callable[[IntentSnapshot], str | None] | None = None,
) -> Iterator[Problem]:
    """Yield the problems of ``governance_problems``, and the refusals of ``change_refusals`` as errors.

    The errors are at the states in the documents that still exist.
    """
    for problem in governance_problems(before, reviewed):
        yield place(problem, reviewed.linted)
    entries = {
        entry.subject: entry for (kind, _), entry in reviewed.documents.entries.items() if kind in INTENT_KINDS
    }
    for refusal in change_refusals(before, reviewed, objection):
        entry = entries.get(refusal.subject)
        if entry is None:
            yield Problem(str(refusal), path=subject_text(refusal.subject))
        else:
            yield entry.problem(("data", "state"), str(refusal))
