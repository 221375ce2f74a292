"""Reads the intents of a revision, judges the change to another revision, and computes the records to publish.

Several acts may arrive in one change. Acts lead from each state to each other state, within the rules of this
module, which look up the table of the life cycle. After a refusal, the published state and the tip stay different,
so an act may start from either of them.
"""

from __future__ import annotations

from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.base.errors import RefusedError
from zkdeployment.base.source_files import Problem, SourceFile
from zkdeployment.base.values import dataclass
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.intents.documents import (
    ClusterIntents,
    DeploymentIntentGroup,
    IntentState,
    IntentSubject,
    UpdateRule,
    subject_text,
)
from zkdeployment.intents.rules.approvals import accepted_by_records, documented_instance, with_objections
from zkdeployment.intents.rules.content import IntentContent, changed_keys, changed_paths, intent_content
from zkdeployment.intents.rules.governance import (
    INTENT_KINDS,
    GovernedService,
    IntentGovernance,
    adoption_problems,
    change_governance,
    left_problems,
    read_intents,
)
from zkdeployment.intents.rules.instances import (
    InstanceChange,
    IntentAct,
    IntentEffect,
    IntentInstance,
    IntentRecord,
    IntentRefusal,
    IntentSnapshot,
    LifeCycleStep,
    advance_instances,
    perform,
)
from zkdeployment.intents.rules.resources import instance_resources, is_terminating, row_to_json
from zkdeployment.publishing.rules.review import Review, place, review
from zkdeployment.publishing.section import ApprovalObjection, ChangeBasis, ChangeFindings, FormerGovernance
from zkdeployment.tree.lint import lint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.documents.collection import Documents
    from zkdeployment.intents.rules.reality import FleetReports
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
            outcome: _Outcome = frozenset({IntentEffect.BEGIN_INSTANCE}) if after.state.is_active else _NO_EFFECTS
        else:
            outcome = _judge(before, after, is_terminating=subject in terminating, approved=approved.get(subject))
        if isinstance(outcome, IntentRefusal):
            refusals.append(outcome)
        elif outcome:
            effects[subject] = outcome
    return IntentJudgement(tuple(refusals), effects)


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
    objection: ApprovalObjection = None,
    *,
    known: Mapping[IntentSubject, IntentRecord] = MappingProxyType({}),
) -> tuple[IntentRefusal, ...]:
    """Return the refusals of the change from the files ``before`` to a reviewed tree.

    If there were no intents before, documents are accepted in their present states. Only the syncer judges whether
    hosts still undeploy an instance. A tree with errors is not judged. ``objection`` is called for the approval of
    a present content if the change concerns the intent and the ``known`` records of publications have not accepted
    the approval. Approvals of other instances than the running one may also have expired.
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
        new |= with_objections(concerned, objection, accepted_by_records(known), last, objection.expiry)
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


@dataclass(frozen=True, slots=True)
class IntentsChange:
    """The published records, the intents of the next publication, and their effects on instances.

    ``services`` are the services that each intent governs. ``finals`` are the final statuses that the publication
    records: those of terminated instances whose intents are instantiated again. ``is_verified`` is whether the
    signatures of approvals were verified.
    """

    before: Mapping[IntentSubject, IntentRecord]
    after: Mapping[IntentSubject, IntentSnapshot]
    effects: Mapping[IntentSubject, frozenset[IntentEffect]]
    services: Mapping[IntentSubject, tuple[GovernedService, ...]] = field(default_factory=dict)
    finals: Mapping[IntentSubject, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    is_verified: bool = False

    def records(self, publication: InstanceChange) -> dict[IntentSubject, IntentRecord]:
        """Return the records that differ from the published ones; those of removed intents are missing."""
        records = {subject: self._record(snapshot, publication) for subject, snapshot in self.after.items()}
        return {subject: record for subject, record in records.items() if record != self.before.get(subject)}

    def _record(self, snapshot: IntentSnapshot, publication: InstanceChange) -> IntentRecord:
        intent, content = snapshot.intent, snapshot.content
        former = self.before.get(intent.subject)
        instances = advance_instances(
            self._former_instances(former),
            self.effects.get(intent.subject, frozenset()),
            replace(publication, content=content.digest, approval=intent.approval, is_verified=self.is_verified),
            intent,
            self.services.get(intent.subject, ()),
            content.nodes,
        )
        before = None if former is None else former.approved_before(snapshot)
        return IntentRecord(
            intent,
            snapshot.state,
            instances,
            content,
            content if snapshot.is_approved else before,
            None if former is None else former.stamp,
        )

    def _former_instances(self, former: IntentRecord | None) -> tuple[IntentInstance, ...]:
        """Return the former instances, the last one with its final status if this publication records it."""
        if former is None:
            return ()
        final = self.finals.get(former.intent.subject)
        if final is None:
            return former.instances
        return (*former.instances[:-1], replace(former.instances[-1], final=final))


def change_intents(
    revision: Revision,
    before: Mapping[IntentSubject, IntentRecord] | None,
    after: Mapping[IntentSubject, IntentSnapshot],
    services: Mapping[IntentSubject, tuple[GovernedService, ...]],
    reports: FleetReports | None,
    objections: Mapping[IntentSubject, str] = MappingProxyType({}),
) -> IntentsChange:
    """Return the changes by a publication of a revision's intents; raises ``RefusedError`` with all refusals.

    ``before`` are the published records, ``None`` for a fleet that has never published an intent. ``reports`` are
    needed only if ``awaiting_reports`` names intents. ``objections`` are the reasons why groups must not be
    deployed.
    """
    published = {} if before is None else before
    judged = judge_change(
        None if before is None else {subject: record.snapshot for subject, record in before.items()},
        after,
        terminating=[] if reports is None else _terminating(published, after, reports),
        approved=approved_contents(published.values()),
    )
    refusals = (*judged.refusals, *_refusals(after, objections, {refusal.subject for refusal in judged.refusals}))
    if refusals:
        heading = f"revision {revision} is not published: it breaks the life cycle of intents:"
        raise RefusedError("\n  ".join([heading, *map(str, refusals)]))
    begun = (subject for subject, effects in judged.effects.items() if IntentEffect.BEGIN_INSTANCE in effects)
    finals = {
        subject: final_status(published[subject].instances[-1], reports)
        for subject in begun
        if reports is not None and subject in published and published[subject].awaits_final_status
    }
    return IntentsChange(published, after, judged.effects, services, finals)


def expected_refusals(
    before: Iterable[IntentRecord], after: Mapping[IntentSubject, IntentSnapshot]
) -> tuple[IntentRefusal, ...]:
    """Return the refusals of a revision's intents that follow from the published records alone.

    Signatures of approvals are not checked, nor whether hosts still undeploy an instance.
    """
    published = {record.intent.subject: record for record in before}
    if not published:
        return ()
    snapshots = {subject: record.snapshot for subject, record in published.items()}
    return judge_change(snapshots, after, approved=approved_contents(published.values())).refusals


def awaiting_reports(
    before: Mapping[IntentSubject, IntentRecord], after: Mapping[IntentSubject, IntentSnapshot]
) -> tuple[IntentRecord, ...]:
    """Return the former records of intents with a terminated instance that are removed or instantiated again."""
    return tuple(
        record
        for subject, record in before.items()
        if record.awaits_final_status and (subject not in after or after[subject].state.is_active)
    )


def final_status(instance: IntentInstance, reports: FleetReports) -> tuple[Mapping[str, Any], ...]:
    """Return the status of all resources of an instance, in its recorded form."""
    return tuple(map(row_to_json, instance_resources(instance, reports, with_details=True)))


def with_final_status(record: IntentRecord, reports: FleetReports) -> IntentRecord | None:
    """Return a record whose last instance has its final status; ``None`` while hosts still undeploy it."""
    *former, last = record.instances
    if is_terminating(instance_resources(last, reports)):
        return None
    return replace(record, instances=(*former, replace(last, final=final_status(last, reports))))


def approved_contents(records: Iterable[IntentRecord]) -> dict[IntentSubject, IntentContent]:
    """Return the contents that the published approvals cover, if they are known."""
    return {record.intent.subject: record.approved for record in records if record.approved is not None}


def _refusals(
    after: Mapping[IntentSubject, IntentSnapshot],
    objections: Mapping[IntentSubject, str],
    refused: Collection[IntentSubject],
) -> Iterator[IntentRefusal]:
    """Yield the refusals of groups with objections that are not refused for another reason."""
    for subject in sorted(objections.keys() - refused):
        snapshot = after[subject]
        approval = snapshot.intent.approval
        by = None if approval is None else approval.by
        yield IntentRefusal(subject, snapshot.state, objections[subject], by)


def _terminating(
    before: Mapping[IntentSubject, IntentRecord],
    after: Mapping[IntentSubject, IntentSnapshot],
    reports: FleetReports,
) -> list[IntentSubject]:
    """Return the removed intents whose last instance still has deployments on hosts."""
    return [
        record.intent.subject
        for record in awaiting_reports(before, after)
        if record.intent.subject not in after and is_terminating(instance_resources(record.instances[-1], reports))
    ]
