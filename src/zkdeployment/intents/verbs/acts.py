"""``zkdeployment intent instantiate``, ``apply``, ``terminate``, ``rollback``, ``adopt`` and ``release``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.files import read_files
from zkdeployment.cli.operator_options import current_user, new_act, reason_option
from zkdeployment.cli.options import configured_repository, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.requests import publication_obstacles
from zkdeployment.intents.acts.governance import ReleaseOrder, pending_releases, release_services
from zkdeployment.intents.acts.intents import (
    IntentOrder,
    adopt_files,
    adopt_intent,
    change_state,
    intent_order,
    roll_back_intent,
)
from zkdeployment.intents.documents.values import subject_text
from zkdeployment.intents.rules.life_cycle import IntentAct
from zkdeployment.intents.verbs.approve import approval_key, asks_for_confirmation, confirm_content, key_option
from zkdeployment.intents.verbs.reading import intent_wait_options, report, subject_argument
from zkdeployment.intents.verification import approval_signer
from zkdeployment.publishing.acts.commits import ActAudit
from zkdeployment.publishing.acts.opening import open_commits, terminal_author

if TYPE_CHECKING:
    from zkdeployment.cli.publication_wait import WaitOptions
    from zkdeployment.intents.documents.values import IntentSubject
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="instantiate")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@zookeeper_options
def instantiate(connection: Servers, subject: IntentSubject, reason: str, waits: WaitOptions) -> None:
    """Deploy the services of a group, as a new instance.

    The group has to be Approved or Terminated, and its content has to be the approved one. The command prints the
    id of the commit when the repository has accepted it. The exit code is 3 if the state does not allow the act,
    or if an earlier act on the group is not published yet.

    \b
    Example:
      zkdeployment intent instantiate p1/store/v1/shop --reason 'the shop opens'
      zkdeployment intent instantiate p1/store/v1/shop --wait --timeout 600
    """
    _act(connection, subject, reason, waits, IntentAct.INSTANTIATE)


@click.command(name="apply")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@zookeeper_options
def apply(connection: Servers, subject: IntentSubject, reason: str, waits: WaitOptions) -> None:
    """Deploy the network intents of a cluster, as a new instance.

    The cluster has to be Created or Terminated. The command prints the id of the commit when the repository has
    accepted it. The exit code is 3 if the state does not allow the act, or if an earlier act on the cluster is not
    published yet.

    \b
    Example:
      zkdeployment intent apply ams/web-server --reason 'vlan12 is wired'
      zkdeployment intent apply ams/web-server --wait --timeout 600
    """
    _act(connection, subject, reason, waits, IntentAct.APPLY)


@click.command(name="terminate")
@subject_argument
@reason_option(required=False)
@intent_wait_options
@zookeeper_options
def terminate(connection: Servers, subject: IntentSubject, reason: str, waits: WaitOptions) -> None:
    """Undeploy the services of a group or of a cluster.

    The group has to be Instantiated, the cluster Applied. Its documents and its nodes stay, and it may be
    instantiated again. The command prints the id of the commit when the repository has accepted it. The exit code
    is 3 if the state does not allow the act, or if an earlier act on the subject is not published yet.

    \b
    Example:
      zkdeployment intent terminate p1/store/v1/shop --reason 'the shop moves'
      zkdeployment intent terminate p1/store/v1/shop --wait --timeout 600
    """
    _act(connection, subject, reason, waits, IntentAct.TERMINATE)


@click.command(name="resume")
@subject_argument
@reason_option(required=True)
@zookeeper_options
def resume(connection: Servers, subject: IntentSubject, reason: str) -> None:
    """End the stop of a group with fleet-stop: group.

    The hosts that lack steps of the group run them, and the group's other services, again. A publication that
    changes the group ends its stop, too. The exit code is 3 if the group is not stopped.

    \b
    Example:
      zkdeployment intent resume p1/store/v1/shop --reason 'the database is back'
    """
    group = subject_text(subject)
    with open_operator(connection) as operator:
        operator.cluster.resume_group(group, new_act(f"intent resume {group}", reason))
    echo(f"resumed {group}")


def _act(connection: Servers, subject: IntentSubject, reason: str, waits: WaitOptions, act: IntentAct) -> None:
    settings = configured_repository(click.get_current_context().params["config"])
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = intent_order(operator, subject, terminal_author(current_user()), reason, by=current_user())
        outcome = change_state(commits, order, act)
        report(str(outcome.commit), subject, operator, commits, waits, is_active=act is not IntentAct.TERMINATE)


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
        if waits.waits:
            raise click.UsageError("expected --work-tree or --wait, found both: nothing is pushed")
        sign = None if key is None else approval_signer(key, None)
        order = IntentOrder(subject=subject, author=terminal_author(current_user()), record=None, reason=reason)
        for name, text in adopt_files(read_files([str(work_tree)]), order, sign=sign).items():
            if text is not None:
                Path(name).write_bytes(text)
                echo(name)
        return
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = intent_order(operator, subject, terminal_author(current_user()), reason, by=current_user())
        order = replace(order, deployed=operator.fleet.targets())
        outcome = adopt_intent(commits, order, sign=sign)
        report(str(outcome.commit), subject, operator, commits, waits, is_active=True)


@click.command(name="release")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
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
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = ReleaseOrder(
            paths=paths,
            left=operator.fleet.left(),
            author=terminal_author(current_user()),
            reason=reason,
            audit=ActAudit(operator.acts, current_user(), reason),
        )
        outcome = release_services(commits, order, sign=sign)
        commit = str(outcome.commit)
        echo(commit)
        if not outcome.changed:
            echo("nothing changes: these services are released already", err=True)
        for lack in pending_releases(commits, outcome, paths):
            echo(lack, err=True)
        for obstacle in publication_obstacles(operator.fleet.snapshot(), commit):
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
    settings = configured_repository(click.get_current_context().params["config"])
    sign = approval_key(key, settings)
    with open_operator(connection) as operator, open_commits(settings) as commits:
        order = intent_order(operator, subject, terminal_author(current_user()), reason, by=current_user())
        if asks_for_confirmation(yes=yes):
            confirm_content(order, roll_back_intent(commits, order, instance, dry_run=True), operator)
        outcome = roll_back_intent(commits, order, instance, sign=sign)
        if not outcome.changed:
            echo("nothing changes: the group has the approved content of this instance", err=True)
        report(str(outcome.commit), subject, operator, commits, waits, is_active=None)
