"""``zkdeployment resume``: ends a stop or a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import new_act, override_options, reason_option
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.seconds import SECONDS
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.publishing.request import GuardOverrides
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers


@click.command(name="resume")
@click.option(
    "--latest", is_flag=True, help="Request that the syncer publishes the branch's tip, as sync --force does."
)
@override_options
@reason_option(required=False)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=SECONDS,
    default=60.0,
    show_default=True,
    help="How long to wait for the syncer.",
)
@zookeeper_options
def command(connection: Servers, latest: bool, overrides: GuardOverrides, reason: str, timeout: float) -> None:
    """End a stop or a hold.

    Without --latest, the published revision is set again, and failed hosts try again. With --latest, the syncer
    first publishes the branch's tip, for example a pushed fix. The exit code is 3 when there is nothing to resume,
    5 when no syncer published in time.

    \b
    Example:
      zkdeployment resume
      zkdeployment resume --latest --reason 'web 1.3 fixed'
    """
    if overrides != GuardOverrides() and not latest:
        raise ConfigurationError(
            "expected --latest with --allow-rewind, --allow-mass-removal or --allow-package-problems: without it"
            " nothing is published"
        )
    with open_operator(connection) as operator:
        if latest:
            revision = operator.cluster.resume_latest(
                new_act("resume --latest", reason), timeout=timeout, overrides=overrides
            )
        else:
            revision = operator.cluster.resume(new_act("resume", reason))
    echo(f"resumed at {revision}")
