"""``zkdeployment intent approve``, ``diff``, ``instantiate``, ``apply``, ``terminate`` and the other acts.

``approve`` and ``diff`` show the changes since the last approval.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.files import read_files, with_ordered_text
from zkdeployment.cli.operator_options import current_user, reason_option, recorded_name
from zkdeployment.cli.options import configured_repository, emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import fleet_settings
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.views.forecast import predict
from zkdeployment.fleet.views.plan_text import short_lines
from zkdeployment.fleet.views.requests import publication_obstacles
from zkdeployment.intents.acts.governance import pending_releases
from zkdeployment.intents.acts.intents import (
    IntentAdapters,
    IntentOrder,
    adopt_files,
    approve_files,
    replaced_approvals,
)
from zkdeployment.intents.documents import ClusterIntents, IntentState, IntentSubject, subject_text
from zkdeployment.intents.rules.edits import PlacedIntent, find_intent, with_state
from zkdeployment.intents.rules.listing import compare_before_approval, compare_content
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.intents.user_acts import (
    AdoptServices,
    ApplyIntent,
    ApproveIntent,
    InstantiateIntent,
    ReleaseServices,
    ResumeGroup,
    RollBackIntent,
    TerminateIntent,
)
from zkdeployment.intents.verbs.reading import intent_wait_options, read_listed_intent, report, subject_argument
from zkdeployment.intents.verification import ApprovalSigner, approval_signer
from zkdeployment.publishing.acts.commits import CommitOutcome, FileChanges
from zkdeployment.publishing.acts.opening import open_commits, terminal_author
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.service.act import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.base.act import Act
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.cli.publication_wait import WaitOptions
    from zkdeployment.config.settings import Settings
    from zkdeployment.intents.rules.instances import IntentRecord
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
        compared = compare_content(read_listed_intent(operator, subject))
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
def approve(
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
    changes. Nothing is deployed before the group is instantiated; an instantiated group with update: approve
    deploys the new content at once. The command prints the id of the commit when the repository has accepted it.
    Repeated with the same content, it changes nothing. The exit code is 3 if the state does not allow the act, or
    if an earlier act on the group is not published yet.

    Where approvers are configured, an approval counts only with the signature of one of them, who did not also
    sign the commit that brought the content. --key is the file of the approver's private key, which has no
    passphrase, or of the public key whose private key ssh-agent holds. Where several people have to approve, each
    of them runs the command; it names the people whose approvals are missing. If the first approval has expired
    already, the command reports that and begins a new list.

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
        if content is not None:
            raise click.UsageError("expected --work-tree or --content, found both: the directory has the content")
        if not _change_files(work_tree, approve_files, subject, reason, waits, key):
            echo("nothing changes: this content is approved already", err=True)
        return
    act = ApproveIntent(subject=subject, reason=reason, content=content)
    with open_terminal(connection, approval_key(key)) as adapters:
        commits, former = adapters.commits, adapters.operator.of(ZooKeeperIntents).record(subject)
        if asks_for_confirmation(yes=yes):
            act = replace(act, content=confirm_content(act, adapters))
        outcome = act.perform(adapters, _actor())
        if not outcome.changed:
            echo("nothing changes: this content is approved already", err=True)
        approved = find_intent(outcome.files, subject).snapshot
        if outcome.changed and (expired := replaced_approvals(commits, former, approved)) is not None:
            echo(f"the former approvals no longer count: {expired}; this is the first new one", err=True)
        if commits.approvals is not None and (missing := commits.approvals.missing(approved)) is not None:
            echo(f"not approved yet: {missing}", err=True)
        report(outcome, subject, adapters, waits)


def _settings() -> Settings:
    return configured_repository(click.get_current_context().params["config"])


def approval_key(key: Path | None, subject: IntentSubject = ()) -> ApprovalSigner | None:
    """Return the function that signs approvals; raises ``ConfigurationError`` if a key is missing.

    A cluster needs no approval.
    """
    sync = _settings().require(SyncSettings)
    if key is None and sync.approvers is not None and len(subject) != len(ClusterIntents.METADATA):
        key = sync.signing_key
        if key is None:
            raise ConfigurationError(
                f"an approval needs a signature, because [sync] names approvers in {sync.approvers}; give"
                " the file of your key with --key"
            )
    return None if key is None else approval_signer(key, sync.approvers)


@contextlib.contextmanager
def open_terminal(connection: Servers, sign: ApprovalSigner | None = None) -> Iterator[IntentAdapters]:
    """Yield the adapters of acts on intents by the person at this terminal."""
    settings = _settings()
    with open_operator(connection) as operator, open_commits(settings) as commits:
        yield IntentAdapters(operator, commits, terminal_author(current_user()), sign)


def _actor() -> Actor:
    return Actor(recorded_name(), time.time)


def _change_files(
    directory: Path,
    change: Callable[..., dict[str, bytes | None]],
    subject: IntentSubject,
    reason: str,
    waits: WaitOptions,
    key: Path | None,
) -> bool:
    """Change the document of an intent in a directory, and print the name of its file; return whether it did."""
    if waits.waits:
        raise click.UsageError("expected --work-tree or --wait, found both: nothing is pushed")
    settings = fleet_settings(click.get_current_context().params["config"])
    if settings is not None and settings.of(SyncSettings) is not None:
        sign = approval_key(key, subject)
    else:
        sign = None if key is None else approval_signer(key)
    author = terminal_author(current_user())
    order = IntentOrder(subject=subject, author=author, record=None, reason=reason, sign=sign)
    changed = change(read_files([str(directory)]), order)
    for name, text in changed.items():
        if text is not None:
            Path(name).write_bytes(text)
            echo(name)
    return bool(changed)


def confirm_content(act: ApproveIntent | RollBackIntent, adapters: IntentAdapters) -> str:
    """Show the content that an act would approve, and ask; return its digest, or raise ``Abort``."""
    preview = act.commit(adapters, _actor(), dry_run=True)
    placed = find_intent(preview.files, act.subject)
    if preview.changed:
        record = adapters.operator.of(ZooKeeperIntents).record(act.subject)
        for line in (*_changes(record, placed), *_plan(preview.files, placed, adapters.operator)):
            echo(line, err=True)
        click.confirm(f"Approve this content of {subject_text(act.subject)}?", abort=True, err=True)
    return placed.snapshot.content.digest


def asks_for_confirmation(*, yes: bool) -> bool:
    """Return whether the act asks: only at a terminal, and not with ``--yes``."""
    return not yes and sys.stdin is not None and sys.stdin.isatty()


def _changes(record: IntentRecord | None, placed: PlacedIntent) -> Iterator[str]:
    """Yield the changes since the last approval."""
    compared = compare_before_approval(record, placed.snapshot)
    yield compared.remark or f"changed in {subject_text(placed.intent.subject)} since the last approval:"
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


@act_verb(InstantiateIntent, "instantiate", open_terminal, shares_adapters=True)
@subject_argument
@intent_wait_options
def instantiate(
    planned: InstantiateIntent, outcome: CommitOutcome, adapters: IntentAdapters, waits: WaitOptions
) -> None:
    """Deploy the services of a group, as a new instance.

    The group has to be Approved or Terminated, and its content has to be the approved one. The command prints the
    id of the commit when the repository has accepted it. The exit code is 3 if the state does not allow the act,
    or if an earlier act on the group is not published yet.

    \b
    Example:
      zkdeployment intent instantiate p1/store/v1/shop --reason 'the shop opens'
      zkdeployment intent instantiate p1/store/v1/shop --wait --timeout 600
    """
    report(outcome, planned.subject, adapters, waits)


@act_verb(ApplyIntent, "apply", open_terminal, shares_adapters=True)
@subject_argument
@intent_wait_options
def apply(planned: ApplyIntent, outcome: CommitOutcome, adapters: IntentAdapters, waits: WaitOptions) -> None:
    """Deploy the network intents of a cluster, as a new instance.

    The cluster has to be Created or Terminated. The command prints the id of the commit when the repository has
    accepted it. The exit code is 3 if the state does not allow the act, or if an earlier act on the cluster is not
    published yet.

    \b
    Example:
      zkdeployment intent apply ams/web-server --reason 'vlan12 is wired'
      zkdeployment intent apply ams/web-server --wait --timeout 600
    """
    report(outcome, planned.subject, adapters, waits)


@act_verb(TerminateIntent, "terminate", open_terminal, shares_adapters=True)
@subject_argument
@intent_wait_options
def terminate(
    planned: TerminateIntent, outcome: CommitOutcome, adapters: IntentAdapters, waits: WaitOptions
) -> None:
    """Undeploy the services of a group or of a cluster.

    The group has to be Instantiated, the cluster Applied. Its documents and its nodes stay, and it may be
    instantiated again. The command prints the id of the commit when the repository has accepted it. The exit code
    is 3 if the state does not allow the act, or if an earlier act on the subject is not published yet.

    \b
    Example:
      zkdeployment intent terminate p1/store/v1/shop --reason 'the shop moves'
      zkdeployment intent terminate p1/store/v1/shop --wait --timeout 600
    """
    report(outcome, planned.subject, adapters, waits)


@act_verb(ResumeGroup, "resume", open_operator)
@subject_argument
def resume(planned: ResumeGroup, _act: Act) -> None:
    """End the stop of a group with fleet-stop: group.

    The hosts that lack steps of the group run them, and the group's other services, again. A publication that
    changes the group ends its stop, too. The exit code is 3 if the group is not stopped.

    \b
    Example:
      zkdeployment intent resume p1/store/v1/shop --reason 'the database is back'
    """
    echo(f"resumed {subject_text(planned.subject)}")


@click.command(name="adopt")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@click.option(
    "--work-tree",
    metavar="DIRECTORY",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Write approval and state into the documents of this directory instead of a commit.",
)
@key_option
@zookeeper_options
def adopt(
    *,
    connection: Servers,
    subject: IntentSubject,
    reason: str,
    waits: WaitOptions,
    work_tree: Path | None,
    key: Path | None,
) -> None:
    """Put services that are deployed under an intent, without any change on hosts.

    A new intent over deployed services would undeploy them, so its document is refused until the intent adopts
    them: the content is approved and the group is Instantiated (a cluster: Applied), in one commit. Services that
    are not deployed as the tip of the branch has them are refused, with exit code 3.

    With --work-tree, the document is changed in a directory, to be pushed with the state that it then has. Use it
    where a hook refuses the document before the adoption.

    \b
    Example:
      zkdeployment intent adopt p1/store/v1/shop --reason 'the shop needs approvals from now on' --work-tree .
      zkdeployment intent adopt p1/store/v1/shop --wait --timeout 60
    """
    if work_tree is not None:
        _change_files(work_tree, adopt_files, subject, reason, waits, key)
        return
    with open_terminal(connection, approval_key(key, subject)) as adapters:
        outcome = AdoptServices(subject=subject, reason=reason).perform(adapters, _actor())
        report(outcome, subject, adapters, waits)


@click.command(name="release")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, callback=node_path)
@reason_option(required=True)
@key_option
@zookeeper_options
def release(*, connection: Servers, paths: tuple[str, ...], reason: str, key: Path | None) -> None:
    """Deploy services that left the governance of their intent as the tree has them.

    A service leaves governance when the document of its intent is removed, or does not name its path any more. The
    service then stays as published, deployed or not, until it is released or another intent governs it. PATH is
    the path of such a service; 'zkdeployment services' names them. The release covers the content at the tip of
    the branch. The command prints the id of the commit when the repository has accepted it.

    Where approvers are configured, a release needs the signature of one of them, like an approval. Where rules
    demand several people, each of them runs the command; it names the people whose approvals are missing, and
    nothing is released before.

    \b
    Example:
      zkdeployment intent release /p1/shop/front --reason 'the shop needs no approvals any more'
      zkdeployment intent release /p1/shop/front /p1/shop/db --reason 'they stay'
    """
    with open_terminal(connection, approval_key(key)) as adapters:
        outcome = ReleaseServices(paths=list(paths), reason=reason).perform(adapters, _actor())
        commit = str(outcome.commit)
        echo(commit)
        if not outcome.changed:
            echo("nothing changes: these services are released already", err=True)
        for lack in pending_releases(adapters.commits, outcome, paths):
            echo(lack, err=True)
        for obstacle in publication_obstacles(adapters.operator.fleet.snapshot(), commit):
            echo(f"not published yet: {obstacle}", err=True)


@click.command(name="rollback")
@subject_argument
@click.option(
    "--instance",
    metavar="ID",
    type=click.IntRange(1, 2**53),
    required=True,
    help="The instance whose content is restored, as 'intent history' lists it.",
)
@reason_option(required=True)
@intent_wait_options
@key_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, which is asked only at a terminal.")
@zookeeper_options
def command(
    *,
    connection: Servers,
    subject: IntentSubject,
    instance: int,
    reason: str,
    waits: WaitOptions,
    key: Path | None,
    yes: bool,
) -> None:
    """Go back to the content that an instance of a group had when it was approved.

    The command restores the apps, the profile and the governed nodes, and approves them in your name, in one
    commit; with approvers, you sign with --key. The group becomes Approved and can be instantiated. The group must
    not be Instantiated, unless it has update: approve: hosts then deploy the restored content in place. The exit
    code is 3 if other nodes would change, too, or if the state does not allow the act.

    \b
    Example:
      zkdeployment intent rollback p1/store/v1/shop --instance 12 --reason 'the new front loses sessions'
      zkdeployment intent rollback p1/store/v1/shop --instance 12 --reason 'as in May' --yes --wait --timeout 60
    """
    act = RollBackIntent(subject=subject, reason=reason, instance=instance)
    with open_terminal(connection, approval_key(key)) as adapters:
        if asks_for_confirmation(yes=yes):
            confirm_content(act, adapters)
        outcome = act.perform(adapters, _actor())
        if not outcome.changed:
            echo("nothing changes: the group has the approved content of this instance", err=True)
        approvals, restored = adapters.commits.approvals, find_intent(outcome.files, subject).snapshot
        if approvals is not None and (objection := approvals.objection(restored, str(outcome.commit))) is not None:
            echo(f"not approved yet: {objection}", err=True)
        report(outcome, subject, adapters, waits)
