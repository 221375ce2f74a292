"""``zkdeployment blackouts``: the published blackouts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from blackouts.documents import BLACKOUT
from zkdeployment.cli.options import zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.publishing.store.documents import read_published_documents

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers


@click.command(name="blackouts")
@zookeeper_options
def command(connection: Servers) -> None:
    """Show the published blackouts of rollouts."""
    with open_operator(connection) as operator:
        published = read_published_documents(operator.session, [BLACKOUT.name]).of(BLACKOUT)
    for blackout in published.values():
        until = datetime.fromtimestamp(blackout.until, UTC)
        echo(f"{blackout.name} until {until:%Y-%m-%d %H:%M} UTC: {blackout.reason}")
