"""Reads the intents of a revision, and judges the change from one revision to another.

Several acts may arrive in one change. Acts lead from each state to each other state, within the rules of this
module, which look up the table of the life cycle. After a refusal, the published state and the tip stay different,
so an act may start from either of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.source_files import Problem
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.intents.documents.values import (
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    UpdateRule,
    subject_text,
)
from zkdeployment.intents.rules.approvals import accepted_by_records, documented_instance, with_objections
from zkdeployment.intents.rules.content import changed_keys, changed_paths, intent_content
from zkdeployment.intents.rules.governance import (
    INTENT_KINDS,
    IntentGovernance,
    adoption_problems,
    change_governance,
    left_problems,
    read_intents,
)
from zkdeployment.intents.rules.life_cycle import (
    IntentAct,
    IntentEffect,
    IntentRefusal,
    IntentSnapshot,
    LifeCycleStep,
    perform,
)
from zkdeployment.publishing.rules.review import place, review
from zkdeployment.publishing.section import ChangeFindings, FormerGovernance
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.documents.collection import Documents
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.rules.content import IntentContent
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.section import ApprovalObjection, ChangeBasis
    from zkdeployment.tree.values import Tree


def intent_snapshots(documents: Documents, tree: Tree) -> dict[IntentSubject, IntentSnapshot]:
    """Return each intent of a revision with its content in the tree of all files."""
    return {
        intent.subject: IntentSnapshot(intent, intent_content(intent, tree)) for intent in read_intents(documents)
    }


#: The effects of a change on the instance of a subject, or why the change is refused.
_Outcome: TypeAlias = "frozenset[IntentEffect] | IntentRefusal"

_NO_EFFECTS: frozenset[IntentEffect] = frozenset()


@dataclass(frozen=True, slots=True)
class IntentJudgement:
    """The judgement of a change: the refusals, or the effects on the instance of each subject."""

    refusals: tuple[IntentRefusal, ...]
    effects: Mapping[IntentSubject, frozenset[IntentEffect]]


def judge_change(
    old: Mapping[IntentSubject, IntentSnapshot] | None,
    new: Mapping[IntentSubject, IntentSnapshot],
    *,
    terminating: Collection[IntentSubject] = (),
    approved: Mapping[IntentSubject, IntentContent] = MappingProxyType({}),
) -> IntentJudgement:
    """Judge the change from the intents of one revision to those of another.

    ``old`` is ``None`` for a fleet that has never published an intent: the new intents are accepted in their
    present states. ``terminating`` are the subjects whose last instance still has deployments on hosts.
    ``approved`` are the known contents that were approved before: refusals name the changes since.
    """
    refusals: list[IntentRefusal] = []
    effects: dict[IntentSubject, frozenset[IntentEffect]] = {}
    published = {} if old is None else old
    for subject in sorted({*published, *new}):
        before, after = published.get(subject), new.get(subject)
        if old is None and after is not None:
            outcome: _Outcome = _first_effects(after)
        else:
            outcome = _judge(before, after, is_terminating=subject in terminating, approved=approved.get(subject))
        if isinstance(outcome, IntentRefusal):
            refusals.append(outcome)
        elif outcome:
            effects[subject] = outcome
    return IntentJudgement(tuple(refusals), effects)


def _first_effects(snapshot: IntentSnapshot) -> frozenset[IntentEffect]:
    return frozenset({IntentEffect.BEGIN_INSTANCE}) if snapshot.state.is_active else _NO_EFFECTS


def _judge(
    before: IntentSnapshot | None,
    after: IntentSnapshot | None,
    *,
    is_terminating: bool,
    approved: IntentContent | None,
) -> _Outcome:
    """Return the effects of the change of one subject on its instance, or the refusal."""
    if before is not None and after is None:
        return _effects(perform(before, IntentAct.REMOVE, is_terminating=is_terminating))
    if before is not None and after is not None and before.state.is_active:
        if after.state.is_active:
            return _judge_active(before, after)
        return _effects(perform(before, IntentAct.TERMINATE))
    if after is not None and after.state.is_active:
        return _judge_beginning(before, after, approved)
    return _NO_EFFECTS


def _judge_active(before: IntentSnapshot, after: IntentSnapshot) -> _Outcome:
    """Judge a change of an intent whose services are deployed before and after it."""
    is_same = before.content.digest == after.content.digest
    keys = _changed_document_keys(before, after)
    if is_same and not keys:
        return _NO_EFFECTS
    may_update = before.intent.update is after.intent.update is UpdateRule.APPROVE
    act = IntentAct.UPDATE if may_update and not is_same else IntentAct.MODIFY
    outcome = perform(before, act, changed=after)
    if isinstance(outcome, IntentRefusal):
        return replace(outcome, paths=(*keys, *changed_paths(before.content, after.content)))
    return outcome.effects


def _judge_beginning(
    before: IntentSnapshot | None, after: IntentSnapshot, known: IntentContent | None
) -> _Outcome:
    """Judge a change that begins the deployment of an intent's services."""
    if isinstance(after.intent, ClusterIntents):
        last = replace(after, intent=replace(after.intent, state=IntentState.CREATED))
        return _effects(perform(last, IntentAct.APPLY))
    last = replace(after, intent=replace(after.intent, state=IntentState.APPROVED))
    approval = after.intent.approval
    contents = (known, None if before is None else before.content)
    approved = next(
        (
            content
            for content in contents
            if content is not None and approval is not None and content.digest == approval.content
        ),
        None,
    )
    outcome = perform(last, IntentAct.INSTANTIATE, approved=approved)
    if isinstance(outcome, IntentRefusal) and before is not None:
        return replace(outcome, state=before.state)
    return _effects(outcome)


def _changed_document_keys(before: IntentSnapshot, after: IntentSnapshot) -> tuple[str, ...]:
    """Return the keys of the document whose values differ, sorted."""
    old, new = before.intent, after.intent
    keys = {
        "approval": old.approval != new.approval,
        "update": old.update != new.update,
        "fleet-stop": old.fleet_stop != new.fleet_stop,
    }
    changed = {key for key, is_different in keys.items() if is_different}
    return tuple(sorted({*changed, *changed_keys(before.content, after.content)}))


def _effects(outcome: LifeCycleStep | IntentRefusal) -> _Outcome:
    return outcome.effects if isinstance(outcome, LifeCycleStep) else outcome


def change_refusals(
    before: Sequence[SourceFile],
    reviewed: Review,
    objection: Callable[[IntentSnapshot], str | None] | None = None,
    *,
    known: Mapping[IntentSubject, IntentRecord] = MappingProxyType({}),
) -> tuple[IntentRefusal, ...]:
    """Return the refusals of the change from the files ``before`` to a reviewed tree.

    If there were no intents before, documents are accepted in their present states. Only the syncer judges whether
    hosts still undeploy an instance. A tree with errors is not judged. ``objection`` is called for the approval of
    a present content if the change concerns the intent and the ``known`` records of publications have not accepted
    the approval.
    """
    documents = read_documents(document_files(before))
    if reviewed.errors or not read_intents(documents):
        return ()
    old = intent_snapshots(documents, lint(before).tree)
    new = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    if objection is not None:
        concerned = {subject: snapshot for subject, snapshot in new.items() if snapshot != old.get(subject)}
        instances = {subject: documented_instance(snapshot) for subject, snapshot in old.items()}
        last = {subject: instance for subject, instance in instances.items() if instance is not None}
        new |= with_objections(concerned, objection, accepted_by_records(known), last)
    return judge_change(old, new).refusals


def judge_files(
    before: Sequence[SourceFile], reviewed: Review, objection: ApprovalObjection, basis: ChangeBasis
) -> ChangeFindings:
    """Return why a change of files breaks the life cycle, and the problems of services whose governance changes.

    The refusals are at the states in the documents that still exist. Without the published targets, a service that
    no document governed before the change counts as deployed, unless the new document has the state Terminated.
    """
    documents = read_documents(document_files(before))
    if reviewed.errors or not (read_intents(reviewed.documents) or read_intents(documents)):
        return ChangeFindings()
    entries = {
        entry.subject: entry for (kind, _), entry in reviewed.documents.entries.items() if kind in INTENT_KINDS
    }
    refusals = []
    for refusal in change_refusals(before, reviewed, objection, known=basis.known):
        entry = entries.get(refusal.subject)
        if entry is None:
            refusals.append(Problem(str(refusal), path=subject_text(refusal.subject)))
        else:
            refusals.append(entry.problem(("data", "state"), str(refusal)))
    problems = (place(problem, reviewed.linted) for problem in _governance_problems(before, reviewed, basis))
    return ChangeFindings(tuple(refusals), tuple(problems))


def _governance_problems(before: Sequence[SourceFile], reviewed: Review, basis: ChangeBasis) -> Iterator[Problem]:
    """Yield the problems of a change by which services leave governance, or come under an intent."""
    former = review(before)
    governance = IntentGovernance(read_intents(former.documents), tuple(basis.left))
    compilation = former.compilation.under(governance)
    tree = reviewed.linted.tree
    published = FormerGovernance(governance, former.linted.tree, compilation.targets, compilation.withheld)
    change = change_governance(published, reviewed.documents, tree, tree, "this change")
    yield from left_problems(change, reviewed.documents, tree)
    yield from adoption_problems(
        governance,
        compilation.targets if basis.deployed is None else basis.deployed,
        reviewed.compilation.under(change.after),
        change,
        reviewed.documents,
        is_published_known=basis.deployed is not None,
    )


def is_refused(record: IntentRecord | None, tip: IntentSnapshot | None) -> bool:
    """Whether the life cycle forbids the change of a published intent to the one at the tip.

    Signatures of approvals, and whether hosts still undeploy an instance, do not count here.
    """
    if record is None:
        return False
    subject = record.intent.subject
    return bool(judge_change({subject: record.snapshot}, {} if tip is None else {subject: tip}).refusals)


def starting_points(record: IntentRecord | None, tip: IntentSnapshot) -> tuple[IntentSnapshot, ...]:
    """Return the intent in the states from which acts on a refused tip may start: published, then tip.

    The content and the document are those of the tip.
    """
    published = IntentState.CREATED if record is None else record.intent.state
    return replace(tip, intent=replace(tip.intent, state=published)), tip


def is_refused_update(record: IntentRecord | None, tip: IntentSnapshot) -> bool:
    """Whether a group with updates in place is instantiated and changed its content without an approval."""
    if record is None or not record.intent.state.is_active or tip.is_approved:
        return False
    before, after = record.intent, tip.intent
    return (
        isinstance(before, DeploymentIntentGroup)
        and isinstance(after, DeploymentIntentGroup)
        and before.update is after.update is UpdateRule.APPROVE
        and after.state.is_active
    )
