"""Judges the intents of a revision before it is published, and records how terminated instances ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import ConflictError
from zkdeployment.intents.approvals import with_objections
from zkdeployment.intents.publication import awaiting_reports, change_intents, with_final_status
from zkdeployment.intents.reading import intent_snapshots
from zkdeployment.log import get_logger
from zkdeployment.planning.targets.governance import governed_services, read_intents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.publication import IntentsChange
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.publication import Published
    from zkdeployment.planning.publishing import Draft
    from zkdeployment.ports.approvals import ApprovalVerifier
    from zkdeployment.ports.publication import PublicationStore


class IntentJudge:
    """Reads records of intents from ``store``, and reports of hosts where the decision needs them.

    With ``approvals``, only approvals without an objection count.
    """

    def __init__(self, store: PublicationStore, approvals: ApprovalVerifier | None = None) -> None:
        self._store = store
        self._approvals = approvals
        self._settled: int | None = None

    def judge(self, draft: Draft, published: Published) -> IntentsChange | None:
        """Return what a draft changes of the intents; ``None`` if there neither were nor are any.

        Raises ``RefusedError`` if the draft breaks the life cycle of an intent. Without intents nothing is read.
        """
        if not published.intents and not draft.intents:
            return None
        before = None
        if published.intents is not None:
            before = {record.intent.subject: record for record in self._store.intents()}
        reviewed = draft.reviewed
        after = intent_snapshots(reviewed.documents, reviewed.linted.tree)
        if self._approvals is not None:
            verify = self._approvals.objection
            after = with_objections(after, before or {}, lambda one: verify(one, draft.revision))
        services = governed_services(read_intents(reviewed.documents), draft.compilation.whole)
        awaiting = awaiting_reports(before or {}, after)
        reports = self._reports(awaiting) if awaiting else None
        return change_intents(draft.revision, before, after, services, reports)

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
        services = {service.assignment.path for one in records for service in one.instances[-1].services}
        return self._store.reports(services)
