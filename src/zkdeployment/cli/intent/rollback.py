"""``zkdeployment intent rollback``: a commit that restores and approves the content of an earlier instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.acts.intents import intent_order, roll_back_intent
from zkdeployment.cli.intent.approve import approval_key, asks_for_confirmation, confirm_content, key_option
from zkdeployment.cli.intent.reading import subject_argument
from zkdeployment.cli.intent.waiting import intent_wait_options, report
from zkdeployment.cli.shared.operator_options import current_user, reason_option
from zkdeployment.cli.shared.options import configured_repository, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.wiring.commits import open_commits, terminal_author
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.cli.shared.publication_wait import WaitOptions
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.servers import Servers


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
