"""The syncer's part of intents: its record of accepted approvals, and the judgement of a revision.

The list of left services in ZooKeeper counts only without a better source, because with an emptied list services
would be deployed without an approval, and with a forged list services would be undeployed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConflictError, HostFilesError, RefusedError, UntrustedError
from zkdeployment.base.log import get_logger
from zkdeployment.intents.rules.approvals import (
    NOTHING_ACCEPTED,
    AcceptanceRecord,
    ReleaseSnapshot,
    StandingGovernance,
    accepted_by_syncer,
    deployment_objection,
    known_instances,
    recorded_governance,
    standing_list,
    with_objections,
)
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.governance import governed_services, read_intents
from zkdeployment.intents.rules.publication import awaiting_reports, change_intents, with_final_status
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.publishing.signing.statement import NOTHING_LEFT, left_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.base.publication import Published
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.rules.approvals import Acceptance
    from zkdeployment.intents.rules.instances import IntentRecord
    from zkdeployment.intents.rules.publication import IntentsChange
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.intents.store.accepted_file import AcceptedFile
    from zkdeployment.intents.verification import GitApprovals
    from zkdeployment.publishing.rules.changes import Draft
    from zkdeployment.publishing.signing.standing import SigningRecord
    from zkdeployment.publishing.store.store import ZooKeeperPublications


class AcceptedGovernance:
    """Keeps the record in ``memory``; without ``memory``, only as long as this object lives."""

    def __init__(self, store: ZooKeeperPublications, memory: AcceptedFile | None = None) -> None:
        self._store = store
        self._memory = memory
        self._record: AcceptanceRecord | None = None

    def last(self, published: Published) -> Acceptance | None:
        """Return the acceptance of this syncer with the last publication; ``None`` before the first one."""
        if self._record is None and self._memory is not None:
            self._record = self._memory.read_accepted()
        return None if self._record is None else self._record.settled(published)

    def standing(self, published: Published, signed: SigningRecord | None) -> StandingGovernance:
        """Return the governance until the next publication; ``signed`` is as in ``recorded_governance``.

        Raises ``UntrustedError`` if neither ZooKeeper nor this syncer has the list of left services of the last
        publication. Raises ``TreeError`` if that list cannot be read.
        """
        recorded = recorded_governance(self.last(published), published, signed)
        if recorded is not None:
            return recorded
        revision, digest = standing_list(published, signed)
        if digest == NOTHING_LEFT or (digest is None and published.intents is None):
            return StandingGovernance(revision)
        left = self._store.left()
        if left_digest(left) != digest:
            raise UntrustedError(
                "ZooKeeper does not hold the list of the services that left their intents: expected the list of"
                f" the publication of {revision} ({_shown(digest)}), found another one in /zkdeployment/left;"
                " restore these nodes from a backup, or copy .MIRROR.accepted from the machine of the syncer that"
                " published this revision"
            )
        return StandingGovernance(revision, left)

    def accept(self, coming: Acceptance, published: Published) -> None:
        """Record durably the acceptance of the ``coming`` publication; raises ``HostFilesError``.

        ``published`` is the current publication. Call ``settle`` when the coming one was written.
        """
        self._write(AcceptanceRecord(self.last(published), coming))

    def settle(self) -> None:
        """Record that the publication of the last ``accept`` was written.

        If this record is lost, the next run reads ZooKeeper instead.
        """
        if self._record is None or self._record.coming is None:
            return
        try:
            self._write(AcceptanceRecord(self._record.coming))
        except HostFilesError as error:
            get_logger().warning("acceptance-not-recorded", reason=str(error))

    def _write(self, record: AcceptanceRecord) -> None:
        if self._memory is not None:
            self._memory.write_accepted(record)
        self._record = record


def _shown(digest: str | None) -> str:
    return "unknown, because /zkdeployment/targets lacks 'left'" if digest is None else f"sha256:{digest[:12]}…"


class IntentJudge:
    """Reads records of intents from ``store``, and reports of hosts where the decision needs them.

    With ``approvals``, only approvals without an objection count. ``accepted`` has the approvals that the syncer
    accepted, because the records in ZooKeeper do not prove which approvals count.
    """

    def __init__(
        self,
        store: ZooKeeperPublications,
        accepted: AcceptedGovernance,
        approvals: GitApprovals | None = None,
    ) -> None:
        self._store = store
        self._accepted = accepted
        self._approvals = approvals
        self._settled: int | None = None

    def judge(self, draft: Draft, published: Published) -> IntentsChange | None:
        """Return the changes of intents by a draft; ``None`` if there are no intents before and after it.

        Raises ``RefusedError`` if the draft breaks the life cycle of an intent. Without intents nothing is read.
        An intent that this syncer accepted counts even if ZooKeeper has lost its record.
        """
        last = self._accepted.last(published)
        if not draft.concerns_governance and published.intents is None and (last is None or not last.approvals):
            return None
        before = None
        if published.intents is not None:
            before = {record.intent.subject: record for record in self._store.intents()}
        reviewed = draft.reviewed
        self._check_releases(draft)
        after = intent_snapshots(reviewed.documents, reviewed.linted.tree)
        objections: dict[IntentSubject, str] = {}
        if self._approvals is not None:
            verify = self._approvals.objection
            if before is None and last is not None:
                before = {}  # ZooKeeper has lost the intents, whose states are accepted unverified only once
            is_accepted = accepted_by_syncer(NOTHING_ACCEPTED if last is None else last.approvals)
            instances = known_instances(after, {} if last is None else last.instances, before or {})
            expiry = self._approvals.expiry
            after = with_objections(after, lambda one: verify(one, draft.revision), is_accepted, instances, expiry)
            if before is not None:
                found = ((subject, deployment_objection(one, is_accepted)) for subject, one in after.items())
                objections = {subject: objection for subject, objection in found if objection is not None}
        services = governed_services(read_intents(reviewed.documents), draft.compilation.whole)
        awaiting = awaiting_reports(before or {}, after)
        reports = self._reports(awaiting) if awaiting else None
        change = change_intents(draft.revision, before, after, services, reports, objections)
        return replace(change, is_verified=self._approvals is not None)

    def _check_releases(self, draft: Draft) -> None:
        """Raise ``RefusedError`` if approvals need a signature and the signature of a release does not count."""
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

    def _reports(self, records: Iterable[IntentRecord]) -> FleetReports:
        services = {service.assignment.path for record in records for service in record.instances[-1].services}
        return self._store.reports(services)
