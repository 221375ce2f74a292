"""``zkdeployment intent approve`` and ``diff``: shows the changes since the last approval, and approves them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.files import read_files, with_ordered_text
from zkdeployment.cli.operator_options import current_user, reason_option
from zkdeployment.cli.options import configured_repository, emit, output_option, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verbs.plan import short_lines
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.forecast import predict
from zkdeployment.intents.acts.intents import IntentOrder, approve_files, approve_intent, intent_order
from zkdeployment.intents.documents.values import IntentState, subject_text
from zkdeployment.intents.rules.edits import find_intent, with_state
from zkdeployment.intents.rules.overview import compare_before_approval, compare_content
from zkdeployment.intents.verbs.reading import intent_wait_options, read_overview, report, subject_argument
from zkdeployment.intents.verification import approval_signer
from zkdeployment.publishing.acts.commits import FileChanges
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.rules.review import review

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.cli.publication_wait import WaitOptions
    from zkdeployment.config.settings import Settings
    from zkdeployment.fleet.ports import OperatorAdapters
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.intents.ports import ApprovalSigner
    from zkdeployment.intents.rules.edits import PlacedIntent
    from zkdeployment.publishing.acts.commits import CommitOutcome
    from zkdeployment.zookeeper.servers import Servers


_DIFFERENT = 4


@click.command(name="diff")
@subject_argument
@output_option
@zookeeper_options
def diff(connection: Servers, subject: IntentSubject, output: str) -> None:
    """Show what changed in the content of a group since its last approval.

    Compared are the keys of the document and the governed nodes, with the values that links lead to, at the tip of
    the branch if the configuration names a repository, else as published. A group that was never approved is
    compared with nothing. The exit code is 0 if there are no differences, 4 if there are.

    \b
    Example:
      zkdeployment intent diff p1/store/v1/shop
      zkdeployment intent diff p1/store/v1/shop -o json
    """
    with open_operator(connection) as operator:
        compared = compare_content(read_overview(operator, subject))
    if compared.remark:
        echo(compared.remark, err=True)
    if output != "table":
        emit(compared.to_json(), output, schema="intent-diff")
    else:
        for line in compared.lines():
            echo(line)
    if not compared.is_approved:
        raise click.exceptions.Exit(_DIFFERENT)


#: The option --key of acts that need a signature if approvers are configured.
key_option = click.option(
    "--key",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The SSH key that signs the approval.  [default: signing-key in [sync], if there are approvers]",
)


@click.command(name="approve")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@click.option(
    "--work-tree",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write the approval into the documents of this directory instead of a commit.",
)
@click.option(
    "--content",
    metavar="DIGEST",
    help="Approve only the content with this digest, which 'intent show' and 'intent diff -o json' print.",
)
@key_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, which is asked only at a terminal.")
@zookeeper_options
def command(
    *,
    connection: Servers,
    subject: IntentSubject,
    reason: str,
    waits: WaitOptions,
    work_tree: Path | None,
    content: str | None,
    key: Path | None,
    yes: bool,
) -> None:
    """Approve the content of a group: its apps, its profile and the governed nodes, with all links resolved.

    At a terminal, the command first shows what changed since the last approval and what hosts would do after the
    instantiation, and asks. The approval is written into the group's document. The approval ends when the content
    changes. Nothing is deployed before the group is instantiated. The command prints the id of the commit when the
    repository has accepted it. Repeated with the same content, it changes nothing. The exit code is 3 if the state
    does not allow the act, or if an earlier act on the group is not published yet.

    Where approvers are configured, an approval counts only with the signature of one of them, who did not also
    sign the commit that brought the content. --key is the file of the approver's private key, which has no
    passphrase, or of the public key whose private key ssh-agent holds. Where several people have to approve, each
    of them runs the command; it names the people whose approvals are missing.

    With --work-tree, the content of the tree in a directory is approved before it is pushed. So the new content of
    an instantiated group with update: approve gets its approval in the same push. The command prints the name of
    the file with the document if it changed; commit that file with the change.

    \b
    Example:
      zkdeployment intent approve p1/store/v1/shop --reason 'tested in the laboratory'
      zkdeployment intent approve p1/store/v1/shop --yes --wait --timeout 60
      zkdeployment intent approve p1/store/v1/shop --yes --content sha256:DIGEST
      zkdeployment intent approve p1/store/v1/shop --reason 'fixes the greeting' --work-tree .
    """
    if work_tree is not None:
        if waits.waits:
            raise click.UsageError("expected --work-tree or --wait, found both: nothing is pushed")
        if content is not None:
            raise click.UsageError("expected --work-tree or --content, found both: the directory has the content")
        sign = None if key is None else approval_signer(key, None)
        _approve_work_tree(work_tree, subject, reason, sign)
        return
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = intent_order(operator, subject, terminal_author(current_user()), reason, by=current_user())
        if asks_for_confirmation(yes=yes):
            preview = approve_intent(commits, order, content=content, dry_run=True)
            content = confirm_content(order, preview, operator)
        outcome = approve_intent(commits, order, content=content, sign=sign)
        if not outcome.changed:
            echo("nothing changes: this content is approved already", err=True)
        approved = find_intent(outcome.files, subject).snapshot
        if commits.approvals is not None and (missing := commits.approvals.missing(approved)) is not None:
            echo(f"not approved yet: {missing}", err=True)
        report(str(outcome.commit), subject, operator, commits, waits, is_active=None)


def approval_key(key: Path | None, settings: Settings) -> ApprovalSigner | None:
    """Return the function that signs approvals; raises ``ConfigurationError`` if a key is missing."""
    sync = settings.require_sync()
    if key is None and sync.approvers is not None:
        key = sync.signing_key
        if key is None:
            raise ConfigurationError(
                f"an approval needs a signature, because [sync] names approvers in {sync.approvers}; give"
                " the file of your key with --key"
            )
    return None if key is None else approval_signer(key, sync.approvers)


def _approve_work_tree(directory: Path, subject: IntentSubject, reason: str, sign: ApprovalSigner | None) -> None:
    """Write the approval of the content in a directory into its document, and print the name of the file."""
    order = IntentOrder(subject=subject, author=terminal_author(current_user()), record=None, reason=reason)
    changed = approve_files(read_files([str(directory)]), order, sign=sign)
    for name, text in changed.items():
        if text is not None:
            Path(name).write_bytes(text)
            echo(name)
    if not changed:
        echo("nothing changes: this content is approved already", err=True)


def confirm_content(order: IntentOrder, preview: CommitOutcome, operator: OperatorAdapters) -> str:
    """Show the content that an act would approve, and ask; return its digest, or raise ``Abort``."""
    placed = find_intent(preview.files, order.subject)
    digest = placed.snapshot.content.digest
    if not preview.changed:
        return digest
    for line in (*_changes(order, placed), *_plan(preview.files, placed, operator)):
        echo(line, err=True)
    click.confirm(f"Approve this content of {subject_text(order.subject)}?", abort=True, err=True)
    return digest


def asks_for_confirmation(*, yes: bool) -> bool:
    """Return whether the act asks: only at a terminal, and not with ``--yes``."""
    return not yes and sys.stdin is not None and sys.stdin.isatty()


def _changes(order: IntentOrder, placed: PlacedIntent) -> Iterator[str]:
    """Yield the changes since the last approval."""
    compared = compare_before_approval(order.record, placed.snapshot)
    yield compared.remark or f"changed in {subject_text(order.subject)} since the last approval:"
    yield from (f"  {line}" for line in list(compared.lines()) or ["nothing"])


def _plan(files: Sequence[SourceFile], placed: PlacedIntent, operator: OperatorAdapters) -> Iterator[str]:
    """Yield the steps that hosts would take after the instantiation."""
    instantiated = FileChanges(with_state(placed, IntentState.INSTANTIATED), "").apply(files)
    basis = with_ordered_text(operator.prediction_basis(), click.get_current_context().params["config"])
    predicted = predict(review(instantiated), basis, revision=None, title="the instantiation")
    yield ""
    yield "after the instantiation:"
    yield from predicted.warnings
    yield from short_lines(predicted.forecast)
