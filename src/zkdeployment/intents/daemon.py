"""The syncer's part of intents: its record of accepted approvals, the judgement of a revision, and its records.

The list of left services in ZooKeeper counts only without a better source, because with an emptied list services
would be deployed without an approval, and with a forged list services would be undeployed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, HostFilesError, RefusedError, UntrustedError
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine.files import JsonFile, log_damage
from zkdeployment.intents.documents import IntentSubject, subject_text
from zkdeployment.intents.rules.approvals import (
    NOTHING_ACCEPTED,
    Acceptance,
    AcceptanceRecord,
    ReleaseSnapshot,
    accepted_by_syncer,
    accepted_instances,
    deployment_objection,
    known_instances,
    newly_accepted,
    recorded_governance,
    with_objections,
)
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.governance import (
    IntentGovernanceChange,
    governed_services,
    intents_of,
    stopping_groups,
)
from zkdeployment.intents.rules.instances import InstanceChange, IntentRecord
from zkdeployment.intents.rules.revisions import (
    IntentsChange,
    awaiting_reports,
    change_intents,
    intent_snapshots,
    with_final_status,
)
from zkdeployment.intents.store import (
    archive_operations,
    intent_operations,
    read_awaiting_records,
    read_intent_nodes,
    read_records,
    read_reports,
    record_operations,
    removed_histories,
)
from zkdeployment.publishing.daemon.keeper import SectionKeeper
from zkdeployment.publishing.governance import StandingGovernance, standing_list
from zkdeployment.publishing.signing.statement import NOTHING_LEFT, left_digest
from zkdeployment.publishing.store.assignments import group_operations, read_left
from zkdeployment.publishing.store.cluster import ending_stops
from zkdeployment.publishing.store.documents import (
    NO_CHANGE,
    After,
    Before,
    SectionOperations,
    SectionWriter,
    subject_name,
)
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from zkdeployment.base.publication import Published
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.publishing.records import Publication
    from zkdeployment.publishing.rules.changes import Draft
    from zkdeployment.publishing.section import ApprovalVerifier
    from zkdeployment.publishing.signing.standing import SigningRecord
    from zkdeployment.publishing.store.store import ZooKeeperPublications


def accepted_file(file: Path) -> JsonFile[AcceptanceRecord]:
    """Return the file with the forms that were accepted with the ``last`` publication and with the ``coming`` one.

    The latter is written at that moment. A damaged file is logged, and has accepted nothing. Without a file, the
    syncer never published an intent.
    """

    def accept_nothing(file: Path, reason: str) -> AcceptanceRecord:
        log_damage(file, reason)
        return AcceptanceRecord(NOTHING_ACCEPTED, None)

    return JsonFile(
        file,
        AcceptanceRecord.from_json,
        AcceptanceRecord.to_json,
        expected="a record of approvals",
        limit=64 << 20,
        damaged=accept_nothing,
    )


class IntentKeeper(SectionKeeper):
    """Judges the intents of a revision, and remembers the forms that this syncer accepted.

    Keeps the record of that in ``memory``. The records in ``store`` do not prove which approvals count; without
    ``memory``, as in dry runs, they count until this object accepts a publication, which it remembers as long as
    it lives. With ``approvals``, only approvals without an objection count.
    """

    def __init__(
        self,
        store: ZooKeeperPublications,
        memory: JsonFile[AcceptanceRecord] | None = None,
        approvals: ApprovalVerifier | None = None,
    ) -> None:
        self._store = store
        self._memory = memory
        self._approvals = approvals
        self._record: AcceptanceRecord | None = None
        self._settled: int | None = None

    def standing(self, published: Published, signed: SigningRecord | None) -> StandingGovernance:
        """Return the governance until the next publication; ``signed`` is as in ``recorded_governance``.

        Raises ``UntrustedError`` if neither ZooKeeper nor this syncer has the list of left services of the last
        publication. Raises ``TreeError`` if that list cannot be read.
        """
        recorded = recorded_governance(self._last(published), published, signed)
        if recorded is not None:
            return recorded
        revision, digest = standing_list(published, signed)
        if digest == NOTHING_LEFT or (digest is None and published.intents is None):
            return StandingGovernance(revision)
        left = read_left(self._store.session)
        if left_digest(left) != digest:
            raise UntrustedError(
                "ZooKeeper does not hold the list of the services that left their intents: expected the list of"
                f" the publication of {revision} ({_shown(digest)}), found another one in /zkdeployment/left;"
                " restore these nodes from a backup, or copy .MIRROR.accepted from the machine of the syncer that"
                " published this revision"
            )
        return StandingGovernance(revision, left)

    def judge(self, draft: Draft, published: Published) -> SectionWriter:
        """Return the changes of intents by a draft; ``NO_CHANGE`` if there are no intents before and after it.

        Raises ``RefusedError`` if the draft breaks the life cycle of an intent. Without intents nothing is read.
        An intent that this syncer accepted counts even if ZooKeeper has lost its record.
        """
        last = self._last(published)
        if not draft.concerns_governance and published.intents is None and (last is None or not last.approvals):
            return NO_CHANGE
        before = None
        if published.intents is not None:
            before = {record.intent.subject: record for record in read_records(self._store.session)}
        reviewed = draft.reviewed
        self._check_releases(draft)
        after = intent_snapshots(reviewed.documents, reviewed.linted.tree)
        objections: dict[IntentSubject, str] = {}
        if self._approvals is not None:
            verify = self._approvals.objection
            if before is None and last is not None:
                before = {}  # ZooKeeper has lost the intents, whose states are accepted unverified only once
            is_accepted = accepted_by_syncer(self._accepted(last, before or {}))
            known = known_instances(last, before or {}, published.sequence)
            instances = {one: known[text] for one in after if (text := subject_text(one)) in known}
            expiry = self._approvals.expiry
            after = with_objections(after, lambda one: verify(one, draft.revision), is_accepted, instances, expiry)
            if before is not None:
                found = ((subject, deployment_objection(one, is_accepted)) for subject, one in after.items())
                objections = {subject: objection for subject, objection in found if objection is not None}
        services = governed_services(intents_of(draft.governance.after), draft.compilation.whole)
        awaiting = awaiting_reports(before or {}, after)
        reports = self._reports(awaiting) if awaiting else None
        change = change_intents(draft.revision, before, after, services, reports, objections)
        return PublishedIntents(replace(change, is_verified=self._approvals is not None))

    def _check_releases(self, draft: Draft) -> None:
        """Raise ``RefusedError`` if approvals need a signature and the signature of a release does not count."""
        verifier, governance = self._approvals, draft.governance
        if verifier is None or not isinstance(governance, IntentGovernanceChange):
            return
        for release in governance.releases:
            content = service_content(release.path, release.target, draft.reviewed.linted.tree)
            objection = verifier.objection(ReleaseSnapshot(release, content), draft.revision)
            if objection is not None:
                raise RefusedError(
                    f"revision {draft.revision} is not published: the release of {release.path} does not count:"
                    f" {objection}; release it again with 'zkdeployment intent release {release.path} --key FILE'"
                )

    def complete_records(self, published: Published) -> None:
        """Record the final status of each terminated instance whose deployments have all ended.

        A record that another syncer writes at the same time is left to the next cycle.
        """
        if not published.intents or self._settled == published.stamp:
            return
        session = self._store.session
        awaiting = read_awaiting_records(session)
        if not awaiting:
            self._settled = published.stamp
            return
        reports = self._reports(awaiting)
        for record in awaiting:
            ended = with_final_status(record, reports)
            if ended is not None:
                try:
                    self._store.write_record(record_operations(session, ended), "final-status")
                except ConflictError as error:
                    get_logger().warning("final-status-not-recorded", reason=str(error))

    def _reports(self, records: Iterable[IntentRecord]) -> FleetReports:
        services = {service.assignment.path for record in records for service in record.instances[-1].services}
        return read_reports(self._store.session, services)

    def accept(self, change: SectionWriter, publication: Publication, published: Published) -> None:
        """Record durably the acceptance of a coming publication; raises ``HostFilesError``."""
        last = self._last(published)
        if not isinstance(change, PublishedIntents) and last is None:
            if self._record is not None:  # an acceptance of a publication that was not written
                self._write(AcceptanceRecord(None, None))
            return
        intents = change.change if isinstance(change, PublishedIntents) else IntentsChange({}, {}, {})
        coming = Acceptance(
            newly_accepted(intents.after),
            publication.left,
            publication.revision,
            publication.sequence,
            accepted_instances(known_instances(last, intents.before, published.sequence), intents.after),
        )
        self._write(AcceptanceRecord(last, coming))

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written.

        If this record is lost, the next run reads ZooKeeper instead.
        """
        if self._record is None or self._record.coming is None:
            return
        try:
            self._write(AcceptanceRecord(self._record.coming, None))
        except HostFilesError as error:
            get_logger().warning("acceptance-not-recorded", reason=str(error))

    def _accepted(
        self, last: Acceptance | None, before: Mapping[IntentSubject, IntentRecord]
    ) -> Mapping[str, str]:
        """Return the fingerprints of the accepted groups, by the text of the subject."""
        if last is not None:
            return last.approvals
        if self._memory is not None:
            return {}
        counted = (
            record for record in before.values() if record.approved == record.content or record.state.is_active
        )
        return newly_accepted({record.intent.subject: record.snapshot for record in counted})

    def _last(self, published: Published) -> Acceptance | None:
        """Return the acceptance of this syncer with the last publication; ``None`` before the first one."""
        if self._record is None and self._memory is not None:
            self._record = self._memory.load()
        return None if self._record is None else self._record.settled(published)

    def _write(self, record: AcceptanceRecord) -> None:
        if self._memory is not None:
            self._memory.save(record)
        self._record = record


def _shown(digest: str | None) -> str:
    return "unknown, because /zkdeployment/targets lacks 'left'" if digest is None else f"sha256:{digest[:12]}…"


class PublishedIntents(SectionWriter):
    """The change that a publication makes to the records of intents, and to the stops of their groups."""

    def __init__(self, change: IntentsChange) -> None:
        self.change = change

    def operations(self, before: Before, after: After) -> SectionOperations:
        """Return the operations that write the records of intents that a publication changes."""
        session, publication, change = before.session, after.publication, self.change
        record = publication.record
        time = 0.0 if record is None else record.time
        origin = None if record is None else record.origin
        author, reason = ("", "") if origin is None else (origin.author, origin.subject)
        records = change.records(InstanceChange(after.sequence, time, author, str(publication.revision), reason))
        nodes = read_intent_nodes(session, records.keys(), change.after.keys())
        operations = intent_operations(records, nodes, publication.withheld, publication.left)
        removed = removed_histories(session, nodes.indexes.keys() - set(map(subject_name, change.after)))
        changed = map(subject_text, {*records, *(change.before.keys() - change.after.keys())})
        groups = stopping_groups(snapshot.intent for snapshot in change.after.values())
        return SectionOperations(
            (*operations.parts, *archive_operations(session, removed)),
            (
                *operations.closing,
                *group_operations(groups, session.get(paths.GROUPS)),
                *ending_stops(session, [*changed]),
            ),
        )


def intent_keeper(
    store: ZooKeeperPublications, memory: Path | None, approvals: ApprovalVerifier | None
) -> IntentKeeper:
    """Return the keeper of a syncer; ``section_keeper`` describes the arguments."""
    return IntentKeeper(store, None if memory is None else accepted_file(memory), approvals)
