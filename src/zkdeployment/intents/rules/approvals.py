"""Approvals: the rules, the signed text, the signatures that count, and the record of what a syncer accepted.

The rules permit approvers for each path, and set their number and the life of approvals. They are in a file that
the configuration names, so documents cannot weaken them. Each line has a path, the number of approvals, the days
for which an approval counts (``-``: for ever), and the names of approvers (``*``: all). The days begin at the
number of the instance: the time of the first approval, by the clock of the approver. An instance in the future
does not count.

A signature covers the subject, the digest of the content, the state and the number of the instance. A signature
counts if one of the approvers made it who did not also sign the content, so that two people review each deployed
content. Each signature counts for one instance, so a revert does not make an earlier approval valid again.
ZooKeeper holds accepted approvals and left services, too, but every client with write access could change them
there. Therefore the syncer records them on its own machine, and a signed publication has the digest of the left
services for other syncers. When another syncer has published, ZooKeeper can end the instances of that record, and
name later ones, whose approvals still need signatures that count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from zkdeployment.base.cluster import Revision, is_revision
from zkdeployment.base.durations import age, seconds_ahead
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.publication import LeftService, Published, is_sequence
from zkdeployment.base.records import Key, Record, invalid, shown
from zkdeployment.base.values import dataclass
from zkdeployment.intents.documents import (
    Approval,
    DeploymentIntentGroup,
    FurtherApproval,
    Intent,
    IntentState,
    IntentSubject,
    ServiceRelease,
    subject_text,
)
from zkdeployment.intents.rules.content import IntentContent, intent_content, service_content
from zkdeployment.intents.rules.governance import read_intents
from zkdeployment.intents.rules.instances import (
    IntentRecord,
    IntentSnapshot,
    MissingApprovals,
    uncounted_approval,
)
from zkdeployment.publishing.governance import StandingGovernance, standing_list
from zkdeployment.publishing.signing.statement import left_digest

if TYPE_CHECKING:
    from zkdeployment.publishing.keys import KeyOwner
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.publishing.signing.standing import SigningRecord


_LINE = re.compile(
    r"(?P<path>/|(?:/[^/\s]+)+)\s+(?P<needed>[1-9][0-9]?)\s+(?P<days>-|[1-9][0-9]{0,3})\s+(?P<names>\S.*)"
)

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """The number of approvals that services at and below a path need, and the permitted approvers.

    Without names, all approvers are permitted. An approval counts for some ``days``; ``None``: for ever.
    """

    path: str
    needed: int = 1
    names: tuple[str, ...] = ()
    days: int | None = None

    def may_approve(self, name: str) -> bool:
        """Whether the approval of this person counts."""
        return not self.names or name in self.names

    def covers(self, path: str) -> bool:
        """Whether a path is at or below the path of the rule."""
        return f"{path}/".startswith(f"{self.path.rstrip('/')}/")


@dataclass(frozen=True, slots=True)
class ApprovalCount(Record):
    """The approvals that a content has for one rule.

    ``approvers`` have approved; ``awaited`` are the others who may approve; empty: all approvers. ``expires`` is
    when the approvals stop counting, in seconds since the epoch; ``None``: never.
    """

    path: str
    needed: int
    approvers: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()
    expires: float | None = None

    @property
    @shown("missing")
    def missing(self) -> int:
        """The number of missing approvals."""
        return max(self.needed - len(self.approvers), 0)

    def __str__(self) -> str:
        """Return the count as a sentence, without the expiry."""
        by = f": {', '.join(self.approvers)}" if self.approvers else ""
        more = (
            f"; needs {self.missing} more of {', '.join(self.awaited) or 'the approvers'}" if self.missing else ""
        )
        return f"{len(self.approvers)} of {self.needed} approvals for {self.path}{by}{more}"


def parse_rules(text: str, file: str) -> tuple[ApprovalRule, ...]:
    """Return the rules of a file; raises ``ConfigurationError`` with the first line that is not a rule."""
    rules = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].strip()
        if not stripped:
            continue
        match = _LINE.fullmatch(stripped)
        names = () if match is None else tuple(match["names"].split())
        needed = 0 if match is None else int(match["needed"])
        if match is None or ("*" in names and len(names) > 1) or (names != ("*",) and len(set(names)) < needed):
            raise ConfigurationError(
                f"{file}:{number}: expected PATH NUMBER DAYS NAME…, as in '/p1 2 30 alice@example.com"
                " bob@example.com', with at least NUMBER names or * for all approvers, and - for DAYS without a"
                f" limit; found {stripped!r}"
            )
        days = None if match["days"] == "-" else int(match["days"])
        rules.append(ApprovalRule(match["path"], needed, () if names == ("*",) else names, days))
    return tuple(rules)


def rules_for(paths: Iterable[str], rules: Sequence[ApprovalRule]) -> tuple[ApprovalRule, ...]:
    """Return the rules that an approval of services at and below some paths has to meet.

    For each path these are the rule with the longest path at or above it, and all rules below it, because the
    approval of a wide subtree approves everything in it.
    """
    found: dict[ApprovalRule, None] = {}
    for path in paths:
        above = [rule for rule in rules if rule.covers(path)]
        found[max(above, key=lambda rule: len(rule.path), default=ApprovalRule(path))] = None
        found |= dict.fromkeys(
            rule for rule in rules if rule.path != path and ApprovalRule(path).covers(rule.path)
        )
    return tuple(found)


def count_approvals(
    rules: Iterable[ApprovalRule], approvers: Collection[str], approved: float | None = None
) -> tuple[ApprovalCount, ...]:
    """Return the approvals for each rule; ``approvers`` are the names of the people who approved.

    ``approved`` is the time of the first approval, if the approvals can expire.
    """
    return tuple(
        ApprovalCount(
            rule.path,
            rule.needed,
            tuple(name for name in approvers if rule.may_approve(name)),
            tuple(name for name in rule.names if name not in approvers),
            None if approved is None else _end(rule, approved),
        )
        for rule in rules
    )


def missing_approvals(rules: Iterable[ApprovalRule], approvers: Collection[str]) -> MissingApprovals | None:
    """Return a sentence with the missing approvals; ``None`` if those of ``approvers`` suffice."""
    missing = "; ".join(str(count) for count in count_approvals(rules, approvers) if count.missing)
    return MissingApprovals(missing) if missing else None


def _end(rule: ApprovalRule, approved: float) -> float | None:
    return None if rule.days is None else approved + rule.days * _DAY


def future_objection(approved: float, now: float) -> str | None:
    """Return an objection to an approval from a time ``approved`` in the future, which would expire late."""
    ahead = seconds_ahead(approved, now)
    if not ahead:
        return None
    return (
        f"its instance {approved:.0f} is the time of the first approval, and {age(ahead)} in the future; correct"
        " the clock of the machine that signed it, then approve again; a group that had an instance from the"
        " future needs another version or name"
    )


def expiry(rules: Iterable[ApprovalRule], approved: float, now: float) -> str | None:
    """Return why an approval from the time ``approved`` permits nothing now; ``None`` if it counts."""
    objection = future_objection(approved, now)
    if objection is not None:
        return objection
    for rule in rules:
        end = _end(rule, approved)
        if end is not None and now > end:
            return f"it has expired: approvals for {rule.path} count for {rule.days} days; approve the group again"
    return None


def _sequence(value: object) -> int:
    if is_sequence(value) or (value == 0 and type(value) is int):
        return value
    raise invalid("a sequence, or 0", value)


def _revision(value: object) -> Revision | None:
    if value is None or is_revision(value):
        return value
    raise invalid("a revision", value)


@dataclass(frozen=True, slots=True)
class AcceptedInstance(Record):
    """The last instance of a group: its number in the signed approval (0 if unsigned), and whether it runs."""

    number: Annotated[int, Key(read=_sequence)]
    is_running: bool


@dataclass(frozen=True, slots=True)
class Acceptance(Record):
    """The approvals and left services that a syncer accepted with the publication ``sequence`` of ``revision``.

    ``approvals`` are the fingerprints of approved or deployed groups, by the text of the subject. ``instances``
    are the last instances of groups, also of groups that are gone, by the text of the subject. ``left`` are the
    services that had left the governance of their intents; ``None`` if the record is damaged.
    """

    approvals: Mapping[str, str]
    left: tuple[LeftService, ...] | None
    revision: Annotated[str | int | None, Key(read=_revision)]
    sequence: Annotated[int, Key(read=_sequence)]
    instances: Mapping[str, AcceptedInstance]


#: The acceptance of a syncer whose record is damaged.
NOTHING_ACCEPTED = Acceptance({}, None, None, 0, {})


@dataclass(frozen=True, slots=True)
class AcceptanceRecord(Record):
    """The acceptances of a syncer: with its ``last`` publication (``None`` before the first one), and ``coming``.

    ``coming`` belongs to a publication that may not be written yet; ``None`` if there is no such publication.
    """

    last: Acceptance | None
    coming: Acceptance | None

    def settled(self, published: Published) -> Acceptance | None:
        """Return the acceptance with the last publication, which ZooKeeper identifies.

        The approvals of a publication that was never written are verified again for the next publication.
        """
        coming, ordered = self.coming, published.revision or published.ordered
        is_written = coming is not None and ordered == coming.revision and published.sequence >= coming.sequence
        return coming if is_written else self.last


def recorded_governance(
    own: Acceptance | None, published: Published, signed: SigningRecord | None
) -> StandingGovernance | None:
    """Return the governance in a syncer's ``own`` record; ``None`` if another syncer has published since.

    ``signed`` is the current signed publication, with sequence 0 if it is not known; ``None`` if publications are
    not signed. Without signatures, only ZooKeeper shows whether another syncer has published.
    """
    if own is None or own.left is None:
        return None
    stands = published.sequence if signed is None else signed.sequence
    if own.sequence >= stands:
        return StandingGovernance(own.revision, own.left)
    revision, digest = standing_list(published, signed)
    return StandingGovernance(revision, own.left) if left_digest(own.left) == digest else None


#: The namespace of signatures of approvals, for ``ssh-keygen -Y sign -n``.
APPROVAL_NAMESPACE = "zkdeployment-approval"


@dataclass(frozen=True, slots=True)
class ReleaseSnapshot:
    """A release and the content of its service in one revision."""

    intent: ServiceRelease
    content: IntentContent


def content_digest(
    approved: Intent | ServiceRelease, reviewed: Review, *, needs_document: bool = True
) -> str | None:
    """Return the digest of an intent's or a release's content in a revision; ``None`` if it is missing.

    Unless it ``needs_document``, the nodes are those that the intent governs now.
    """
    tree = reviewed.linted.tree
    if isinstance(approved, ServiceRelease):
        is_there = approved.path in tree
        return service_content(approved.path, approved.target, tree).digest if is_there else None
    if not needs_document:
        return intent_content(approved, tree).digest
    same = (intent for intent in read_intents(reviewed.documents) if intent.subject == approved.subject)
    return next((intent_content(intent, tree).digest for intent in same), None)


def former_snapshot(intent: Intent, reviewed: Review) -> IntentSnapshot | None:
    """Return an intent in an earlier revision, or without its document there the nodes that it governs now.

    ``None`` if the revision has none of the nodes.
    """
    same = (former for former in read_intents(reviewed.documents) if former.subject == intent.subject)
    former, tree = next(same, None), reviewed.linted.tree
    if former is None:
        former = replace(intent, approval=None) if isinstance(intent, DeploymentIntentGroup) else intent
    if not any(path in tree for path in approved_paths(former)):
        return None
    return IntentSnapshot(former, intent_content(former, tree))


def approval_statement(subject: IntentSubject, approval: Approval) -> str:
    """Return the text that an approver signs."""
    return (
        f"zkdeployment approval v2\n{subject_text(subject)}\n{approval.content}\n{approval.state}\n"
        f"{approval.instance}\n"
    )


def each_approval(approval: Approval) -> tuple[Approval, ...]:
    """Return the approvals of all people who approved the same content and instance, each person once."""
    further = [
        replace(approval, by=one.by, reason=one.reason, signature=one.signature, also=()) for one in approval.also
    ]
    return tuple({one.by: one for one in (replace(approval, also=()), *further)}.values())


def cosigned(former: Approval, signed: Approval) -> Approval | None:
    """Return an approval with the signed approval of another person; ``None`` if this person already approved."""
    if signed.by in {one.by for one in each_approval(former)}:
        return None
    return replace(former, also=(*former.also, FurtherApproval(signed.by, str(signed.signature), signed.reason)))


def approved_paths(approved: Intent | ServiceRelease) -> tuple[str, ...]:
    """Return the paths at and below which an approval permits the deployment of services."""
    if isinstance(approved, ServiceRelease):
        return (approved.path,)
    return tuple(path for paths in approved.apps.values() for path in paths)


def counted_approvals(snapshot: IntentSnapshot, rules: Sequence[ApprovalRule] | None) -> tuple[ApprovalCount, ...]:
    """Return the counts of approvals in the document of a group; signatures are not verified.

    Empty without rules (``None``), and for clusters, which need no approval. Approvals of another content or of
    a terminated instance do not count. Approvals of the running instance do not expire.
    """
    intent = snapshot.intent
    if rules is None or not isinstance(intent, DeploymentIntentGroup):
        return ()
    signed: tuple[Approval, ...] = ()
    approval = intent.approval
    is_present = approval is not None and approval.content == snapshot.content.digest
    if approval is not None and is_present and intent.state is not IntentState.TERMINATED:
        signed = tuple(one for one in each_approval(approval) if one.signature is not None)
    approved = signed[0].instance if signed and intent.state is IntentState.APPROVED else None
    return count_approvals(rules_for(approved_paths(intent), rules), [one.by for one in signed], approved)


def name_objection(approval: Approval, approver: KeyOwner) -> str | None:
    """Return an objection if an approval names another person than its signer, else ``None``."""
    if approval.by == approver.name:
        return None
    return f"it names {approval.by} as its approver, but {approver.name} signed it"


def reuse_objection(approval: Approval, instance: AcceptedInstance | None) -> str | None:
    """Return an objection if a signed approval was given for another instance, else ``None``.

    ``instance`` is the last instance of the group; ``None`` if the group had none, or if it is not known.
    """
    number = 0 if instance is None else instance.number
    if instance is not None and instance.is_running and approval.instance == number:
        return None
    if not approval.instance:
        return "it does not name its instance; approve the group again"
    if approval.instance <= number:
        return "it was given for an instance that has ended, or for an earlier content; approve the group again"
    if instance is not None and instance.is_running and approval.state != IntentState.INSTANTIATED.value:
        return (
            "it approves a new instance, but the present one runs; with 'update: approve' approve its change, else"
            " terminate it first, which takes down its services"
        )
    return None


def documented_instance(snapshot: IntentSnapshot | None) -> AcceptedInstance | None:
    """Return the last instance in the document of a group; ``None`` if the document names no instance."""
    intent = None if snapshot is None else snapshot.intent
    if intent is None or intent.approval is None:
        return None
    if not intent.state.is_active and intent.state is not IntentState.TERMINATED:
        return None
    return AcceptedInstance(intent.approval.instance, is_running=intent.state.is_active)


_OWN_CONTENT = "signed the approval and also the commit that brought the content; another person must"


def own_content_objection(approver: KeyOwner, signer: KeyOwner | None) -> str | None:
    """Return an objection if the approver also signed the content, else ``None``."""
    if signer is None or not approver.is_same(signer):
        return None
    return f"{approver.name} {_OWN_CONTENT}"


def awaits_another_approver(objection: str) -> bool:
    """Whether an objection is that of ``own_content_objection``, which an approval by another person ends."""
    return objection.endswith(_OWN_CONTENT)


def with_objections(
    snapshots: Mapping[IntentSubject, IntentSnapshot],
    objection: Callable[[IntentSnapshot], str | None],
    is_accepted: Callable[[IntentSnapshot], bool] = lambda _: False,
    instances: Mapping[IntentSubject, AcceptedInstance] = MappingProxyType({}),
    expiry: Callable[[IntentSnapshot], str | None] = lambda _: None,
) -> dict[IntentSubject, IntentSnapshot]:
    """Return the intents with the objections to their approvals.

    ``objection`` is called only for approvals of the present content that were not accepted before. ``instances``
    are the last known instances. ``expiry`` is called for approvals of instances other than the running one.
    """
    found = {}
    for subject, snapshot in snapshots.items():
        approval, reason = snapshot.intent.approval, None
        if approval is not None and snapshot.is_approved:
            if not is_accepted(snapshot):
                reason = objection(snapshot)
            last = instances.get(subject)
            reason = reason or reuse_objection(approval, last)
            if reason is None and last != AcceptedInstance(approval.instance, is_running=True):
                reason = expiry(snapshot)
        found[subject] = snapshot if reason is None else replace(snapshot, objection=reason)
    return found


def accepted_by_records(known: Mapping[IntentSubject, IntentRecord]) -> Callable[[IntentSnapshot], bool]:
    """Return a function: whether the records of publications show that a group's approval was accepted.

    Every client with write access to ZooKeeper can write these records, so deployments must not depend on them.
    """

    def is_accepted(snapshot: IntentSnapshot) -> bool:
        record = known.get(snapshot.intent.subject)
        return (
            record is not None
            and record.intent.approval == snapshot.intent.approval
            and record.snapshot.objection is None
            and record.approved is not None
            and record.approved.digest == snapshot.content.digest
        )

    return is_accepted


def accepted_by_syncer(accepted: Mapping[str, str]) -> Callable[[IntentSnapshot], bool]:
    """Return a function: whether the syncer accepted a group with exactly its content and approval."""

    def is_accepted(snapshot: IntentSnapshot) -> bool:
        return accepted.get(subject_text(snapshot.intent.subject)) == _fingerprint(snapshot)

    return is_accepted


def newly_accepted(snapshots: Mapping[IntentSubject, IntentSnapshot]) -> dict[str, str]:
    """Return the fingerprints that a syncer accepts with a publication: of approved and of deployed groups."""
    return {
        subject_text(subject): _fingerprint(snapshot)
        for subject, snapshot in snapshots.items()
        if isinstance(snapshot.intent, DeploymentIntentGroup)
        and (snapshot.is_approved or snapshot.state.is_active)
    }


def known_instances(
    own: Acceptance | None, records: Mapping[IntentSubject, IntentRecord], sequence: int
) -> dict[str, AcceptedInstance]:
    """Return the last instances of groups, also of removed groups, by the text of the subject.

    ``own`` is the syncer's last acceptance, ``sequence`` that of the last publication. The syncer's instances
    take precedence over the ``records`` of publications until another syncer publishes. From then on the larger
    number counts, and an instance runs only if the records show that it still does.
    """
    last = {} if own is None else own.instances
    found = ((subject_text(subject), documented_instance(record.snapshot)) for subject, record in records.items())
    recorded = {subject: instance for subject, instance in found if instance is not None}
    if own is None or own.sequence >= sequence:
        return {**recorded, **last}
    return {**recorded, **{subject: _merged(one, recorded.get(subject)) for subject, one in last.items()}}


def _merged(own: AcceptedInstance, recorded: AcceptedInstance | None) -> AcceptedInstance:
    if recorded is not None and recorded.number > own.number:
        return recorded
    return replace(own, is_running=own.is_running and own == recorded)


def accepted_instances(
    last: Mapping[str, AcceptedInstance], snapshots: Mapping[IntentSubject, IntentSnapshot]
) -> dict[str, AcceptedInstance]:
    """Return the last instances of groups after a publication of these intents, including removed groups."""
    instances = {subject: replace(instance, is_running=False) for subject, instance in last.items()}
    for subject, snapshot in snapshots.items():
        approval = snapshot.intent.approval
        if isinstance(snapshot.intent, DeploymentIntentGroup) and snapshot.state.is_active:
            number = 0 if approval is None else approval.instance
            instances[subject_text(subject)] = AcceptedInstance(number, is_running=True)
    return instances


def deployment_objection(snapshot: IntentSnapshot, is_accepted: Callable[[IntentSnapshot], bool]) -> str | None:
    """Return why a group may not stay deployed where approvals need a signature; ``None`` if it may.

    Unless the syncer accepted the group, only ZooKeeper shows that the group was deployed before.
    """
    intent = snapshot.intent
    is_governed = isinstance(intent, DeploymentIntentGroup) and snapshot.state.is_active
    if not is_governed or snapshot.is_approved or (snapshot.objection is None and is_accepted(snapshot)):
        return None
    missing = "its content has no approval" if intent.approval is None else "it approves another content"
    return uncounted_approval(intent, snapshot.objection or missing)


def _fingerprint(snapshot: IntentSnapshot) -> str:
    """Return the digest of a group's subject, content and approval, including the exact signature."""
    approval = snapshot.intent.approval
    value = [snapshot.intent.subject, snapshot.content.digest, None if approval is None else asdict(approval)]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
