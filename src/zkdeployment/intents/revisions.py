"""Judges the change from one revision to another one by their files alone, as hooks, ``lint`` and acts do."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.intents.approvals import accepted_by_records, with_objections
from zkdeployment.intents.judge import judge_change
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.model.problem import Problem
from zkdeployment.planning.targets.governance import INTENT_KINDS, read_intents
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.life_cycle import IntentRefusal, IntentSnapshot
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
        new |= with_objections(concerned, objection, accepted_by_records(known))
    return judge_change(old, new).refusals


def change_problems(
    before: Sequence[SourceFile],
    reviewed: Review,
    objection: Callable[[IntentSnapshot], str | None] | None = None,
) -> Iterator[Problem]:
    """Yield the refusals of ``change_refusals`` as errors, at the states in the documents that still exist."""
    entries = {
        entry.subject: entry for (kind, _), entry in reviewed.documents.entries.items() if kind in INTENT_KINDS
    }
    for refusal in change_refusals(before, reviewed, objection):
        entry = entries.get(refusal.subject)
        if entry is None:
            yield Problem(str(refusal), path=subject_text(refusal.subject))
        else:
            yield entry.problem(("data", "state"), str(refusal))
