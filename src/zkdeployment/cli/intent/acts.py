"""``zkdeployment intent instantiate``, ``apply`` and ``terminate``: commits that change the state of an intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.acts.intents import change_state, intent_order
from zkdeployment.cli.intent.reading import subject_argument
from zkdeployment.cli.intent.waiting import intent_wait_options, report
from zkdeployment.cli.shared.operator_options import current_user, new_act, reason_option
from zkdeployment.cli.shared.options import configured_repository, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.intents.life_cycle import IntentAct
from zkdeployment.wiring.commits import open_commits, terminal_author
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.cli.shared.publication_wait import WaitOptions
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.servers import Servers


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
