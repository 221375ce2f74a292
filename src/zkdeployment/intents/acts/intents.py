"""Acts on intents: commits that approve, instantiate, apply and terminate them, or change their documents.

The life cycle decides whether an act is permitted in the state at the tip of the branch. If the syncer refuses the
tip, acts may also start from the published state. Every function raises ``NotFoundError`` for an unknown subject,
``RefusedError`` if the state forbids the act or an earlier act on the subject is not published yet, and what
``TreeCommits.commit`` raises.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from zkdeployment.base.act import sanitize
from zkdeployment.base.errors import NotFoundError, RefusedError
from zkdeployment.base.text import listing
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.audit import ActAudit
from zkdeployment.intents.documents import (
    Approval,
    ClusterIntents,
    DeploymentIntentGroup,
    Intent,
    IntentState,
    IntentSubject,
    UpdateRule,
    intent_paths,
    subject_text,
)
from zkdeployment.intents.rules.approvals import (
    accepted_by_records,
    awaits_another_approver,
    cosigned,
    documented_instance,
    with_objections,
)
from zkdeployment.intents.rules.content import changed_keys
from zkdeployment.intents.rules.edits import (
    PlacedIntent,
    described_as,
    find_intent,
    restored_content,
    unpublished_act,
    with_description,
    with_new_intent,
    with_removed_intent,
    with_state,
    without_intent,
)
from zkdeployment.intents.rules.governance import governed_services
from zkdeployment.intents.rules.instances import (
    ACT_ON_INTENT,
    InstanceEvent,
    IntentAct,
    IntentEffect,
    IntentRecord,
    IntentRefusal,
    IntentSnapshot,
    LifeCycleStep,
    approved_event,
    perform,
    uncounted_approval,
)
from zkdeployment.intents.rules.revisions import is_refused, is_refused_update, starting_points
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.rules.review import check_change, review
from zkdeployment.publishing.section import ChangeBasis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.publication import LeftService, Targets
    from zkdeployment.base.source_files import Problem, SourceFile
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.intents.verification import ApprovalSigner
    from zkdeployment.publishing.section import ApprovalObjection, ApprovalVerifier
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.service.act import Actor
    from zkdeployment.service.dependencies import ServerAdapters


def require_seen(subject: str, found: str, *seen: str | None) -> None:
    """Raise ``RefusedError`` if the author has not ``seen`` the content with the digest ``found``.

    Without named digests, nothing is checked.
    """
    named = [digest for digest in seen if digest is not None]
    if named and found not in named:
        raise RefusedError(
            f"the content of {subject} changed after it was shown: expected {' or '.join(named)}, found {found};"
            " review it again, then approve it"
        )


#: The most services that a message names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class IntentAdapters:
    """The adapters of acts on intents.

    ``author`` is the author of the commits, by default the actor; ``sign`` signs approvals in the author's name.
    """

    operator: OperatorAdapters
    commits: TreeCommits
    author: Author | None = None
    sign: ApprovalSigner | None = None

    @classmethod
    def of_service(cls, adapters: ServerAdapters) -> Self:
        """Return the adapters of the service; raises ``RefusedError`` if it has no repository."""
        return cls(adapters.operator, adapters.require_commits())


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentOrder:
    """The request for an act on an intent, with its author and reason; ``sign`` signs its approval.

    ``record`` is the record of the intent in the last publication, ``None`` if it was never published. ``permit``
    raises an error if the author may not act on some paths: those of the intent in the branch, of its replacement,
    and of restored nodes. ``left`` are the services that left the governance of their intents, ``deployed`` the
    published targets. ``published`` is the published revision, ``refused`` are the revisions that the syncer
    refused. ``audit`` records the act.
    """

    subject: IntentSubject
    author: Author
    record: IntentRecord | None
    reason: str = ""
    permit: Callable[..., None] = lambda *_paths: None
    left: Sequence[LeftService] = ()
    deployed: Targets | None = None
    published: Revision | None = None
    refused: frozenset[Revision] = frozenset()
    audit: ActAudit | None = None
    sign: ApprovalSigner | None = None

    def is_refused(self, branch: BranchSnapshot, tip: IntentSnapshot | None) -> bool:
        """Whether the syncer refuses the tip of the branch, in which the intent is ``tip``."""
        return branch.tip in self.refused or is_refused(self.record, tip)


def order_of(adapters: IntentAdapters, actor: Actor, subject: IntentSubject, reason: str) -> IntentOrder:
    """Return the order of an act on an intent, with the state of the last publication."""
    operator, fleet, reason = adapters.operator, adapters.operator.fleet, sanitize(reason)
    return IntentOrder(
        subject=subject,
        author=adapters.author or adapters.commits.author(actor.name),
        record=operator.of(ZooKeeperIntents).record(subject),
        reason=reason,
        permit=partial(actor.require, ACT_ON_INTENT),
        left=fleet.left(),
        deployed=fleet.targets(),
        published=fleet.published().revision,
        refused=frozenset(refusal.revision for refusal in fleet.refusals()),
        audit=ActAudit(operator.acts, actor.name, reason),
        sign=adapters.sign,
    )


def approve_intent(
    commits: TreeCommits,
    order: IntentOrder,
    *,
    content: str | None = None,
    dry_run: bool = False,
) -> CommitOutcome:
    """Write the approval of the content at the tip into the document of a group.

    ``content`` is the digest of the content that the approver has seen; any other content is refused. A dry run
    needs no signature. If several people have to approve, the act adds a signature to the approval of this
    content.
    """

    def compute(branch: BranchSnapshot) -> FileChanges:
        placed = _find(commits, branch, order)
        step = _approval_step(placed.snapshot, branch, order)
        digest = placed.snapshot.content.digest
        require_seen(subject_text(order.subject), digest, content)
        if IntentEffect.WRITE_APPROVAL not in step.effects:
            return _message({}, IntentAct.APPROVE, order)
        _require_published(placed.snapshot, branch, order, corrects=True)
        approval = _next_approval(commits, placed.snapshot, step.state or IntentState.APPROVED, order)
        if not dry_run:
            _require_counted(commits.approvals, placed.snapshot, approval, branch.tip, IntentAct.APPROVE)
        return _message(_written(placed, step, approval), IntentAct.APPROVE, order)

    return _commit(commits, order, compute, IntentAct.APPROVE.value, dry_run=dry_run)


def replaced_approvals(commits: TreeCommits, record: IntentRecord | None, approved: IntentSnapshot) -> str | None:
    """Return why the published approvals of the content that was ``approved`` now counted no longer, if so."""
    former = None if record is None else record.snapshot
    if commits.approvals is None or former is None or former.intent.state is not IntentState.APPROVED:
        return None
    is_same = former.intent.approval is not None and former.intent.approval.content == approved.content.digest
    return commits.approvals.expiry(former) if is_same else None


def approve_files(files: Sequence[SourceFile], order: IntentOrder) -> dict[str, bytes | None]:
    """Return the changed files after the approval of their content, before they are pushed.

    In this way an instantiated group with ``update: approve`` gets the approval of its new content in the same
    change. A signed approval replaces one without a signature.
    """
    placed = _find_in_files(files, order)
    snapshot = placed.snapshot
    intent = snapshot.intent
    former = intent.approval
    if former is not None and former.signature is None and order.sign is not None:
        snapshot = replace(snapshot, objection="it has no signature")
    is_signed = former is not None and former.signature is not None and snapshot.is_approved
    if former is not None and is_signed and order.sign is not None and intent.state is not IntentState.TERMINATED:
        further = _cosigned(former, order, order.sign)
        return {} if further is None else with_state(placed, intent.state, further)
    state = IntentState.INSTANTIATED if intent.state.is_active else IntentState.APPROVED
    approval = _approval(snapshot, state, order)
    if (
        isinstance(intent, DeploymentIntentGroup)
        and intent.update is UpdateRule.APPROVE
        and intent.state.is_active
    ):
        if snapshot.is_approved:
            return {}
        approved = replace(snapshot, intent=replace(intent, approval=approval), objection=None)
        step = _step(snapshot, IntentAct.UPDATE, order, changed=approved)
    else:
        step = _step(snapshot, IntentAct.APPROVE, order)
    return _written(placed, step, approval) if step.effects else {}


def adopt_intent(
    commits: TreeCommits,
    order: IntentOrder,
    *,
    new: Intent | None = None,
    content: str | None = None,
    dry_run: bool = False,
) -> CommitOutcome:
    """Take over deployed services unchanged: approve the content at the tip, and instantiate it, in one commit.

    Services that the tip changes, or that are not deployed, are refused. ``new`` is the intent if the branch does
    not have its document yet. ``content`` is the digest of the content that the author has seen. Raises
    ``RefusedError`` if approvals need a signature and this one does not count.
    """

    def compute(branch: BranchSnapshot) -> FileChanges:
        added = {} if new is None else with_new_intent(branch.files, new)
        files = FileChanges(added, "").apply(branch.files)
        placed = find_intent(files, order.subject)
        order.permit(*intent_paths(placed.intent))
        require_seen(subject_text(order.subject), placed.snapshot.content.digest, content)
        _require_published(placed.snapshot, branch, order, corrects=True)
        _require_deployed(files, placed.intent, order.deployed or {})
        adopted = _adopted(placed, order)
        if not dry_run:
            intent = find_intent(FileChanges(adopted, "").apply(files), order.subject).intent
            _require_counted(commits.approvals, placed.snapshot, intent.approval, branch.tip, IntentAct.ADOPT)
        return _message(added | adopted, IntentAct.ADOPT, order)

    return _commit(commits, order, compute, IntentAct.ADOPT.value, dry_run=dry_run)


def adopt_files(files: Sequence[SourceFile], order: IntentOrder) -> dict[str, bytes | None]:
    """Return the changed files after the adoption of their intent, before they are pushed."""
    return _adopted(_find_in_files(files, order), order)


def _find_in_files(files: Sequence[SourceFile], order: IntentOrder) -> PlacedIntent:
    """Return the intent in files; raises ``RefusedError`` if its approval is signed and the order is not."""
    placed = find_intent(files, order.subject, place="in these files")
    former = placed.intent.approval
    if former is not None and former.signature is not None and order.sign is None:
        name = subject_text(order.subject)
        raise RefusedError(f"the approval of {name} in these files is signed; sign yours, too, with --key FILE")
    return placed


def _require_deployed(files: Sequence[SourceFile], intent: Intent, deployed: Targets) -> None:
    """Raise ``RefusedError`` if the adoption of an intent would change anything on hosts."""
    whole = review(files).compilation.whole
    services = governed_services([intent], whole)[intent.subject]
    changed = [one.key for one in services if one.assignment not in deployed.get(one.target, ())]
    if changed:
        named = listing([f"{path} for {target}" for path, target in changed], _NAMED)
        raise RefusedError(
            f"{subject_text(intent.subject)} cannot adopt services that are not deployed as the tip of the branch"
            f" has them: {named}; publish them first, or approve and instantiate the intent"
        )


def _adopted(placed: PlacedIntent, order: IntentOrder) -> dict[str, bytes | None]:
    step = _step(placed.snapshot, IntentAct.ADOPT, order)
    if step.state is None or isinstance(placed.intent, ClusterIntents):
        return with_state(placed, IntentState.APPLIED)
    return with_state(placed, step.state, _approval(placed.snapshot, step.state, order))


def roll_back_intent(
    commits: TreeCommits,
    order: IntentOrder,
    instance: int,
    *,
    dry_run: bool = False,
) -> CommitOutcome:
    """Restore and approve the content that an instance of a group had, in one commit.

    The group becomes Approved. An instantiated group with ``update: approve`` is updated in place. Raises
    ``NotFoundError`` for an unknown instance, and ``RefusedError`` if its content cannot be restored alone, or if
    the approval has no valid signature. Another person has to approve the new commit if the author also signed it.
    A dry run needs no signature.
    """

    def compute(branch: BranchSnapshot) -> FileChanges:
        placed = _find(commits, branch, order)
        event = _approved_event(order, instance)
        update = placed.intent.update is UpdateRule.APPROVE and placed.intent.state.is_active
        state = IntentState.INSTANTIATED if update else IntentState.APPROVED
        if not update:
            _step_at(placed.snapshot, IntentAct.APPROVE, branch, order)
        _require_published(placed.snapshot, branch, order, corrects=True)
        subject = _subject(f"Roll back to instance {instance} of", order)
        if placed.snapshot.is_approved and placed.snapshot.content.digest == event.content:
            return FileChanges({}, subject)
        past = commits.files(event.revision)
        files, changed = restored_content(branch.files, past, order.subject, event.content)
        restored = find_intent(FileChanges(files, "").apply(branch.files), order.subject)
        order.permit(*intent_paths(restored.intent), *sorted(changed))
        runs = update and restored.snapshot.is_approved  # the running content keeps its approval
        approval = None if runs else _approval(restored.snapshot, state, order)
        return FileChanges(files | with_state(restored, state, approval), subject)

    def require(before: Sequence[SourceFile], after: Sequence[SourceFile], objection: ApprovalObjection) -> None:
        if dry_run or objection is None:
            return
        former, restored = (find_intent(files, order.subject).snapshot for files in (before, after))
        approval, name = restored.intent.approval, subject_text(order.subject)
        if approval == former.intent.approval:
            return
        reason = _objection(objection.verifier, restored, approval, objection.commit)
        if reason is not None and not awaits_another_approver(reason):
            raise RefusedError(
                f"{name} is not rolled back: the approval would not count: {reason}; an approver uses"
                f" 'zkdeployment intent rollback {name} --instance {instance} --key FILE' at a terminal"
            )

    what = f"rollback to instance {instance} of"
    return _commit(commits, order, compute, what, dry_run=dry_run, require=require)


def _approved_event(order: IntentOrder, instance: int) -> InstanceEvent:
    """Return the event with the last approved content of an instance; raises ``NotFoundError``."""
    instances = () if order.record is None else order.record.instances
    events = next((one.events for one in instances if one.id == instance), None)
    if events is not None:
        return approved_event(instance, events)
    known = ", ".join(str(one.id) for one in instances) or "none"
    raise NotFoundError(
        f"{subject_text(order.subject)} has no instance {instance}: expected one of those that 'zkdeployment"
        f" intent history' shows ({known})"
    )


def change_state(
    commits: TreeCommits, order: IntentOrder, act: IntentAct, *, dry_run: bool = False
) -> CommitOutcome:
    """Instantiate, apply or terminate an intent.

    The termination of a deployed intent restores its document if the tip lacks it.
    """

    def compute(branch: BranchSnapshot) -> FileChanges:
        removed = order.record if act is IntentAct.TERMINATE else None
        is_deployed = removed is not None and removed.intent.state.is_active
        back = with_removed_intent(branch.files, removed.intent) if removed is not None and is_deployed else {}
        found = replace(branch, files=FileChanges(back, "").apply(branch.files))
        placed = _find(commits, found, order)
        step = _step_at(placed.snapshot, act, branch, order)
        _require_published(placed.snapshot, branch, order, corrects=True)
        return _message(back | _written(placed, step), act, order)

    return _commit(commits, order, compute, act.value, dry_run=dry_run)


def create_intent(
    commits: TreeCommits, order: IntentOrder, intent: Intent, *, dry_run: bool = False
) -> CommitOutcome:
    """Add the document of a new intent, in a file of its own; the intent is Created, with any given state."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        order.permit(*intent_paths(intent))
        files = with_new_intent(branch.files, intent)
        _require_published(None, branch, order)
        return FileChanges(files, _subject("Create", order))

    return _commit(commits, order, compute, "create", dry_run=dry_run)


def replace_intent(
    commits: TreeCommits, order: IntentOrder, intent: Intent, *, dry_run: bool = False
) -> CommitOutcome:
    """Change the description of an intent; its state and its approval stay unchanged."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        placed = _find(commits, branch, order)
        order.permit(*intent_paths(intent))
        wanted = described_as(placed.intent, intent)
        files = with_description(placed, wanted)
        if files:
            _require_modifiable(branch.files, placed, files)
            _require_published(placed.snapshot, branch, order)
        return FileChanges(files, _subject("Change", order))

    return _commit(commits, order, compute, "change", dry_run=dry_run)


def remove_intent(
    commits: TreeCommits, order: IntentOrder, *, is_terminating: bool, dry_run: bool = False
) -> CommitOutcome:
    """Remove the document of an intent; ``is_terminating`` is whether hosts still undeploy its last instance."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        placed = _find(commits, branch, order)
        _step(placed.snapshot, IntentAct.REMOVE, order, is_terminating=is_terminating)
        _require_published(placed.snapshot, branch, order)
        return FileChanges(without_intent(placed), _subject("Remove", order))

    return _commit(commits, order, compute, "remove", dry_run=dry_run)


def _find(commits: TreeCommits, branch: BranchSnapshot, order: IntentOrder) -> PlacedIntent:
    """Return the intent at the tip of the branch, with the objection to its approval if approvals are verified.

    Raises ``NotFoundError``, and what ``order.permit`` raises.
    """
    placed = find_intent(branch.files, order.subject, hint=_removal_hint(order.record))
    order.permit(*intent_paths(placed.intent))
    verifier, subject = commits.approvals, order.subject
    if verifier is None:
        return placed
    objection = partial(verifier.objection, revision=branch.tip)
    last = documented_instance(placed.snapshot)
    if last is None and order.record is not None:
        last = documented_instance(order.record.snapshot)
    is_accepted = accepted_by_records(_known(order))
    instances = {} if last is None else {subject: last}
    verified = with_objections({subject: placed.snapshot}, objection, is_accepted, instances, verifier.expiry)
    return replace(placed, snapshot=verified[subject])


def _removal_hint(record: IntentRecord | None) -> str:
    """Return a hint how to restore the document of a deployed intent; empty if it has no deployed service."""
    if record is None or not record.intent.state.is_active:
        return ""
    subject = subject_text(record.intent.subject)
    return (
        f"; it is {record.intent.state.value}, and its document was removed:"
        f" 'zkdeployment intent terminate {subject}' brings the document back"
    )


def _known(order: IntentOrder) -> dict[IntentSubject, IntentRecord]:
    return {} if order.record is None else {order.subject: order.record}


def _require_counted(
    verifier: ApprovalVerifier | None,
    snapshot: IntentSnapshot,
    approval: Approval | None,
    revision: Revision,
    act: IntentAct,
) -> None:
    """Raise ``RefusedError`` if the approval of the content in a revision by an act does not count."""
    objection = _objection(verifier, snapshot, approval, revision)
    if objection is not None:
        reason = uncounted_approval(snapshot.intent, objection, act)
        raise RefusedError(f"{subject_text(snapshot.intent.subject)} is not approved: {reason}")


def _objection(
    verifier: ApprovalVerifier | None, snapshot: IntentSnapshot, approval: Approval | None, revision: Revision
) -> str | None:
    """Return why a new approval of the content in a revision does not count.

    ``None`` if it counts, or only lacks approvals of other people.
    """
    if verifier is None or approval is None or not isinstance(snapshot.intent, DeploymentIntentGroup):
        return None
    approved = replace(snapshot, intent=replace(snapshot.intent, approval=approval))
    objection = verifier.objection(approved, revision)
    return None if objection == verifier.missing(approved) else objection


def _commit(
    commits: TreeCommits,
    order: IntentOrder,
    compute: Callable[[BranchSnapshot], FileChanges],
    what: str,
    *,
    dry_run: bool,
    require: Callable[[Sequence[SourceFile], Sequence[SourceFile], ApprovalObjection], None] = lambda *_: None,
) -> CommitOutcome:
    """Commit an act, and record it in the audit as ``what``.

    ``require`` raises an error if the act must not change the files to those in the new commit.
    """
    revision = order.published
    basis = ChangeBasis(
        known=_known(order),
        left=order.left,
        deployed=order.deployed,
        files=None if revision is None else partial(commits.files, revision),
    )

    def check(
        before: Sequence[SourceFile], after: Sequence[SourceFile], objection: ApprovalObjection
    ) -> Iterable[Problem]:
        require(before, after, objection)
        return check_change(before, after, objection, basis=basis)

    outcome = commits.commit(CommitOrder(author=order.author, compute=compute, check=check), dry_run=dry_run)
    if order.audit is not None:
        order.audit.record(f"intent {what} {subject_text(order.subject)}", outcome)
    return outcome


def _approval(snapshot: IntentSnapshot, state: IntentState, order: IntentOrder) -> Approval:
    """Return the approval of the content of an intent, for a new or the running instance, in a state."""
    approval = Approval(snapshot.content.digest, order.author.email, order.reason)
    if order.sign is None:
        return approval
    last = [0 if one is None else one.instance for one in _approvals(snapshot, order)]
    return order.sign(order.subject, replace(approval, state=state.value, instance=max(last)))


def _next_approval(
    commits: TreeCommits,
    snapshot: IntentSnapshot,
    state: IntentState,
    order: IntentOrder,
) -> Approval:
    """Return the approval of an intent, with the former signatures if these only lack another person's.

    Former signatures that have expired are replaced.
    """
    verifier, former, missing = commits.approvals, snapshot.intent.approval, snapshot.objection
    if (
        verifier is None
        or order.sign is None
        or former is None
        or missing is None
        or missing != verifier.missing(snapshot)
        or verifier.expiry(snapshot) is not None
    ):
        return _approval(snapshot, state, order)
    approved = _cosigned(former, order, order.sign)
    if approved is None:
        raise RefusedError(f"this person has approved {subject_text(order.subject)} already: {missing}")
    return approved


def _cosigned(former: Approval, order: IntentOrder, sign: ApprovalSigner) -> Approval | None:
    """Return an approval with the signature of another person; ``None`` if this person already signed it."""
    signed = sign(order.subject, replace(former, by=order.author.email, reason=order.reason, also=()))
    return cosigned(former, signed)


def _approvals(snapshot: IntentSnapshot, order: IntentOrder) -> Iterator[Approval | None]:
    yield snapshot.intent.approval
    yield None if order.record is None else order.record.intent.approval


def _approval_step(tip: IntentSnapshot, branch: BranchSnapshot, order: IntentOrder) -> LifeCycleStep:
    """Return the life cycle step of an approval; raises ``RefusedError``.

    On a refused tip, an update in place may be approved afterwards.
    """
    if order.is_refused(branch, tip) and is_refused_update(order.record, tip):
        return LifeCycleStep(tip.intent.state, frozenset({IntentEffect.WRITE_APPROVAL}))
    return _step_at(tip, IntentAct.APPROVE, branch, order)


def _step_at(tip: IntentSnapshot, act: IntentAct, branch: BranchSnapshot, order: IntentOrder) -> LifeCycleStep:
    """Return the step of an act from the first state from which it may start; raises ``RefusedError``."""
    first, *others = starting_points(order.record, tip) if order.is_refused(branch, tip) else (tip,)
    try:
        return _step(first, act, order)
    except RefusedError:
        for other in others:
            step = perform(other, act)
            if isinstance(step, LifeCycleStep):
                return step
        raise


def _step(
    snapshot: IntentSnapshot,
    act: IntentAct,
    order: IntentOrder,
    *,
    changed: IntentSnapshot | None = None,
    is_terminating: bool = False,
) -> LifeCycleStep:
    """Return the step of an act; raises ``RefusedError`` with the changes since the approval, if there are any."""
    approved = None if order.record is None else order.record.approved_before(snapshot)
    outcome = perform(snapshot, act, changed=changed, is_terminating=is_terminating, approved=approved)
    if isinstance(outcome, IntentRefusal):
        keys = () if approved is None or not outcome.paths else changed_keys(approved, snapshot.content)
        raise RefusedError(str(replace(outcome, paths=(*keys, *outcome.paths))))
    return outcome


def _require_modifiable(
    files: Sequence[SourceFile], placed: PlacedIntent, changed: dict[str, bytes | None]
) -> None:
    """Raise ``RefusedError`` if the state of an intent forbids the change of its document."""
    after = find_intent(FileChanges(changed, "").apply(files), placed.intent.subject).snapshot
    before = placed.snapshot
    is_update = before.intent.update is after.intent.update is UpdateRule.APPROVE
    act = IntentAct.UPDATE if is_update and before.state.is_active else IntentAct.MODIFY
    outcome = perform(before, act, changed=after)
    if isinstance(outcome, IntentRefusal):
        raise RefusedError(str(replace(outcome, paths=changed_keys(before.content, after.content))))


def _require_published(
    tip: IntentSnapshot | None, branch: BranchSnapshot, order: IntentOrder, *, corrects: bool = False
) -> None:
    """Raise ``RefusedError`` if an earlier act on the intent is not published.

    Acts that correct a refused tip never wait.
    """
    published = None if order.record is None else order.record.intent
    reason = unpublished_act(order.subject, None if tip is None else tip.intent, published)
    if reason is None:
        return
    if not order.is_refused(branch, tip):
        raise RefusedError(f"{reason}; wait until the tip is published, then try again")
    if not corrects:
        raise RefusedError(f"{reason}; the syncer refuses the tip: approve or terminate the intent first")


def _written(
    placed: PlacedIntent, step: LifeCycleStep, approval: Approval | None = None
) -> dict[str, bytes | None]:
    return {} if step.state is None else with_state(placed, step.state, approval)


def _message(files: dict[str, bytes | None], act: IntentAct, order: IntentOrder) -> FileChanges:
    return FileChanges(files, _subject(act.value.capitalize(), order))


def _subject(verb: str, order: IntentOrder) -> str:
    """Return the first line of the commit message."""
    return f"{verb} {subject_text(order.subject)}" + (f": {order.reason}" if order.reason else "")
