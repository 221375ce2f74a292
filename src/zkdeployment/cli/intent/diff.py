"""``zkdeployment intent diff``: what changed since the last approval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.intent.reading import read_overview, subject_argument
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import ClusterIntents, subject_text
from zkdeployment.errors import RefusedError
from zkdeployment.intents.difference import content_difference, difference_to_json
from zkdeployment.intents.instances import EMPTY_CONTENT
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
        overview = read_overview(operator, subject)
    if isinstance(overview.intent, ClusterIntents):
        raise RefusedError(
            f"{subject_text(subject)} is a cluster: clusters are applied without an approval; expected a group,"
            " PROJECT/APP/VERSION/NAME"
        )
    before, content = overview.approved_content or EMPTY_CONTENT, overview.snapshot.content
    if overview.approval is None:
        echo(f"{subject_text(subject)} was never approved: the whole content is new", err=True)
    elif before is EMPTY_CONTENT and not overview.snapshot.is_approved:
        echo("the approved content was never published, so that the whole content is shown", err=True)
    if overview.snapshot.is_approved:
        before = content
    if output != "table":
        approval = overview.approval
        body = {
            "subject": subject_text(subject),
            "approved": None if approval is None else approval.content,
            "content": content.digest,
            **difference_to_json(before, content),
        }
        emit(body, output, schema="intent-diff")
    else:
        for line in content_difference(before, content):
            echo(line)
    if not overview.snapshot.is_approved:
        raise click.exceptions.Exit(_DIFFERENT)
