"""Reads of intents for the API, the pages and the acts, and the orders of users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.errors import NotFoundError
from zkdeployment.intents.documents.values import IntentSubject, subject_text
from zkdeployment.intents.feed import record_of, reports_of
from zkdeployment.intents.rules.overview import IntentOverview, find_overview, intent_overviews
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.intents.rules.approvals import ApprovalRule
    from zkdeployment.intents.rules.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.rules.life_cycle import IntentSnapshot
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.planner import RevisionPlanner


def approvals_are_signed(adapters: ServerAdapters) -> bool:
    """Return whether approvals need a signature, which an approver makes at a terminal."""
    return adapters.commits is not None and adapters.commits.approvals is not None


def rules_in_force(adapters: ServerAdapters) -> Sequence[ApprovalRule] | None:
    """Return the rules of approvals, ``None`` without rules; raises ``ConfigurationError``."""
    verifier = None if adapters.commits is None else adapters.commits.approvals
    return None if verifier is None else verifier.rules_in_force()


def intent_overview(planner: RevisionPlanner, adapters: ServerAdapters, subject: IntentSubject) -> IntentOverview:
    """Return the published form of an intent and, if the service has a repository, the form at the tip.

    Raises ``NotFoundError`` if neither has it, and ``SourceError`` if the repository cannot be read.
    """
    record = record_of(adapters.feed, subject)
    tip: Mapping[IntentSubject, IntentSnapshot] = {}
    if adapters.commits is not None:
        with planner.place():
            reviewed = review(adapters.commits.at_tip()[1])
            tip = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    return find_overview(intent_overviews(() if record is None else (record,), tip), subject)


def find_record(adapters: ServerAdapters, subject: IntentSubject) -> IntentRecord:
    """Return the whole record of a published intent; raises ``NotFoundError`` if it does not exist."""
    record = record_of(adapters.feed, subject)
    if record is None:
        raise NotFoundError(f"there is no published intent {subject_text(subject)}")
    return record


def read_reports(adapters: ServerAdapters, *instances: IntentInstance) -> FleetReports:
    """Return the reports of hosts, and of the providers of the services of these instances."""
    paths = {service.assignment.path for instance in instances for service in instance.services}
    return reports_of(adapters.feed, paths)
