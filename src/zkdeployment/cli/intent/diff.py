"""``zkdeployment intent diff``: what changed since the last approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.intent.reading import read_overview, subject_argument
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.intents.comparison import compare_content
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.servers import Servers

_DIFFERENT = 4


@click.command(name="diff")
@subject_argument
@output_option
@zookeeper_options
def command(connection: Servers, subject: IntentSubject, output: str) -> None:
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
