"""``zkdeployment why``: explains why a host is not at the cluster version."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.base.errors import RefusedError
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.explanations.explanation import Cause, Explanation
from zkdeployment.fleet.explanations.host import explain_host
from zkdeployment.fleet.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.zookeeper.servers import Servers

#: An unknown host is refused like any other unknown name.
_UNKNOWN = RefusedError.exit_code


@click.command(name="why")
@click.argument("host")
@output_option
@zookeeper_options
def command(connection: Servers, host: str, output: str) -> None:
    """Explain why HOST (id or name) is not at the cluster version.

    The first line is the cause; facts, advice and the host's checks follow. Among the facts are the services that
    the host does not deploy because of the state of their intents, and the deployments with rerun = 'changed' that
    the last publication did not run again. The exit code is 3 if HOST is unknown.

    \b
    Example:
      zkdeployment why app1.example.com
    """
    with open_operator(connection) as operator:
        now = time.time()
        explanation = explain_host(operator.host_snapshot(host, now), host, now=now)
    if output != "table":
        emit(explanation.to_json(), output, schema="why")
    else:
        _print(explanation)
    if explanation.cause is Cause.UNKNOWN:
        raise click.exceptions.Exit(_UNKNOWN)


def _print(explanation: Explanation) -> None:
    echo(explanation.sentence)
    for fact in explanation.facts:
        echo(f"  {fact}")
    for number, advice in enumerate(explanation.advice):
        echo(("To do: " if number == 0 else "       ") + advice)
    if explanation.output is not None:
        echo(f"The end of the output of {explanation.output.step}:")
        for line in explanation.output.text.splitlines():
            echo(f"  {line}")
    if explanation.checks:
        echo("Checks:")
    for finding in explanation.checks:
        echo(f"  {finding.word}: {finding.subject}: {finding.detail}")
