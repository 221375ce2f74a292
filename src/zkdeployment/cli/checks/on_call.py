"""``zkdeployment checks on-call``: who is notified about the checks of services."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.checks.views import duties_to_json
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.checks.on_call import ON_CALL, on_call_of
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from zkdeployment.documents.checks.on_call import OnCall
    from zkdeployment.model.servers import Servers


def _optional_path(context: click.Context, parameter: click.Parameter, path: str | None) -> str | None:
    return None if path is None else node_path(context, parameter, path)


@click.command(name="on-call")
@click.argument("path", metavar="[PATH]", required=False, callback=_optional_path)
@output_option
@zookeeper_options
def on_call(*, connection: Servers, path: str | None, output: str) -> None:
    """Show the published on-call duties; with PATH the one for this node of the tree.

    The duty for a node is that of the nearest node at or above it.

    \b
    Example:
      zkdeployment checks on-call
      zkdeployment checks on-call /p1/shop/front -o json
    """
    with open_operator(connection) as operator:
        duties = {duty.path: duty for duty in operator.fleet.documents().of(ON_CALL).values()}
    found = duties.values() if path is None else [on_call_of(duties, path.rstrip("/"))]
    shown = sorted((duty for duty in found if duty is not None), key=lambda duty: duty.path)
    if output != "table":
        emit({"on_call": duties_to_json(shown)}, output, schema="checks-on-call")
    elif shown:
        table = ResponsiveTable(("DUTY", "OBJECT", "CONTACT", "EMAIL", "PHONE"), _rows(shown), whole=("OBJECT",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no on-call duty applies: the templates of monitoring systems name the contacts", err=True)


def _rows(duties: Iterable[OnCall]) -> Iterator[tuple[Text | str, ...]]:
    for duty in duties:
        for contact in duty.contacts:
            yield (
                styled(duty.name),
                styled(duty.path or "/"),
                styled(contact.name),
                styled(contact.email or "-"),
                styled(contact.phone or "-"),
            )
