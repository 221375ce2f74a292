"""``zkdeployment monitor`` and ``check_zkdeployment``: the options of the Nagios check.

A host's check with plain arguments starts without this module: see ``main``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import nagiosplugin

from zkdeployment.config.forms import LONGEST_WAIT
from zkdeployment.programs.monitor import TIMEOUT, check_fleet, check_host, exit_unknown


class _NagiosCommand(click.Command):
    """A verb that ends wrong usage with the state unknown (3); click's exit code 2 means critical to Nagios."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments; exit with 3 if they are wrong."""
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            exit_unknown(error.format_message())


def _range(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Return a range that is valid in the notation of Nagios."""
    try:
        if given is not None:
            nagiosplugin.Range(given)
    except ValueError as error:
        raise click.BadParameter(
            f"{given!r} is not a range: expected a form like 200, 10:20, ~:20, 10: or @10:20"
        ) from error
    return given


@click.command(name="monitor", cls=_NagiosCommand)
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--cluster", is_flag=True, help="Check the whole fleet instead of this host.")
@click.option(
    "-w",
    "--warn",
    metavar="RANGE",
    callback=_range,
    help="The range without a warning: seconds of a step of this host [default: 200]; with --cluster,"
    " minutes for the fleet to converge, a lock, or the syncer's silence [default: 15].",
)
@click.option(
    "-c",
    "-e",
    "--error",
    metavar="RANGE",
    callback=_range,
    help="The range without a critical state [default: 600 seconds; with --cluster, 30 minutes].",
)
@click.option(
    "-z", "--zookeeper", metavar="CONNECTION", help="The ZooKeeper servers, instead of those in the configuration."
)
@click.option(
    "-t",
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(min=1, max=int(LONGEST_WAIT)),
    default=TIMEOUT,
    show_default=True,
    help="The state is UNKNOWN if the check does not end within this time.",
)
def command(
    config: Path | None, cluster: bool, warn: str | None, error: str | None, zookeeper: str | None, timeout: int
) -> None:
    """Check for Nagios that this host is registered, at the cluster version, without error and not stuck.

    With --cluster, check that the whole fleet has converged: report how long the slowest host takes, stops,
    errors, locks that are held for long, absent hosts, a silent syncer, and host pools that are not filled. The
    output is one line and performance data, the exit code that of Nagios: 0 (ok), 1 (warning), 2 (critical) or 3
    (unknown).

    \b
    Example:
      check_zkdeployment /etc/zkdeployment/zkdeployment.cfg -w 200 -c 600
      check_zkdeployment --cluster -z zk1:2181,zk2:2181 -w 15 -c 30
    """
    if cluster:
        check_fleet(config, warn, error, zookeeper=zookeeper, timeout=timeout)
    if config is None:
        exit_unknown("expected CONFIG, this host's configuration, or --cluster")
    check_host(config, warn, error, zookeeper=zookeeper, timeout=timeout)
