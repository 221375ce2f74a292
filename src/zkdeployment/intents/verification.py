"""Verifies and makes the signatures of approvals, and reads the rules of approvals.

The signer of a content is the signer of the commit that brought it: the earliest commit of the branch since which
the content has not changed. If that commit has no valid signature, the signer of the next validly signed commit
counts. The branch is followed through the first parents of its commits. The service signs its acts for others, and
an act changes or restores a content that others brought. Therefore the signer of the former content counts, too,
unless another person than the approver approved the former content.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.errors import RefusedError, SourceError
from zkdeployment.base.publication import next_sequence
from zkdeployment.base.values import dataclass
from zkdeployment.intents.rules.approvals import (
    APPROVAL_NAMESPACE,
    ApprovalRule,
    ReleaseSnapshot,
    approval_statement,
    approved_paths,
    content_digest,
    each_approval,
    expiry,
    former_snapshot,
    future_objection,
    missing_approvals,
    name_objection,
    own_content_objection,
    parse_rules,
    rules_for,
)
from zkdeployment.publishing.acts.commits import COMMITTER
from zkdeployment.publishing.keys import KeyOwner, read_keys, verify_text
from zkdeployment.publishing.rules.review import Review, review
from zkdeployment.publishing.section import ApprovalVerifier
from zkdeployment.publishing.sources.git.objects import Commit, GitObjects, ask, read, read_usable_files
from zkdeployment.publishing.sources.git.signatures import check_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.intents.documents import Approval, IntentSubject
    from zkdeployment.intents.rules.instances import IntentSnapshot
    from zkdeployment.publishing.settings import SyncSettings
    from zkdeployment.publishing.sources.git.command import Git
    from zkdeployment.publishing.sources.git.source import GitSource


#: Signs the approval of a subject, and adds the name of the key's owner. An approval without a signature has the
#: last instance, and gets the next one.
ApprovalSigner: TypeAlias = "Callable[[IntentSubject, Approval], Approval]"


def read_rules(file: Path | None) -> tuple[ApprovalRule, ...] | None:
    """Return the rules in a file, ``None`` without a file; raises ``ConfigurationError``."""
    return None if file is None else parse_rules(read_keys(file).decode("utf-8", "replace"), str(file))


#: The most commits that are searched for the commit that brought a content.
_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class GitApprovals(ApprovalVerifier):
    """The verifier of the signatures of approvals, and of the commits that ``git`` reaches.

    ``approvers`` is the file of the keys that may approve. ``allowed_signers`` is that of the keys that sign
    commits; without it, no commit has a verified signer. ``rules`` is the file of the rules of approvals; without
    it, one approval of any approver is enough.
    """

    git: Callable[[], Git]
    approvers: Path
    allowed_signers: Path | None
    now: Callable[[], float]
    rules: Path | None = None

    def objection(self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: Revision) -> str | None:
        """Return why the approval of an intent or a release in a revision does not count; ``None`` if it counts.

        Raises ``ConfigurationError`` if the file of approvers cannot be read, ``SourceError`` if the repository
        cannot.
        """
        approval = snapshot.intent.approval
        if approval is None or approval.signature is None:
            return "it has no signature by one of the approvers"
        future = future_objection(approval.instance, self.now())
        if future is not None:
            return future
        keys: dict[str, str] = {}
        for one in each_approval(approval):
            reason = self._objection(snapshot, one, str(revision), keys)
            if reason is not None:
                return reason
        return self.missing(snapshot)

    def missing(self, snapshot: IntentSnapshot | ReleaseSnapshot) -> str | None:
        """Return a sentence with the approvals that the document lacks; ``None`` if it has enough."""
        approval = snapshot.intent.approval
        approvers = () if approval is None else [one.by for one in each_approval(approval)]
        return missing_approvals(self._rules(snapshot), approvers)

    def rules_in_force(self) -> tuple[ApprovalRule, ...] | None:
        """Return the rules of approvals, ``None`` without a file; raises ``ConfigurationError``."""
        return read_rules(self.rules)

    def expiry(self, snapshot: IntentSnapshot) -> str | None:
        """Return why the date of an approval permits no instance and no update; ``None`` if it permits them."""
        approval = snapshot.intent.approval
        return None if approval is None else expiry(self._rules(snapshot), approval.instance, self.now())

    def _rules(self, snapshot: IntentSnapshot | ReleaseSnapshot) -> tuple[ApprovalRule, ...]:
        """Return the rules for the paths of an intent; raises ``ConfigurationError``."""
        return rules_for(approved_paths(snapshot.intent), self.rules_in_force() or ())

    def _objection(
        self, snapshot: IntentSnapshot | ReleaseSnapshot, approval: Approval, revision: str, keys: dict[str, str]
    ) -> str | None:
        """Return why the approval of one person does not count; ``None`` if it counts.

        ``keys`` maps the keys of approvers to their names; the approver is added.
        """
        rules = self._rules(snapshot)
        if approval.instance and not any(rule.may_approve(approval.by) for rule in rules):
            return f"{approval.by} may not approve {', '.join(rule.path for rule in rules)}"
        try:
            approver = self._approver(snapshot.intent.subject, approval)
        except RefusedError as error:
            return str(error)
        if keys.setdefault(approver.fingerprint, approver.name) != approver.name:
            return f"{keys[approver.fingerprint]} and {approver.name} approved with the same key"
        objection = name_objection(approval, approver)
        if objection is not None or self.allowed_signers is None:
            return objection
        signers = self._signers(snapshot, approver, revision, self.allowed_signers)
        return next(filter(None, (own_content_objection(approver, signer) for signer in signers)), None)

    def _approver(self, subject: IntentSubject, approval: Approval) -> KeyOwner:
        """Return the signer of one approval; raises ``RefusedError`` if the signature is not valid."""
        statement, signature = approval_statement(subject, approval), str(approval.signature)
        return verify_text(self.approvers, APPROVAL_NAMESPACE, statement, signature, name=approval.by)

    def _signers(
        self, snapshot: IntentSnapshot | ReleaseSnapshot, approver: KeyOwner, revision: str, allowed_signers: Path
    ) -> Iterator[KeyOwner]:
        """Yield the signer of a content, and those of former contents that acts for others changed."""
        git, left, needs_document = self.git(), _SEARCHED, True
        while True:
            digest = partial(content_digest, snapshot.intent, needs_document=needs_document)
            same = _with_same_content(git, digest, snapshot.content.digest, revision)
            commits = [revision, *islice(same, left)]
            left -= len(commits)
            signer = self._signer(git, commits, allowed_signers)
            if signer is None:
                return
            yield signer
            if left <= 0:
                return
            brought = read(ask(git, commits[-1]))
            if not brought.parents or isinstance(snapshot, ReleaseSnapshot) or not _is_act(git, brought, signer):
                return
            revision = brought.parents[0]
            reviewed = review(read_usable_files(GitObjects(git), f"{revision}^{{tree}}")[0])
            former = former_snapshot(snapshot.intent, reviewed)
            if former is None or self._is_approved_by_another(former, approver):
                return
            snapshot, needs_document = former, content_digest(former.intent, reviewed) is not None

    def _is_approved_by_another(self, snapshot: IntentSnapshot, approver: KeyOwner) -> bool:
        """Whether a person other than the approver signed an approval of a content."""
        approval = snapshot.intent.approval
        for one in each_approval(approval) if approval is not None and snapshot.is_approved else ():
            if any(rule.may_approve(one.by) for rule in self._rules(snapshot)):
                with contextlib.suppress(RefusedError):
                    other = self._approver(snapshot.intent.subject, one)
                    if name_objection(one, other) is None and not approver.is_same(other):
                        return True
        return False

    def _signer(self, git: Git, commits: Sequence[str], allowed_signers: Path) -> KeyOwner | None:
        """Return the signer of the oldest of these commits, newest first, that has a valid signature."""
        for commit in reversed(commits):
            try:
                signer = check_signature(git, commit, allowed_signers, now=self.now())
            except SourceError:
                continue
            name, _, fingerprint = signer.rpartition(" ")
            return KeyOwner(name, fingerprint)
        return None


def _with_same_content(
    git: Git, digest: Callable[[Review], str | None], content: str, revision: str
) -> Iterator[str]:
    """Yield the commits before a revision, newest first, as long as the content has the same digest."""
    last: Review | None = None
    while parents := read(ask(git, revision)).parents:
        revision = parents[0]
        last = review(read_usable_files(GitObjects(git), f"{revision}^{{tree}}")[0], last)
        if digest(last) != content:
            return
        yield revision


def _is_act(git: Git, commit: Commit, signer: KeyOwner) -> bool:
    """Whether a commit is an act whose author is another person than the signer."""
    committer = git.run("show", "--no-patch", "--no-show-signature", "--format=%cn", commit.id).text
    name, _, email = commit.author.rpartition(" <")
    return committer == COMMITTER and signer.name not in {commit.author, name, email.rstrip(">")}


def local_approvals(approvers: Path, allowed_signers: Path | None, rules: Path | None) -> GitApprovals:
    """Return the verifier of approvals in the repository around this directory, also for commits being pushed."""
    from zkdeployment.publishing.sources.git.command import Git  # noqa: PLC0415

    git = Git(directory=Path.cwd(), inherit=True)
    return GitApprovals(
        lambda: git,
        approvers.absolute(),
        allowed_signers and allowed_signers.absolute(),
        time.time,
        rules and rules.absolute(),
    )


def mirror_approvals(sync: SyncSettings, source: GitSource) -> GitApprovals | None:
    """Return the verifier of approvals in the mirror of a repository; ``None`` if approvals need no signature."""
    if sync.approvers is None:
        return None
    return GitApprovals(
        lambda: source.reader, sync.approvers, sync.allowed_signers, time.time, sync.approval_rules
    )


def approval_signer(key: Path, approvers: Path | None = None) -> ApprovalSigner:
    """Return the function that signs an approval of a subject with a key.

    The signed approval names the owner of the key, as the ``approvers`` list it. The function raises
    ``RefusedError`` if the key is not one of them. Numbers of instances follow the time, as sequences do.
    """
    from zkdeployment.publishing.keys import sign_text, verify_text  # noqa: PLC0415  it runs ssh-keygen

    def sign(subject: IntentSubject, approval: Approval) -> Approval:
        if approval.signature is None:
            approval = replace(approval, instance=next_sequence(approval.instance, time.time()))
        statement = approval_statement(subject, approval)
        signature, by = sign_text(key, APPROVAL_NAMESPACE, statement), approval.by
        if approvers is not None:
            by = verify_text(approvers, APPROVAL_NAMESPACE, statement, signature, name=by).name
        return replace(approval, by=by, signature=signature)

    return sign
