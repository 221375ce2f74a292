"""``zkdeployment resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import act, permit_options, reason_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.publication import GuardOverrides
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="resume")
@click.option("--latest", is_flag=True, help="Ask the syncer to publish the branch's tip, as sync --force would.")
@permit_options
@reason_option(required=False)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="How long to wait for the syncer.",
)
@zookeeper_options
def command(connection: Servers, latest: bool, overrides: GuardOverrides, reason: str, timeout: float) -> None:
    """End a stop or a hold.

    Without --latest the published revision is set again: hosts that failed try again. With it a fix that was
    pushed is published first. The exit code is 3 when there is nothing to resume, 5 when no syncer published in
    time.

    \b
    Example:
      zkdeployment resume
      zkdeployment resume --latest --reason 'web 1.3 fixed'
    """
    if overrides != GuardOverrides() and not latest:
        raise ConfigurationError("--allow-rewind and --allow-mass-removal are for what --latest publishes")
    with open_operator(connection) as operator:
        if latest:
            revision = operator.cluster.resume_latest(
                act("resume --latest", reason), timeout=timeout, overrides=overrides
            )
        else:
            revision = operator.cluster.resume(act("resume", reason))
    echo(f"resumed at {revision}")
