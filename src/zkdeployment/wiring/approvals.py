"""Composition of what verifies and makes signatures of approvals."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.intents.approvals import APPROVAL_NAMESPACE, approval_statement
from zkdeployment.model.publication import next_sequence

if TYPE_CHECKING:
    from zkdeployment.adapters.git.approvals import GitApprovals
    from zkdeployment.adapters.git.source import GitSource
    from zkdeployment.config.sync import SyncSettings
    from zkdeployment.documents.intents.values import Approval, IntentSubject
    from zkdeployment.intents.approval_rules import ApprovalRule
    from zkdeployment.ports.approvals import ApprovalSigner


def local_approvals(approvers: Path, allowed_signers: Path | None, rules: Path | None) -> GitApprovals:
    """Return the verifier of approvals in the repository around this directory, also for commits being pushed."""
    from zkdeployment.adapters.git.approvals import GitApprovals  # noqa: PLC0415  it imports GitPython
    from zkdeployment.adapters.git.command import Git  # noqa: PLC0415

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
    from zkdeployment.adapters.git.approvals import GitApprovals  # noqa: PLC0415  it imports GitPython

    if sync.approvers is None:
        return None
    return GitApprovals(
        lambda: source.reader, sync.approvers, sync.allowed_signers, time.time, sync.approval_rules
    )


def approval_rules(sync: SyncSettings) -> tuple[ApprovalRule, ...] | None:
    """Return the rules of approvals, ``None`` if none are configured; raises ``ConfigurationError``."""
    from zkdeployment.adapters.approval_rules import read_rules  # noqa: PLC0415  it runs ssh-keygen

    return read_rules(sync.approval_rules)


def approval_signer(key: Path, approvers: Path | None = None) -> ApprovalSigner:
    """Return the function that signs an approval of a subject with a key.

    The signed approval names the owner of the key, as the ``approvers`` list it. The function raises
    ``RefusedError`` if the key is not one of them. Numbers of instances follow the time, as sequences do.
    """
    from zkdeployment.adapters.ssh_signatures import sign_text, verify_text  # noqa: PLC0415  it runs ssh-keygen

    def sign(subject: IntentSubject, approval: Approval) -> Approval:
        if approval.signature is None:
            approval = replace(approval, instance=next_sequence(approval.instance, time.time()))
        statement = approval_statement(subject, approval)
        signature, by = sign_text(key, APPROVAL_NAMESPACE, statement), approval.by
        if approvers is not None:
            by = verify_text(approvers, APPROVAL_NAMESPACE, statement, signature, name=by).name
        return replace(approval, by=by, signature=signature)

    return sign
