"""``zkdeployment monitor`` and ``check_zkdeployment``: the Nagios check of a host, or of the fleet.

The state and the message are decided in ``fleet.health`` and ``fleet.fleet_health``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import nagiosplugin

from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.find_servers import checked_connection, find_servers, named_configuration
from zkdeployment.config.load import load
from zkdeployment.errors import UnreachableError, ZkdeploymentError
from zkdeployment.fleet.health import Health, HealthLimits, HealthVerdict, Measure, host_health, one_line
from zkdeployment.wiring.monitor import read_fleet, read_own_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zkdeployment.model.servers import Servers

_UNKNOWN = 3
_STATES = {
    Health.OK: nagiosplugin.Ok,
    Health.WARNING: nagiosplugin.Warn,
    Health.CRITICAL: nagiosplugin.Critical,
    Health.UNKNOWN: nagiosplugin.Unknown,
}
#: Bytes of a status file that are read; a valid status file is one short line.
_LARGEST_STATUS = 65536

#: The default limits for warning and critical: seconds of a host's step, and minutes for the fleet.
_HOST_LIMITS = ("200", "600")
_FLEET_LIMITS = ("15", "30")


class _NagiosCommand(click.Command):
    """A verb that ends wrong usage with the state unknown (3); click's exit code 2 means critical to Nagios."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments; exit with 3 if they are wrong."""
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            echo(f"ZKDEPLOYMENT UNKNOWN: {error.format_message()}")
            raise click.exceptions.Exit(_UNKNOWN) from error


def _range(_context: click.Context, _option: click.Parameter, given: str | None) -> Any:
    """Parse a range in the notation of Nagios."""
    try:
        return None if given is None else nagiosplugin.Range(given)
    except ValueError as error:
        raise click.BadParameter(
            f"{given!r} is not a range: expected a form like 200, 10:20, ~:20, 10: or @10:20"
        ) from error


class _Verdict(nagiosplugin.Context):  # type: ignore[misc]  # the library has no types
    """Takes the result from a metric whose value is a verdict."""

    def evaluate(self, metric: Any, _resource: Any) -> Any:
        """Return the verdict as the library's result."""
        verdict: HealthVerdict = metric.value
        return nagiosplugin.Result(_STATES[verdict.health], verdict.line, metric)


class _Performance(nagiosplugin.Context):  # type: ignore[misc]  # the library has no types
    """Writes measures to the performance data; they have no state of their own."""

    def performance(self, metric: Any, _resource: Any) -> Any:
        """Return a measure as the library's performance data."""
        measure: Measure = metric.value
        warn, critical = ("", "") if measure.limits is None else (measure.limits.warn, measure.limits.critical)
        return nagiosplugin.Performance(
            measure.name, measure.value, measure.unit, warn, critical, min=0, max=measure.most
        )


class _Summary(nagiosplugin.Summary):  # type: ignore[misc]  # the library has no types
    """The line that the check prints."""

    def ok(self, results: Any) -> str:
        """Return the line of a healthy host or fleet."""
        return str(results[0].hint)

    def problem(self, results: Any) -> str:
        """Return the line with the problem."""
        return str(results.first_significant.hint)


class _Judged(nagiosplugin.Resource):  # type: ignore[misc]  # the library has no types
    """The host or the fleet that is checked."""

    name = "ZKDEPLOYMENT"

    def __init__(self, judge: Callable[[], HealthVerdict]) -> None:
        self._judge = judge

    def probe(self) -> Iterator[Any]:
        """Yield the verdict and its measures."""
        verdict = self._judge()
        yield nagiosplugin.Metric("health", verdict, context="health")
        for measure in verdict.measures:
            yield nagiosplugin.Metric(measure.name, measure, context="measured")


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
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="The state is UNKNOWN if the check does not end within this time.",
)
def command(
    config: Path | None, cluster: bool, warn: Any, error: Any, zookeeper: str | None, timeout: int
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
    defaults = _FLEET_LIMITS if cluster else _HOST_LIMITS
    limits = HealthLimits(
        *(
            nagiosplugin.Range(text) if given is None else given
            for given, text in zip((warn, error), defaults, strict=True)
        )
    )

    def judge() -> HealthVerdict:
        """Return a verdict, also if reading the configuration or ZooKeeper failed."""
        try:
            if cluster:
                return _judge_fleet(find_servers(zookeeper, config or named_configuration()), limits, timeout)
            return _judge_host(config, zookeeper, limits, timeout)
        except UnreachableError as unreachable:
            return HealthVerdict(Health.CRITICAL, one_line(unreachable))
        except ZkdeploymentError as problem:
            return HealthVerdict(Health.UNKNOWN, one_line(problem))

    if config is None and not cluster:
        echo("ZKDEPLOYMENT UNKNOWN: expected CONFIG, this host's configuration, or --cluster")
        raise click.exceptions.Exit(_UNKNOWN)
    check = nagiosplugin.Check(_Judged(judge), _Verdict("health"), _Performance("measured"), _Summary())
    try:
        check.main(verbose=0, timeout=timeout)
    except nagiosplugin.Timeout as late:
        echo(f"ZKDEPLOYMENT UNKNOWN: this check did not end within {timeout} s")
        raise click.exceptions.Exit(_UNKNOWN) from late


def _judge_host(config: Path | None, zookeeper: str | None, limits: HealthLimits, timeout: float) -> HealthVerdict:
    settings = load(Path() if config is None else config)
    identity = settings.require_identity()
    status = _read_status(settings.require_run_directory() / "status")
    connection = checked_connection(zookeeper, "--zookeeper") or settings.zookeeper
    servers = replace(settings.servers, connection=connection)
    snapshot, host = read_own_host(servers, identity.id, timeout=timeout)
    return host_health(status, host, snapshot, now=time.time(), limits=limits)


def _judge_fleet(connection: Servers, limits: HealthLimits, timeout: float) -> HealthVerdict:
    from zkdeployment.fleet.fleet_health import fleet_health  # noqa: PLC0415  a host's check starts faster without it

    return fleet_health(read_fleet(connection, timeout=timeout), now=time.time(), limits=limits)


def _read_status(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST_STATUS).decode("utf-8", errors="replace")
    except OSError:
        return None
