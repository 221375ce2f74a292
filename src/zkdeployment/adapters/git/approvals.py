"""Verifies approvals of intents: their signatures, and who signed the content in the repository.

The content of an intent was brought by the first commit of the branch that has it, after which it never changed.
If that commit has no valid signature, the next commit that has one vouches for it. The branch is followed through
the first parents of its commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.approval_rules import read_rules
from zkdeployment.adapters.git.commits import ask, read
from zkdeployment.adapters.git.files import read_usable_files
from zkdeployment.adapters.git.objects import GitObjects
from zkdeployment.adapters.git.signatures import check_signature
from zkdeployment.adapters.ssh_signatures import verify_text
from zkdeployment.errors import RefusedError, SourceError
from zkdeployment.intents.approval_rules import expiry, missing_approvals, rules_for
from zkdeployment.intents.approvals import (
    APPROVAL_NAMESPACE,
    KeyOwner,
    approval_statement,
    approved_paths,
    content_digest,
    counted_approvals,
    each_approval,
    name_objection,
    own_content_objection,
)
from zkdeployment.planning.review import review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.adapters.git.command import Git
    from zkdeployment.documents.intents.values import Approval
    from zkdeployment.intents.approval_rules import ApprovalCount, ApprovalRule
    from zkdeployment.intents.approvals import ReleaseSnapshot
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision
    from zkdeployment.planning.review import Review

#: The most commits that are searched for the one that brought a content.
_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class GitApprovals:
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
        keys: dict[str, str] = {}
        for one in each_approval(approval):
            reason = self._objection(snapshot, one, str(revision), keys)
            if reason is not None:
                return reason
        return self.missing(snapshot)

    def missing(self, snapshot: IntentSnapshot | ReleaseSnapshot) -> str | None:
        """Return whose approvals are missing besides those that the document names; ``None`` if none are."""
        approval = snapshot.intent.approval
        approvers = () if approval is None else [one.by for one in each_approval(approval)]
        return missing_approvals(self._rules(snapshot), approvers)

    def counted(self, snapshot: IntentSnapshot) -> tuple[ApprovalCount, ...]:
        """Return how many approvals the content of an intent has by its document; empty without rules.

        Raises ``ConfigurationError`` if the file of the rules cannot be read.
        """
        return counted_approvals(snapshot, read_rules(self.rules))

    def expiry(self, snapshot: IntentSnapshot) -> str | None:
        """Return why an approval begins nothing any more, because of its age; ``None`` if it does."""
        approval = snapshot.intent.approval
        return None if approval is None else expiry(self._rules(snapshot), approval.instance, self.now())

    def _rules(self, snapshot: IntentSnapshot | ReleaseSnapshot) -> tuple[ApprovalRule, ...]:
        """Return the rules for the paths of an intent; raises ``ConfigurationError``."""
        return rules_for(approved_paths(snapshot.intent), read_rules(self.rules) or ())

    def _objection(
        self, snapshot: IntentSnapshot | ReleaseSnapshot, approval: Approval, revision: str, keys: dict[str, str]
    ) -> str | None:
        """Return why the approval of one person does not count; ``None`` if it counts.

        ``keys`` are the names of those who approved by their keys; the approver is added.
        """
        rules = self._rules(snapshot)
        if approval.instance and not any(rule.may_approve(approval.by) for rule in rules):
            return f"{approval.by} may not approve {', '.join(rule.path for rule in rules)}"
        statement = approval_statement(snapshot.intent.subject, approval)
        try:
            approver = verify_text(
                self.approvers, APPROVAL_NAMESPACE, statement, str(approval.signature), name=approval.by
            )
        except RefusedError as error:
            return str(error)
        if keys.setdefault(approver.fingerprint, approver.name) != approver.name:
            return f"{keys[approver.fingerprint]} and {approver.name} approved with the same key"
        objection = name_objection(approval, approver)
        if objection is not None or self.allowed_signers is None:
            return objection
        return own_content_objection(approver, self._signer(snapshot, revision, self.allowed_signers))

    def _signer(
        self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: str, allowed_signers: Path
    ) -> KeyOwner | None:
        """Return who signed the content of an intent: the commit that brought it, or the next signed one."""
        git = self.git()
        commits = [revision, *self._with_same_content(git, snapshot, revision)]
        for commit in reversed(commits):
            try:
                signer = check_signature(git, commit, allowed_signers, now=self.now())
            except SourceError:
                continue
            name, _, fingerprint = signer.rpartition(" ")
            return KeyOwner(name, fingerprint)
        return None

    def _with_same_content(
        self, git: Git, snapshot: IntentSnapshot | ReleaseSnapshot, revision: str
    ) -> Iterator[str]:
        """Yield the commits before a revision, newest first, as long as the intent has the same content."""
        last: Review | None = None
        for _ in range(_SEARCHED):
            parents = read(ask(git, revision)).parents
            if not parents:
                return
            revision = parents[0]
            last = review(read_usable_files(GitObjects(git), f"{revision}^{{tree}}")[0], last)
            if content_digest(snapshot.intent, last) != snapshot.content.digest:
                return
            yield revision
