"""``zkdeployment monitor`` and ``check_zkdeployment``: the Nagios check of this host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import nagiosplugin

from zkdeployment.adapters.zookeeper.operations import Operations
from zkdeployment.adapters.zookeeper.session import Session
from zkdeployment.config.load import load
from zkdeployment.errors import ZkdeploymentError
from zkdeployment.fleet.health import Health, HealthVerdict, host_health

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNKNOWN = 3
_STATES = {
    Health.OK: nagiosplugin.Ok,
    Health.WARNING: nagiosplugin.Warn,
    Health.CRITICAL: nagiosplugin.Critical,
    Health.UNKNOWN: nagiosplugin.Unknown,
}
#: A status file is one short line; what is larger is none.
_LARGEST_STATUS = 65536


class _NagiosCommand(click.Command):
    """A verb whose wrong usage is unknown (3), not critical (2), to Nagios."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **options)
        except click.UsageError as error:
            click.echo(f"ZKDEPLOY UNKNOWN: {error.format_message()}")
            raise click.exceptions.Exit(_UNKNOWN) from error


class _Verdict(nagiosplugin.Context):  # type: ignore[misc]  # the library has no types
    """The verdict is the metric's value; the age of the status file goes to the performance data."""

    def evaluate(self, metric: Any, resource: Any) -> Any:  # noqa: ARG002  the library's signature
        verdict: HealthVerdict = metric.value
        return nagiosplugin.Result(_STATES[verdict.health], verdict.line, metric)

    def performance(self, metric: Any, resource: Any) -> Any:
        verdict: HealthVerdict = metric.value
        if verdict.age is None:
            return None
        return nagiosplugin.Performance(
            "age", round(verdict.age, 1), "s", f"{resource.warn_age:g}", f"{resource.error_age:g}", min=0
        )


class _Summary(nagiosplugin.Summary):  # type: ignore[misc]  # the library has no types
    def ok(self, results: Any) -> str:
        return str(results[0].hint)

    def problem(self, results: Any) -> str:
        return str(results.first_significant.hint)


class _Host(nagiosplugin.Resource):  # type: ignore[misc]  # the library has no types
    """This host: its status file, its node and the cluster version."""

    name = "ZKDEPLOY"

    def __init__(self, config: Path, zookeeper: str | None, *, warn_age: float, error_age: float) -> None:
        self.config = config
        self.zookeeper = zookeeper
        self.warn_age = warn_age
        self.error_age = error_age

    def probe(self) -> Iterator[Any]:
        yield nagiosplugin.Metric("health", self._judge(), context="health")

    def _judge(self) -> HealthVerdict:
        try:
            settings = load(self.config)
            identity = settings.require_identity()
            status = _read_status(settings.require_run_directory() / "status")
        except ZkdeploymentError as error:
            return HealthVerdict(Health.UNKNOWN, " ".join(str(error).split()))
        try:
            with Session(self.zookeeper or settings.zookeeper, session_timeout=10) as session:
                operations = Operations(session)
                cluster, host = operations.host(identity.id)
                stops = operations.stops() if cluster is not None and cluster.revision is None else ()
        except ZkdeploymentError as error:
            return HealthVerdict(Health.CRITICAL, " ".join(str(error).split()))
        return host_health(
            status, host, cluster, stops, now=time.time(), warn_age=self.warn_age, error_age=self.error_age
        )


def _read_status(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST_STATUS).decode("utf-8", errors="replace")
    except OSError:
        return None


@click.command(name="monitor", cls=_NagiosCommand)
@click.argument("config", type=click.Path(path_type=Path))
@click.option(
    "-w",
    "--warn",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=200.0,
    show_default=True,
    help="A step that takes longer is a warning.",
)
@click.option(
    "-c",
    "-e",
    "--error",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="A step that takes longer is critical.",
)
@click.option("-z", "--zookeeper", metavar="CONNECTION", help="ZooKeeper, if not as the configuration says.")
@click.option(
    "-t",
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Not to know within this time is UNKNOWN.",
)
def command(config: Path, warn: float, error: float, zookeeper: str | None, timeout: int) -> None:
    """Check for Nagios that this host is registered, at the cluster version, without error and not stuck.

    Prints one line and exits with Nagios' 0 (ok), 1 (warning), 2 (critical) or 3 (unknown).

    \b
    Example:
      check_zkdeployment /etc/zkdeployment/zkdeployment.cfg -w 200 -c 600
    """
    host = _Host(config, zookeeper, warn_age=warn, error_age=error)
    nagiosplugin.Check(host, _Verdict("health"), _Summary()).main(verbose=0, timeout=timeout)
