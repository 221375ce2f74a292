"""Acts of users on intents, for the API and the pages: commits with the user as their author.

Each act raises ``ForbiddenError`` if the paths of the user do not permit it, ``NotFoundError`` for an unknown
intent, and ``RefusedError`` if the state of the intent forbids it or the service has no repository.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zkdeployment.acts.audited import ActAudit
from zkdeployment.acts.governance import ReleaseOrder, release_services
from zkdeployment.acts.intents import (
    adopt_intent,
    approve_intent,
    change_state,
    create_intent,
    intent_order,
    remove_intent,
    replace_intent,
    roll_back_intent,
)
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import NotFoundError
from zkdeployment.intents.life_cycle import IntentAct
from zkdeployment.intents.resources import instance_resources, is_terminating
from zkdeployment.model.act import sanitize
from zkdeployment.model.user import ActKind
from zkdeployment.web.acts import check_right, new_act, require_commits
from zkdeployment.web.views.intents.acts import intent_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from zkdeployment.acts.intents import IntentOrder
    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.intents.approval_rules import ApprovalCount
    from zkdeployment.intents.instances import IntentInstance, IntentRecord
    from zkdeployment.intents.reality import FleetReports
    from zkdeployment.model.act import Act
    from zkdeployment.model.commits import CommitOutcome
    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters


def approvals_are_signed(adapters: ServerAdapters) -> bool:
    """Return whether approvals need a signature, which an approver makes at a terminal."""
    return adapters.commits is not None and adapters.commits.approvals is not None


def counted_approvals(adapters: ServerAdapters, record: IntentRecord) -> tuple[ApprovalCount, ...]:
    """Return how many approvals the published content of an intent has; empty without rules.

    Raises ``ConfigurationError`` if the file of the rules cannot be read.
    """
    verifier = None if adapters.commits is None else adapters.commits.approvals
    return () if verifier is None else verifier.counted(record.snapshot)


def find_record(adapters: ServerAdapters, subject: IntentSubject) -> IntentRecord:
    """Return the whole record of a published intent; raises ``NotFoundError`` if it does not exist."""
    record = adapters.feed.intent(subject)
    if record is None:
        raise NotFoundError(f"there is no published intent {subject_text(subject)}")
    return record


def read_reports(adapters: ServerAdapters, *instances: IntentInstance) -> FleetReports:
    """Return what hosts, and the providers of the services of these instances, report."""
    paths = {service.assignment.path for instance in instances for service in instance.services}
    return adapters.feed.reports(paths)


def act_on_intent(
    adapters: ServerAdapters,
    user: User,
    subject: IntentSubject,
    act: IntentAct,
    reason: str,
    *,
    content: str | None = None,
) -> CommitOutcome:
    """Approve, instantiate, apply or terminate an intent.

    ``content`` is the digest of the content that the user has seen and approves.
    """
    commits, order = require_commits(adapters), _order(adapters, user, subject, reason)
    if act is IntentAct.APPROVE:
        return approve_intent(commits, order, content=content)
    return change_state(commits, order, act)


def resume_group(adapters: ServerAdapters, user: User, subject: IntentSubject, reason: str) -> Act:
    """End the stop of a group; return the act."""
    record = find_record(adapters, subject)
    check_right(user, ActKind.ACT_ON_INTENT, *intent_paths(record.intent))
    group = subject_text(subject)
    act = new_act(adapters, user, f"intent resume {group}", reason)
    adapters.operator.cluster.resume_group(group, act)
    return act


def preview_act(adapters: ServerAdapters, user: User, subject: IntentSubject, act: IntentAct) -> CommitOutcome:
    """Return what an act of ``act_on_intent`` would commit; nothing is pushed."""
    commits, order = require_commits(adapters), _order(adapters, user, subject, "")
    if act is IntentAct.APPROVE:
        return approve_intent(commits, order, dry_run=True)
    return change_state(commits, order, act, dry_run=True)


def roll_back(
    adapters: ServerAdapters, user: User, subject: IntentSubject, instance: int, reason: str
) -> CommitOutcome:
    """Restore and approve the content that an instance of a group had."""
    return roll_back_intent(require_commits(adapters), _order(adapters, user, subject, reason), instance)


def preview_rollback(adapters: ServerAdapters, user: User, subject: IntentSubject, instance: int) -> CommitOutcome:
    """Return what a rollback would commit; nothing is pushed."""
    order = _order(adapters, user, subject, "")
    return roll_back_intent(require_commits(adapters), order, instance, dry_run=True)


def adopt(
    adapters: ServerAdapters,
    user: User,
    subject: IntentSubject,
    reason: str,
    *,
    intent: Intent | None = None,
    content: str | None = None,
) -> CommitOutcome:
    """Put deployed services under an intent, unchanged; ``intent`` is the new one if there is no document.

    ``content`` is the digest of the content that the user has seen.
    """
    order = _order(adapters, user, subject, reason)
    return adopt_intent(require_commits(adapters), order, new=intent, content=content)


def preview_adoption(
    adapters: ServerAdapters, user: User, subject: IntentSubject, intent: Intent | None
) -> CommitOutcome:
    """Return what an adoption would commit; nothing is pushed."""
    order = _order(adapters, user, subject, "")
    return adopt_intent(require_commits(adapters), order, new=intent, dry_run=True)


def release(
    adapters: ServerAdapters, user: User, paths: Sequence[str], reason: str, *, contents: Collection[str] = ()
) -> CommitOutcome:
    """Deploy services that left the governance of their intent as the tree has them.

    ``contents`` are the digests of the contents that the user has seen; without any, all contents are released.
    """
    order = replace(_release_order(adapters, user, paths, reason), contents=contents)
    return release_services(require_commits(adapters), order)


def preview_release(adapters: ServerAdapters, user: User, paths: Sequence[str]) -> CommitOutcome:
    """Return what a release would commit; nothing is pushed."""
    order = _release_order(adapters, user, paths, "")
    return release_services(require_commits(adapters), order, dry_run=True)


def create(adapters: ServerAdapters, user: User, intent: Intent, reason: str) -> CommitOutcome:
    """Add the document of a new intent."""
    return create_intent(require_commits(adapters), _order(adapters, user, intent.subject, reason), intent)


def replace_document(adapters: ServerAdapters, user: User, intent: Intent, reason: str) -> CommitOutcome:
    """Change the description of an intent; its state and its approval stay unchanged."""
    return replace_intent(require_commits(adapters), _order(adapters, user, intent.subject, reason), intent)


def remove(adapters: ServerAdapters, user: User, subject: IntentSubject, reason: str) -> CommitOutcome:
    """Remove the document of an intent; refused while hosts still undeploy its last instance."""
    commits, order = require_commits(adapters), _order(adapters, user, subject, reason)
    record = adapters.feed.intent(subject)
    last = record.instances[-1] if record is not None and record.instances else None
    is_busy = last is not None and is_terminating(instance_resources(last, read_reports(adapters, last)))
    return remove_intent(commits, order, is_terminating=is_busy)


def _release_order(adapters: ServerAdapters, user: User, paths: Sequence[str], reason: str) -> ReleaseOrder:
    return ReleaseOrder(
        paths=paths,
        left=adapters.operator.intents.left(),
        author=require_commits(adapters).author(user.name),
        reason=sanitize(reason),
        permit=lambda path: check_right(user, ActKind.ACT_ON_INTENT, path),
        audit=ActAudit(adapters.operator.acts, user.name, reason),
    )


def _order(adapters: ServerAdapters, user: User, subject: IntentSubject, reason: str) -> IntentOrder:
    def permit(intent: Intent) -> None:
        check_right(user, ActKind.ACT_ON_INTENT, *intent_paths(intent))

    operator, author = adapters.operator, require_commits(adapters).author(user.name)
    deployed = operator.fleet.targets()
    reason = sanitize(reason)
    order = intent_order(operator, subject, author, reason, by=user.name, permit=permit)
    return replace(order, deployed=deployed)
