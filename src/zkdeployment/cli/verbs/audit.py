"""``zkdeployment audit``: acts of operators and failed logins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.options import emit, output_option, period_options, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.history import Period, audit_records
from zkdeployment.service.users.login_store import read_failed_logins

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="audit")
@click.argument("who", metavar="[WHO]", default="")
@click.option(
    "-n",
    "--last",
    metavar="N",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="The number of records of each kind to show.",
)
@period_options
@output_option
@zookeeper_options
def command(
    connection: Servers, *, who: str, last: int, since: float | None, until: float | None, output: str
) -> None:
    """Show the acts of operators and the failed logins to the service, the newest first.

    WHO is a user, USER@HOST or an address; without it, the records of all are shown. The last 500 acts are kept.

    \b
    Example:
      zkdeployment audit
      zkdeployment audit ann --since 7d
    """
    with open_operator(connection) as operator:
        acts, failed = operator.fleet.acts(), read_failed_logins(operator.session)
    records = audit_records(acts, failed, who=who, period=Period(since, until), limit=last)
    if output != "table":
        emit(records.to_json(), output, schema="audit")
        return
    console = console_for(stderr=False)
    if records.acts:
        rows = ((_when(act.time), act.by, act.what, act.reason) for act in records.acts)
        console.print(
            ResponsiveTable(("WHEN", "BY", "ACT", "REASON"), rows, whole=("WHEN", "ACT")), soft_wrap=True
        )
    else:
        echo("no act is recorded", err=True)
    if records.failed_logins:
        logins = (
            (_when(login.time), login.user or "-", login.address, login.problem.value)
            for login in records.failed_logins
        )
        headings = ("FAILED LOGIN", "USER", "FROM", "PROBLEM")
        console.print(ResponsiveTable(headings, logins, whole=("FAILED LOGIN",)), soft_wrap=True)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
