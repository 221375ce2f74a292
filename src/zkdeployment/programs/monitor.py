"""The Nagios checks of a host and of the fleet: the facts that they judge, and their output.

The state and the message are decided in ``fleet.views.health`` and ``fleet.views.fleet_health``. The functions
here work without click, which a host's check does not need; that check runs every two minutes. Options belong to
``monitor_verb``.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import nagiosplugin

from zkdeployment.base.errors import UnreachableError, ZkdeploymentError
from zkdeployment.cli.terminal import echo
from zkdeployment.config.settings import (
    checked_connection,
    find_servers,
    fleet_settings,
    load,
    named_configuration,
)
from zkdeployment.fleet.store.one_host import read_host
from zkdeployment.fleet.views.health import Health, HealthLimits, HealthVerdict, Measure, host_health, one_line
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.base.json_values import Properties
    from zkdeployment.config.settings import Settings
    from zkdeployment.fleet.views.fleet_health import MonitoredFleet
    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.zookeeper.servers import Servers


def read_own_host(servers: Servers, host_id: str, *, timeout: float) -> tuple[FleetSnapshot, Properties | None]:
    """Return the cluster with the record of a stop, and the host's node (``None`` if it is not registered).

    Raises ``UnreachableError`` before ``timeout`` seconds have passed.
    """
    with _open(servers, timeout) as session:
        return read_host(session, host_id)


def read_fleet(servers: Servers, *, timeout: float, settings: Settings | None = None) -> MonitoredFleet:
    """Return the fleet with its locks, its syncer and the alarms of features; raises as ``read_own_host``."""
    from zkdeployment.base.features import installed  # noqa: PLC0415  the check of a host starts faster without it
    from zkdeployment.fleet.places import FleetPlaces  # noqa: PLC0415
    from zkdeployment.fleet.store.contention import read_locks  # noqa: PLC0415  see above
    from zkdeployment.fleet.store.fleet_reader import ZooKeeperFleetReader  # noqa: PLC0415
    from zkdeployment.fleet.views.fleet_health import MonitoredFleet  # noqa: PLC0415

    with _open(servers, timeout) as session:
        reader = ZooKeeperFleetReader(session)
        locks, syncer = read_locks(session), reader.syncer_report()
        reading = [places.alarms for places in installed(FleetPlaces) if places.alarms is not None]
        alarms = [read(session, time.time()) for read in reading]
        snapshot = reader.snapshot()
        return MonitoredFleet(snapshot, locks, syncer, alarms, reader.services(snapshot), settings)


def _open(servers: Servers, timeout: float) -> Session:
    """Return a session that reports ZooKeeper's silence before the time limit of the whole check."""
    return Session(servers, session_timeout=10, call_timeout=0.6 * timeout, close_timeout=0.2 * timeout)


_STATES = {
    Health.OK: nagiosplugin.Ok,
    Health.WARNING: nagiosplugin.Warn,
    Health.CRITICAL: nagiosplugin.Critical,
    Health.UNKNOWN: nagiosplugin.Unknown,
}
#: Bytes of a status file that are read; a valid status file is one short line.
_LARGEST_STATUS = 65536

#: The seconds after which the state is unknown, unless an option names others.
TIMEOUT = 10

#: The default limits for warning and critical: seconds of a host's step, and minutes for the fleet.
_HOST_LIMITS = ("200", "600")
_FLEET_LIMITS = ("15", "30")


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
    """The resource of the check: the host or the fleet."""

    name = "ZKDEPLOYMENT"

    def __init__(self, judge: Callable[[], HealthVerdict]) -> None:
        self._judge = judge

    def probe(self) -> Iterator[Any]:
        """Yield the verdict and its measures."""
        verdict = self._judge()
        yield nagiosplugin.Metric("health", verdict, context="health")
        for measure in verdict.measures:
            yield nagiosplugin.Metric(measure.name, measure, context="measured")


def check_host(
    config: Path,
    warn: str | None = None,
    critical: str | None = None,
    *,
    zookeeper: str | None = None,
    timeout: int = TIMEOUT,
) -> NoReturn:
    """Check the configured host and exit with its state.

    ``warn`` and ``critical`` are ranges of seconds that ``nagiosplugin`` accepts.
    """
    limits = _limits(warn, critical, _HOST_LIMITS)
    _check(lambda: _judge_host(config, zookeeper, limits, timeout), timeout)


def check_fleet(
    config: Path | None, warn: str | None, critical: str | None, *, zookeeper: str | None, timeout: int
) -> NoReturn:
    """Check the whole fleet and exit with its state; as ``check_host``, but with ranges of minutes."""
    limits = _limits(warn, critical, _FLEET_LIMITS)
    _check(lambda: _judge_fleet(zookeeper, config or named_configuration(), limits, timeout), timeout)


def exit_unknown(reason: str) -> NoReturn:
    """Print why the state is unknown, and exit with that state."""
    echo(f"ZKDEPLOYMENT UNKNOWN: {reason}")
    sys.exit(Health.UNKNOWN)


def _limits(warn: str | None, critical: str | None, defaults: tuple[str, str]) -> HealthLimits:
    return HealthLimits(
        *(
            nagiosplugin.Range(default if given is None else given)
            for given, default in zip((warn, critical), defaults, strict=True)
        )
    )


def _check(judge: Callable[[], HealthVerdict], timeout: int) -> NoReturn:
    """Print the verdict and exit with its state."""
    check = nagiosplugin.Check(
        _Judged(lambda: _verdict(judge)), _Verdict("health"), _Performance("measured"), _Summary()
    )
    with contextlib.suppress(nagiosplugin.Timeout):
        check.main(verbose=0, timeout=timeout)
    exit_unknown(f"this check did not end within {timeout} s")


def _verdict(judge: Callable[[], HealthVerdict]) -> HealthVerdict:
    """Return the verdict; a failure to read the configuration or ZooKeeper gives a verdict, too."""
    try:
        return judge()
    except UnreachableError as unreachable:
        return HealthVerdict(Health.CRITICAL, one_line(unreachable))
    except ZkdeploymentError as problem:
        return HealthVerdict(Health.UNKNOWN, one_line(problem))


def _judge_host(config: Path, zookeeper: str | None, limits: HealthLimits, timeout: float) -> HealthVerdict:
    settings = load(config)
    identity = settings.require_identity()
    status = _read_status(settings.require_run_directory() / "status")
    connection = checked_connection(zookeeper, "--zookeeper") or settings.zookeeper
    servers = replace(settings.servers, connection=connection)
    snapshot, host = read_own_host(servers, identity.id, timeout=timeout)
    return host_health(status, host, snapshot, now=time.time(), limits=limits)


def _judge_fleet(
    zookeeper: str | None, config: Path | None, limits: HealthLimits, timeout: float
) -> HealthVerdict:
    from zkdeployment.fleet.views.fleet_health import fleet_health  # noqa: PLC0415  a host's check starts faster without it

    servers = find_servers(zookeeper, config)
    fleet = read_fleet(servers, timeout=timeout, settings=fleet_settings(config))
    return fleet_health(fleet, now=time.time(), limits=limits)


def _read_status(file: Path) -> str | None:
    try:
        with file.open("rb") as opened:
            return opened.read(_LARGEST_STATUS).decode("utf-8", errors="replace")
    except OSError:
        return None
