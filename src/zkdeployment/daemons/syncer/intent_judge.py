"""Judges the intents of a revision before it is published, and records how terminated instances ended."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError, RefusedError
from zkdeployment.intents.acceptance import NOTHING_ACCEPTED
from zkdeployment.intents.approvals import (
    ReleaseSnapshot,
    accepted_by_syncer,
    deployment_objection,
    known_instances,
    with_objections,
)
from zkdeployment.intents.publication import awaiting_reports, change_intents, with_final_status
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.log import get_logger
from zkdeployment.planning.targets.content import service_content
from zkdeployment.planning.targets.governance import governed_services, read_intents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.adapters.git.approvals import GitApprovals
    from zkdeployment.adapters.zookeeper.publication.store import ZooKeeperPublications
    from zkdeployment.daemons.syncer.accepted_governance import AcceptedGovernance
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.publication import IntentsChange
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.publication import Published
    from zkdeployment.planning.publishing import Draft


class IntentJudge:
    """Reads records of intents from ``store``, and reports of hosts where the decision needs them.

    With ``approvals``, only approvals without an objection count. ``accepted`` has the approvals that the syncer
    accepted: the records in ZooKeeper do not prove which approvals count.
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
        """Return what a draft changes of the intents; ``None`` if there neither were nor are any.

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
                before = {}  # ZooKeeper has lost the intents, which are not taken as they stand a second time
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
