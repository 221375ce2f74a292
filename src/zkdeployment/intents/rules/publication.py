"""The changes of intents by a publication: the judgement, and the records that the publication writes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import RefusedError
from zkdeployment.intents.rules.instances import IntentRecord, advance_instances
from zkdeployment.intents.rules.life_cycle import IntentEffect, IntentRefusal
from zkdeployment.intents.rules.resources import instance_resources, is_terminating, row_to_json
from zkdeployment.intents.rules.revisions import judge_change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from zkdeployment.base.cluster import Revision
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.rules.content import IntentContent
    from zkdeployment.intents.rules.governance import GovernedService
    from zkdeployment.intents.rules.instances import InstanceChange, IntentInstance
    from zkdeployment.intents.rules.life_cycle import IntentSnapshot
    from zkdeployment.intents.rules.reality import FleetReports


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
        return IntentRecord(
            intent,
            snapshot.state,
            instances,
            content,
            content if snapshot.is_approved else _still_approved(former, snapshot),
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
        raise RefusedError(refusal_text(revision, refusals))
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
    """Return the records whose last instance is terminated, and which are removed or instantiated again."""
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


def refusal_text(revision: Revision, refusals: Iterable[IntentRefusal]) -> str:
    """Return the message for a revision that breaks the life cycle, with one refusal on each line."""
    heading = f"revision {revision} is not published: it breaks the life cycle of intents:"
    return "\n  ".join([heading, *map(str, refusals)])


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


def _still_approved(former: IntentRecord | None, snapshot: IntentSnapshot) -> IntentContent | None:
    """Return the content that the approval of a changed intent covers, if it was published."""
    approval = snapshot.intent.approval
    if former is None or former.approved is None or approval is None:
        return None
    return former.approved if former.approved.digest == approval.content else None
