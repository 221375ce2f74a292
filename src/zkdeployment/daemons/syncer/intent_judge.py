"""Judges the intents of a revision before it is published, and records how terminated instances ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, HostFilesError, RefusedError
from zkdeployment.intents.approvals import (
    NOTHING_ACCEPTED,
    AcceptanceRecord,
    ReleaseSnapshot,
    accepted_by_syncer,
    deployment_objection,
    newly_accepted,
    with_objections,
)
from zkdeployment.intents.publication import awaiting_reports, change_intents, with_final_status
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.log import get_logger
from zkdeployment.planning.targets.content import service_content
from zkdeployment.planning.targets.governance import governed_services, read_intents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.approvals import AcceptedApprovals
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.publication import IntentsChange
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.publication import Published
    from zkdeployment.planning.publishing import Draft
    from zkdeployment.ports.approvals import ApprovalVerifier
    from zkdeployment.ports.memory import ApprovalMemory
    from zkdeployment.ports.publication import PublicationStore


class IntentJudge:
    """Reads records of intents from ``store``, and reports of hosts where the decision needs them.

    With ``approvals``, only approvals without an objection count. ``memory`` is the syncer's own record of the
    approvals that it accepted: the records in ZooKeeper do not prove which approvals count.
    """

    def __init__(
        self,
        store: PublicationStore,
        approvals: ApprovalVerifier | None = None,
        memory: ApprovalMemory | None = None,
    ) -> None:
        self._store = store
        self._approvals = approvals
        self._memory = memory
        self._record: AcceptanceRecord | None = None
        self._settled: int | None = None

    def judge(self, draft: Draft, published: Published) -> IntentsChange | None:
        """Return what a draft changes of the intents; ``None`` if there neither were nor are any.

        Raises ``RefusedError`` if the draft breaks the life cycle of an intent. Without intents nothing is read.
        An intent that this syncer accepted counts even if ZooKeeper has lost its record.
        """
        if not draft.concerns_governance and not published.intents and not self._known(published):
            return None
        before = None
        if published.intents is not None:
            before = {record.intent.subject: record for record in self._store.intents()}
        reviewed = draft.reviewed
        self._check_releases(draft)
        after = intent_snapshots(reviewed.documents, reviewed.linted.tree)
        objections: dict[IntentSubject, str] = {}
        if self._approvals is not None:
            verify, accepted = self._approvals.objection, self._known(published)
            if before is None and accepted is not None:
                before = {}  # ZooKeeper has lost the intents, which are not taken as they stand a second time
            is_accepted = accepted_by_syncer(accepted or NOTHING_ACCEPTED)
            after = with_objections(after, lambda one: verify(one, draft.revision), is_accepted)
            if before is not None:
                found = ((subject, deployment_objection(one, is_accepted)) for subject, one in after.items())
                objections = {subject: objection for subject, objection in found if objection is not None}
        services = governed_services(read_intents(reviewed.documents), draft.compilation.whole)
        awaiting = awaiting_reports(before or {}, after)
        reports = self._reports(awaiting) if awaiting else None
        return change_intents(draft.revision, before, after, services, reports, objections)

    def _check_releases(self, draft: Draft) -> None:
        """Raise ``RefusedError`` if approvals need a signature and that of a release does not count."""
        verifier = self._approvals
        if verifier is None:
            return
        for release in draft.governance.releases:
            content = service_content(release.path, release.target, draft.reviewed.linted.tree)
            objection = verifier.objection(ReleaseSnapshot(release, content), draft.revision)
            if objection is not None:
                raise RefusedError(
                    f"revision {draft.revision} is not published: the release of {release.path} does not count:"
                    f" {objection}; release it again with 'zkdeployment intent release {release.path} --key FILE'"
                )

    def accept(self, change: IntentsChange, published: Published, coming: Published) -> None:
        """Record durably what the ``coming`` publication is about to accept; raises ``HostFilesError``.

        ``published`` is the publication that stands. Call ``settle`` when the coming one was written.
        """
        accepted, known = newly_accepted(change.after), self._known(published)
        record = AcceptanceRecord(known)
        if accepted != known:
            record = AcceptanceRecord(known, accepted, coming.revision, coming.sequence)
        if record != self._record:
            self._write(record)

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written.

        If this record is lost, the next run asks ZooKeeper.
        """
        if self._record is None or self._record.coming is None:
            return
        try:
            self._write(AcceptanceRecord(self._record.coming))
        except HostFilesError as error:
            get_logger().warning("acceptance-not-recorded", reason=str(error))

    def record_final_statuses(self, published: Published) -> None:
        """Record the final status of each terminated instance of which no host has a deployment any more.

        A record that another syncer writes at the same time is left to the next cycle.
        """
        if not published.intents or self._settled == published.stamp:
            return
        awaiting = self._store.awaiting_final_status()
        if not awaiting:
            self._settled = published.stamp
            return
        reports = self._reports(awaiting)
        for record in awaiting:
            ended = with_final_status(record, reports)
            if ended is not None:
                try:
                    self._store.record_final_status(ended)
                except ConflictError as error:
                    get_logger().warning("final-status-not-recorded", reason=str(error))

    def _known(self, published: Published) -> AcceptedApprovals | None:
        if self._record is None and self._memory is not None:
            self._record = self._memory.read_accepted()
        return None if self._record is None else self._record.settled(published)

    def _write(self, record: AcceptanceRecord) -> None:
        if self._memory is not None:
            self._memory.write_accepted(record)
        self._record = record

    def _reports(self, records: Iterable[IntentRecord]) -> FleetReports:
        services = {service.assignment.path for record in records for service in record.instances[-1].services}
        return self._store.reports(services)
