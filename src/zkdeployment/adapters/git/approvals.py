"""Verifies approvals of intents: their signatures, and who signed the content in the repository.

The content of an intent was brought by the first commit of the branch that has it, after which it never changed.
If that commit has no valid signature, the next commit that has one vouches for it. The branch is followed through
the first parents of its commits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters.git.commits import ask, read
from zkdeployment.adapters.git.files import read_usable_files
from zkdeployment.adapters.git.objects import GitObjects
from zkdeployment.adapters.git.signatures import check_signature
from zkdeployment.adapters.ssh_signatures import verify_text
from zkdeployment.errors import RefusedError, SourceError
from zkdeployment.intents.approvals import (
    APPROVAL_NAMESPACE,
    KeyOwner,
    approval_statement,
    content_digest,
    name_objection,
    own_content_objection,
)
from zkdeployment.planning.review import review

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.adapters.git.command import Git
    from zkdeployment.intents.approvals import ReleaseSnapshot
    from zkdeployment.intents.life_cycle import IntentSnapshot
    from zkdeployment.model.cluster import Revision
    from zkdeployment.planning.review import Review

#: The most commits in which the one that brought a content is looked for.
_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class GitApprovals:
    """An ``ApprovalVerifier`` for the commits that ``git`` reaches.

    ``approvers`` is the file of the keys that may approve. ``allowed_signers`` is that of the keys that sign
    commits; without it, no commit has a verified signer.
    """

    git: Callable[[], Git]
    approvers: Path
    allowed_signers: Path | None
    now: Callable[[], float]

    def objection(self, snapshot: IntentSnapshot | ReleaseSnapshot, revision: Revision) -> str | None:
        approval = snapshot.intent.approval
        if approval is None or approval.signature is None:
            return "it has no signature by one of the approvers"
        statement = approval_statement(snapshot.intent.subject, approval)
        try:
            approver = verify_text(
                self.approvers, APPROVAL_NAMESPACE, statement, approval.signature, name=approval.by
            )
        except RefusedError as error:
            return str(error)
        objection = name_objection(approval, approver)
        if objection is not None or self.allowed_signers is None:
            return objection
        return own_content_objection(approver, self._signer(snapshot, str(revision), self.allowed_signers))

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
