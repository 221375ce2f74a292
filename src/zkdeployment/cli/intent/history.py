"""``zkdeployment intent history``: who approved, began, changed and ended each instance of an intent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.intent.reading import subject_argument
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.intents.history import intent_history
from zkdeployment.model.cluster import short
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.history import InstanceHistory
    from zkdeployment.model.servers import Servers


@click.command(name="history")
@subject_argument
@output_option
@zookeeper_options
def command(connection: Servers, subject: IntentSubject, output: str) -> None:
    """Show who approved what ran: the instances of an intent with their events, the newest first.

    Each event names the revision, the author of its commit, and who approved the content; with approvers, that is
    the verified owner of the signing key. The history stays when the document is removed or renamed: ask for the
    former subject. The last 20 instances are kept. The exit code is 3 if there is no such intent.

    \b
    Example:
      zkdeployment intent history p1/store/v1/shop
      zkdeployment intent history p1/store/v1/shop -o json
    """
    with open_operator(connection) as operator:
        instances = intent_history(subject, operator.intents.record(subject), operator.intents.former(subject))
    if output != "table":
        body = {"subject": subject_text(subject), "instances": [one.to_json() for one in instances]}
        emit(body, output, schema="intent-history")
        return
    if not instances:
        echo(f"{subject_text(subject)} was never instantiated", err=True)
        return
    columns = ("INSTANCE", "EVENT", "AT", "REVISION", "BY", "APPROVED BY", "REASON")
    table = ResponsiveTable(columns, _rows(instances), whole=("INSTANCE", "EVENT"), numbers=("INSTANCE",))
    console_for(stderr=False).print(table, soft_wrap=True)


def _rows(instances: Iterable[InstanceHistory]) -> Iterator[tuple[str | Text, ...]]:
    for instance in instances:
        for event in reversed(instance.events):
            approver = event.approved_by or "-"
            yield (
                str(instance.id),
                event.kind.value,
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)),
                short(event.revision),
                styled(event.by),
                styled(f"{approver} (verified)" if event.is_verified else approver),
                styled(event.reason),
            )
