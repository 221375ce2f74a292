"""Composition of what verifies and makes signatures of approvals."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.intents.approvals import APPROVAL_NAMESPACE, approval_statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.git.source import GitSource
    from zkdeployment.config.sync import SyncSettings
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.ports.approvals import ApprovalVerifier


def local_approvals(approvers: Path, allowed_signers: Path | None) -> ApprovalVerifier:
    """Return the verifier of approvals in the repository around this directory, also for commits being pushed."""
    from zkdeployment.adapters.git.approvals import GitApprovals  # noqa: PLC0415  it imports GitPython
    from zkdeployment.adapters.git.command import Git  # noqa: PLC0415

    git = Git(directory=Path.cwd(), inherit=True)
    return GitApprovals(
        lambda: git, approvers.absolute(), allowed_signers and allowed_signers.absolute(), time.time
    )


def mirror_approvals(sync: SyncSettings, source: GitSource) -> ApprovalVerifier | None:
    """Return the verifier of approvals in the mirror of a repository; ``None`` if approvals need no signature."""
    from zkdeployment.adapters.git.approvals import GitApprovals  # noqa: PLC0415  it imports GitPython

    if sync.approvers is None:
        return None
    return GitApprovals(lambda: source.reader, sync.approvers, sync.allowed_signers, time.time)


def approval_signer(key: Path, approvers: Path | None = None) -> Callable[[IntentSubject, str], str]:
    """Return the function that signs a subject and the digest of its content with a key.

    The function raises ``RefusedError`` if the key is not one of the ``approvers``.
    """
    from zkdeployment.adapters.ssh_signatures import sign_text, verify_text  # noqa: PLC0415  it runs ssh-keygen

    def sign(subject: IntentSubject, content: str) -> str:
        statement = approval_statement(subject, content)
        signature = sign_text(key, APPROVAL_NAMESPACE, statement)
        if approvers is not None:
            verify_text(approvers, APPROVAL_NAMESPACE, statement, signature)
        return signature

    return sign
