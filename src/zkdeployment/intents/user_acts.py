"""The acts of users on intents: their forms with a preview, their operations, and their commits.

Each act raises ``ForbiddenError`` if the paths of the user do not permit it, ``NotFoundError`` for an unknown
intent, and ``RefusedError`` if the state of the intent forbids it or the service has no repository.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from zkdeployment.base.act import Act, sanitize
from zkdeployment.base.cluster import short
from zkdeployment.base.errors import ConfigurationError, NotFoundError, TreeError
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.store.audit import ActAudit
from zkdeployment.intents.acts.governance import ReleaseOrder, release_services
from zkdeployment.intents.acts.intents import (
    IntentAdapters,
    IntentOrder,
    adopt_intent,
    approve_intent,
    change_state,
    order_of,
    roll_back_intent,
)
from zkdeployment.intents.documents import (
    DIGEST,
    ClusterIntents,
    DeploymentIntentGroup,
    Intent,
    IntentState,
    IntentSubject,
    UpdateRule,
    intent_of_document,
    intent_paths,
    parse_subject,
    subject_text,
)
from zkdeployment.intents.feed import record_of, reports_of
from zkdeployment.intents.rules.content import service_content
from zkdeployment.intents.rules.edits import find_intent, with_state
from zkdeployment.intents.rules.instances import (
    ACT_ON_INTENT,
    IntentAct,
    IntentInstance,
    IntentRecord,
    IntentRefusal,
    IntentSnapshot,
    perform,
    signature_hint,
)
from zkdeployment.intents.rules.listing import (
    ListedIntent,
    compare_before_approval,
    find_listed_intent,
    listed_intents,
)
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.publishing.acts.commits import CommitOutcome, FileChanges
from zkdeployment.publishing.rules.review import review
from zkdeployment.service.act import (
    UNCHANGED,
    ActForm,
    Actor,
    CommitReference,
    FormAct,
    PlannedAct,
    Snapshot,
    Visit,
    given,
)
from zkdeployment.service.users.user import User, act_refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.base.publication import LeftService
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.intents.rules.approvals import ApprovalRule
    from zkdeployment.intents.rules.reality import FleetReports
    from zkdeployment.intents.views.page import OfferedAct
    from zkdeployment.service.dependencies import ServerAdapters
    from zkdeployment.service.planner import RevisionPlanner
    from zkdeployment.service.views.plan import PlanView


def approvals_are_signed(adapters: ServerAdapters) -> bool:
    """Return whether approvals need a signature, which an approver makes at a terminal."""
    return adapters.commits is not None and adapters.commits.approvals is not None


def rules_in_force(adapters: ServerAdapters) -> Sequence[ApprovalRule] | None:
    """Return the rules of approvals, ``None`` without rules; raises ``ConfigurationError``."""
    verifier = None if adapters.commits is None else adapters.commits.approvals
    return None if verifier is None else verifier.rules_in_force()


def listed_intent(planner: RevisionPlanner, adapters: ServerAdapters, subject: IntentSubject) -> ListedIntent:
    """Return the published form of an intent and, if the service has a repository, the form at the tip.

    Raises ``NotFoundError`` if neither has it, ``SourceError`` if the repository cannot be read, and
    ``ConfigurationError`` if the rules of approvals cannot.
    """
    record = record_of(adapters.feed, subject)
    tip: Mapping[IntentSubject, IntentSnapshot] = {}
    if adapters.commits is not None:
        with planner.place():
            reviewed = review(adapters.commits.at_tip()[1])
            tip = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    records = () if record is None else (record,)
    return find_listed_intent(listed_intents(records, tip, rules_in_force(adapters)), subject)


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


#: The last consequence of each act on an intent.
COMMITTED = "The act is a commit on the branch. It takes effect when the syncer publishes that commit."

_NO_INSTANCE = "There is no such instance: expected one that the page of the intent lists."
_APPROVED = "The content at the tip of the branch is approved already."


class _CommittingAct(FormAct[Snapshot, IntentAdapters]):
    """An act that is a commit; ``commit`` makes the commit, or only shows it."""

    RIGHT = ACT_ON_INTENT
    REQUEST = "An act that needs no reason."
    NEEDS_REASON = False
    NEEDS_BODY = False
    ANSWER = CommitReference
    ROUTE = {"status_code": 202}

    @classmethod
    def served(cls, visit: Visit) -> IntentAdapters:
        return IntentAdapters.of_service(visit.adapters)

    def perform(self, adapters: IntentAdapters, actor: Actor) -> CommitOutcome:
        return self.commit(adapters, actor)

    def rehearse(self, visit: Visit) -> CommitOutcome:
        """Return the outcome that the act would have."""
        return self.commit(self.served(visit), visit.actor, dry_run=True)

    @abstractmethod
    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        """Make the commit; ``dry_run`` computes the files and commits nothing."""

    @classmethod
    def answer(cls, outcome: CommitOutcome) -> CommitReference:
        return CommitReference(outcome.commit or "")

    def page_after(self, outcome: CommitOutcome, back: str) -> str:
        from zkdeployment.service.views.frame import with_job  # noqa: PLC0415  verbs need no form

        return with_job(back, outcome.commit or "")


@dataclass(frozen=True, slots=True)
class PublishedIntent:
    """A published intent, and whether approvals need a signature, which no page can make."""

    record: IntentRecord
    signed: bool


@dataclass(frozen=True, kw_only=True)
class _ActOnIntent(_CommittingAct[PublishedIntent]):
    subject: IntentSubject

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        return cls(
            subject=tuple(values.get("subject", "").split("/")),
            reason=sanitize(values.get("reason", "")),
            **cls.further_fields(values),
        )

    @classmethod
    def further_fields(cls, values: Mapping[str, str]) -> dict[str, Any]:
        """Return the fields of the act besides the subject and the reason."""
        return {}

    def order(self, adapters: IntentAdapters, actor: Actor) -> IntentOrder:
        """Return the order of the act."""
        return order_of(adapters, actor, self.subject, self.reason)

    def read(self, visit: Visit) -> PublishedIntent:
        return PublishedIntent(find_record(visit.adapters, self.subject), approvals_are_signed(visit.adapters))

    def concerned(self, found: PublishedIntent) -> tuple[str, ...]:
        return intent_paths(found.record.intent)

    def situation(self, found: PublishedIntent, visit: Visit) -> str:
        tip = _listed(self.subject, visit).snapshot
        content = short(tip.content.digest.removeprefix("sha256:"))
        return f"{subject_text(self.subject)} is {tip.state.value} at the tip, with the content {content}"

    def form(self, found: PublishedIntent) -> ActForm:
        return replace(super().form(found), fields=(("subject", subject_text(self.subject)),))


class _ChangeState(_ActOnIntent):
    ACT: ClassVar[IntentAct]

    def title(self, found: PublishedIntent) -> str:
        return f"{self.BUTTON} {subject_text(self.subject)}"

    def objection(self, found: PublishedIntent) -> str:
        """Return why the act is not possible in the published state of the intent.

        Whether a change in place can be approved depends on the tip of the branch, which this method does not
        read.
        """
        record = found.record
        outcome = perform(record.snapshot, self.ACT, approved=record.approved)
        if isinstance(outcome, IntentRefusal) and not (self.ACT is IntentAct.APPROVE and _is_update(record)):
            return str(outcome)
        return signature_hint(self.subject) if found.signed and self.ACT is IntentAct.APPROVE else ""

    def consequences(self, found: PublishedIntent) -> tuple[str, ...]:
        return (
            f"The governed services are deployed as a new instance: {', '.join(self.concerned(found))}.",
            "Until it is terminated, neither the document nor the content can change.",
            COMMITTED,
        )

    def preview(self, found: PublishedIntent, form: ActForm, visit: Visit) -> ActForm:
        return replace(form, plan=_plan(visit, self.rehearse(visit).files))

    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        return change_state(adapters.commits, self.order(adapters, actor), self.ACT, dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class ApproveIntent(_ChangeState):
    """Approve the content that a group has at the tip of the branch; the request may have no body."""

    NAME = "intent-approve"
    BUTTON = "Approve"
    ROUTE = {"status_code": 202, "responses": UNCHANGED}
    OPERATION = "approve_group"
    REQUEST = "An approval; with ``content``, only the content with this digest is approved."
    ACT = IntentAct.APPROVE

    content: str | None = given(None, pattern=DIGEST)

    @classmethod
    def further_fields(cls, values: Mapping[str, str]) -> dict[str, Any]:
        return {"content": values.get("content") or None}

    def situation(self, found: PublishedIntent, visit: Visit) -> str:
        return ""  # the act compares the content that the form showed by itself

    def consequences(self, found: PublishedIntent) -> tuple[str, ...]:
        if found.record.state.is_active:
            effect = "Hosts deploy the change in place when the syncer publishes it with the approval."
        else:
            effect = (
                "Nothing is deployed before the group is instantiated. A change of the content ends the approval."
            )
        return effect, COMMITTED

    def preview(self, found: PublishedIntent, form: ActForm, visit: Visit) -> ActForm:
        tip = _listed(self.subject, visit).snapshot
        if tip.is_approved and tip.state is not IntentState.TERMINATED:
            return replace(form, objection=_APPROVED)
        outcome = replace(self, content=None).rehearse(visit)
        return _with_content(form, found.record, self.subject, outcome.files, visit)

    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        order = self.order(adapters, actor)
        return approve_intent(adapters.commits, order, content=self.content, dry_run=dry_run)


class InstantiateIntent(_ChangeState):
    """Deploy the services of an approved group, as a new instance."""

    NAME = "intent-instantiate"
    BUTTON = "Instantiate"
    OPERATION = "instantiate_group"
    ACT = IntentAct.INSTANTIATE


class ApplyIntent(_ChangeState):
    """Deploy the network intents of a cluster, as a new instance."""

    NAME = "intent-apply"
    BUTTON = "Apply"
    OPERATION = "apply_cluster"
    ACT = IntentAct.APPLY


class TerminateIntent(_ChangeState):
    """Undeploy the services of an instantiated group."""

    NAME = "intent-terminate"
    BUTTON = "Terminate"
    STYLE = "danger"
    OPERATION = "terminate_group"
    ACT = IntentAct.TERMINATE

    def consequences(self, found: PublishedIntent) -> tuple[str, ...]:
        return (
            "All hosts undeploy the governed services. Other services of these hosts stay.",
            f"Governed are {', '.join(self.concerned(found))}.",
            COMMITTED,
        )


@dataclass(frozen=True, kw_only=True)
class RollBackIntent(_ActOnIntent):
    """Restore and approve the content that an instance of a group had."""

    NAME = "intent-rollback"
    BUTTON = "Roll back"
    STYLE = "danger"
    ROUTE = {"status_code": 202, "responses": UNCHANGED}
    OPERATION = "roll_back_group"
    REQUEST = "A rollback to the content that an instance had."
    NEEDS_REASON = True
    NEEDS_BODY = True

    instance: int = given(least=1, most=2**53)

    @classmethod
    def further_fields(cls, values: Mapping[str, str]) -> dict[str, Any]:
        number = values.get("instance", "")
        known = number.isascii() and number.isdecimal() and len(number) < len(str(2**53))
        return {"instance": int(number) if known and str(int(number)) == number else 0}

    def _instance(self, found: PublishedIntent) -> int:
        return self.instance if self.instance in {one.id for one in found.record.instances} else 0

    def title(self, found: PublishedIntent) -> str:
        return f"Roll {subject_text(self.subject)} back to instance {self._instance(found)}"

    def objection(self, found: PublishedIntent) -> str:
        instance = self._instance(found)
        if not instance:
            return _NO_INSTANCE
        command = f"zkdeployment intent rollback {subject_text(self.subject)} --instance {instance} --key FILE"
        return f"this fleet needs signed approvals; use '{command}' at a terminal" if found.signed else ""

    def consequences(self, found: PublishedIntent) -> tuple[str, ...]:
        update = _is_update(found.record)
        effect = "Hosts deploy it in place." if update else "Nothing is deployed before the group is instantiated."
        return (
            f"The apps, profile and nodes of instance {self._instance(found)} are restored. {effect}",
            COMMITTED,
        )

    def form(self, found: PublishedIntent) -> ActForm:
        form = super().form(found)
        return replace(form, fields=(*form.fields, ("instance", str(self._instance(found)))))

    def preview(self, found: PublishedIntent, form: ActForm, visit: Visit) -> ActForm:
        outcome = self.rehearse(visit)
        if not outcome.changed:
            return replace(form, objection=_APPROVED)
        return _with_content(form, found.record, self.subject, outcome.files, visit)

    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        order = self.order(adapters, actor)
        return roll_back_intent(adapters.commits, order, self.instance, dry_run=dry_run)


def _listed(subject: IntentSubject, visit: Visit) -> ListedIntent:
    return listed_intent(visit.state.planner, visit.adapters, subject)


def _is_update(record: IntentRecord) -> bool:
    """Return whether approvals of an intent change its deployments."""
    return record.state.is_active and record.intent.update is UpdateRule.APPROVE


#: The fields of a form that describe a new intent.
_DESCRIPTION = ("apps", "profile")


@dataclass(frozen=True, kw_only=True)
class AdoptServices(_CommittingAct[Intent]):
    """Put deployed services under a group whose document the branch has, without a change on hosts."""

    NAME = "intent-adopt"
    BUTTON = "Adopt"
    OPERATION = "adopt_group"

    subject: IntentSubject
    new: Intent | None = None  # if the branch has no document of it yet
    content: str | None = None
    #: The fields of the form that describe a new intent.
    description: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        """Return the adoption; raises ``ConfigurationError`` if the description of the new intent is not valid."""
        visit.adapters.require_commits()
        subject = parse_subject(values.get("subject", "").strip())
        return cls(
            subject=subject,
            reason=sanitize(values.get("reason", "")),
            new=requested_adoption(subject, values),
            content=values.get("content") or None,
            description={name: values[name] for name in _DESCRIPTION if values.get(name)},
        )

    def read(self, visit: Visit) -> Intent:
        intent: Intent = self.new or _listed(self.subject, visit).intent
        return intent

    def concerned(self, found: Intent) -> tuple[str, ...]:
        return intent_paths(found)

    def title(self, found: Intent) -> str:
        return f"Adopt the services of {subject_text(found.subject)}"

    def consequences(self, found: Intent) -> tuple[str, ...]:
        becomes = "Applied" if isinstance(found, ClusterIntents) else "Instantiated"
        return (
            f"The intent becomes {becomes}, and hosts change nothing.",
            "From now on, the services and the content do not change without an approval.",
            COMMITTED,
        )

    def form(self, found: Intent) -> ActForm:
        fields = (("subject", subject_text(found.subject)), *self.description.items())
        return replace(super().form(found), fields=fields)

    def preview(self, found: Intent, form: ActForm, visit: Visit) -> ActForm:
        outcome = replace(self, content=None).rehearse(visit)
        return _with_content(form, None, self.subject, outcome.files, visit)

    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        order = order_of(adapters, actor, self.subject, self.reason)
        return adopt_intent(adapters.commits, order, new=self.new, content=self.content, dry_run=dry_run)


def requested_adoption(subject: IntentSubject, values: Mapping[str, str]) -> Intent | None:
    """Return the new intent that a form describes; ``None`` if its document has to be on the branch.

    Raises ``ConfigurationError`` if the description is not valid.
    """
    text = values.get("apps", "").strip()
    if not text:
        return None
    apps: dict[str, list[str]] = {}
    for part in text.split():
        name, _, paths = part.partition("=")
        apps.setdefault(name, []).extend(paths.split(","))
    profile = values.get("profile", "").strip() or "default"
    is_cluster = len(subject) == len(ClusterIntents.METADATA)
    kind = ClusterIntents if is_cluster else DeploymentIntentGroup
    data = {"network-intents": apps} if is_cluster else {"composite-profile": profile, "apps": apps}
    document = {
        "schema": kind.SCHEMA,
        "metadata": dict(zip(kind.METADATA, subject, strict=True)),
        "data": {**data, "state": "Created"},
    }
    try:
        return intent_of_document(document)
    except ValueError as error:
        raise ConfigurationError(
            f"apps: {error}; expected APP=PATH[,PATH…], as in front=/p1/shop/front"
        ) from error


@dataclass(frozen=True, kw_only=True)
class ReleaseServices(_CommittingAct["tuple[LeftService, ...]"]):
    """Deploy services that left the governance of their intents as the tip of the branch has them."""

    NAME = "intent-release"
    BUTTON = "Release"
    STYLE = "danger"
    ROUTE = {"status_code": 202, "responses": UNCHANGED}
    OPERATION = "release_services"
    REQUEST = "The release of the services at these paths."
    NEEDS_REASON = True
    NEEDS_BODY = True

    paths: list[str] = given(least=1, most=1000, length=1000)
    contents: Collection[str] = ()

    @classmethod
    def of_form(cls, values: Mapping[str, str], visit: Visit) -> Self | None:
        return cls(
            paths=[values.get("path", "")],
            contents=values.get("contents", "").split(),
            reason=sanitize(values.get("reason", "")),
        )

    def read(self, visit: Visit) -> tuple[LeftService, ...]:
        """Return the left services at the path; raises ``NotFoundError`` if the path has not left governance."""
        (path,) = self.paths
        left = tuple(one for one in visit.adapters.feed.left() if one.path == path)
        if not left:
            raise NotFoundError(
                f"{path or 'no path'} is not among the services that left the governance of an intent"
            )
        return left

    def concerned(self, found: tuple[LeftService, ...]) -> tuple[str, ...]:
        return (found[0].path,)

    def title(self, found: tuple[LeftService, ...]) -> str:
        return f"Release {found[0].path}"

    def consequences(self, found: tuple[LeftService, ...]) -> tuple[str, ...]:
        return (
            *dict.fromkeys(
                f"It left the governance of {subject_text(one.former)} with {short(one.revision)}"
                f"{'' if one.target is None else f' for {one.target}'}, and"
                f" {'is not deployed' if one.is_withheld else 'stays as deployed'} until now."
                for one in found
            ),
            "Hosts deploy it as the tip of the branch has it, without an approval from now on.",
            COMMITTED,
        )

    def form(self, found: tuple[LeftService, ...]) -> ActForm:
        return replace(super().form(found), fields=(("path", found[0].path),))

    def preview(self, found: tuple[LeftService, ...], form: ActForm, visit: Visit) -> ActForm:
        from zkdeployment.intents.views.page import service_details  # noqa: PLC0415  verbs need no form

        outcome = replace(self, contents=()).rehearse(visit)
        if not outcome.changed:
            return replace(form, objection="It is released already; the syncer has not published that yet.")
        tree = review(outcome.files).linted.tree
        contents = {one.target: service_content(one.path, one.target, tree) for one in found}
        digests = " ".join(dict.fromkeys(content.digest for content in contents.values()))
        return replace(
            form,
            fields=(*form.fields, ("contents", digests)),
            details=tuple(service_details(contents)),
            plan=_plan(visit, outcome.files),
        )

    def commit(self, adapters: IntentAdapters, actor: Actor, *, dry_run: bool = False) -> CommitOutcome:
        order = ReleaseOrder(
            paths=self.paths,
            left=adapters.operator.fleet.left(),
            author=adapters.author or adapters.commits.author(actor.name),
            reason=sanitize(self.reason),
            permit=lambda path: actor.require(ACT_ON_INTENT, path),
            contents=self.contents,
            audit=ActAudit(adapters.operator.acts, actor.name, self.reason),
            sign=adapters.sign,
        )
        return release_services(adapters.commits, order, dry_run=dry_run)


@dataclass(frozen=True, kw_only=True)
class ResumeGroup(PlannedAct["OperatorAdapters"]):
    """End the stop of a group whose failures stop only the group."""

    RIGHT = ACT_ON_INTENT
    OPERATION = "resume_group"
    ADAPTERS = "operator"

    subject: IntentSubject

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        group = subject_text(self.subject)
        paths = intent_paths(adapters.of(ZooKeeperIntents).require(self.subject).intent)
        act = actor.record(self, f"intent resume {group}", *paths)
        adapters.cluster.resume_group(group, act)
        return act


#: The acts of groups and of clusters in the order of the life cycle.
_OF_GROUPS = (ApproveIntent, InstantiateIntent, TerminateIntent)
_OF_CLUSTERS = (ApplyIntent, TerminateIntent)

ACTS: tuple[type[PlannedAct[Any]], ...] = (
    *_OF_GROUPS,
    ApplyIntent,
    RollBackIntent,
    AdoptServices,
    ReleaseServices,
)


def offered_acts(record: IntentRecord, user: User, back: str, *, signed: bool) -> tuple[OfferedAct, ...]:
    """Return the acts on an intent, with the reasons why some are not possible now, or not for this user.

    ``signed`` is whether approvals need a signature.
    """
    from zkdeployment.intents.views.page import OfferedAct  # noqa: PLC0415  verbs need no form
    from zkdeployment.service.views.frame import act_page  # noqa: PLC0415  verbs need no form

    acts = _OF_CLUSTERS if isinstance(record.intent, ClusterIntents) else _OF_GROUPS
    subject, found = record.intent.subject, PublishedIntent(record, signed)
    forbidden = act_refusal(user, ACT_ON_INTENT, *intent_paths(record.intent))
    return tuple(
        OfferedAct(
            act.BUTTON,
            act_page(act.NAME, back, subject=subject_text(subject)),
            act.STYLE,
            objection=forbidden or act(subject=subject).objection(found),
        )
        for act in acts
    )


def _with_content(
    form: ActForm, record: IntentRecord | None, subject: IntentSubject, files: Sequence[SourceFile], visit: Visit
) -> ActForm:
    """Return a form with the content that it approves, the changes of the content, and the plan of hosts."""
    from zkdeployment.intents.views.page import content_details, with_approved_content  # noqa: PLC0415  verbs need no form

    placed = find_intent(files, subject)
    instantiated = files
    if not placed.intent.state.is_active:
        changes = with_state(placed, IntentState.INSTANTIATED)
        instantiated = FileChanges(changes, "").apply(files)
    details = content_details(compare_before_approval(record, placed.snapshot))
    return replace(
        with_approved_content(form, placed.snapshot), details=tuple(details), plan=_plan(visit, instantiated)
    )


def _plan(visit: Visit, files: Sequence[SourceFile]) -> PlanView:
    from zkdeployment.service.views.plan import plan_view, refused_plan  # noqa: PLC0415  verbs need no form

    try:
        found = visit.state.planner.plan_files(visit.adapters, files, "the act")
    except TreeError as error:
        return refused_plan(str(error))
    return plan_view(found.forecast, found.warnings, found.packages, found.additions)
