"""Judges the health of a host for the Nagios check, from its status file and its node in ZooKeeper.

The health of the whole fleet is in ``fleet_health``.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import INITIAL, Cluster
from zkdeployment.base.host import WAITING_PREFIX, Host
from zkdeployment.base.text import printable
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.snapshot import FleetSnapshot, describe_stops, stops_in_force

if TYPE_CHECKING:
    from nagiosplugin import Range

    from zkdeployment.base.json_values import Properties

#: Seconds that a status file may be in the future: some tools read the clock to the second.
_TOLERANCE = 1.0


class Health(IntEnum):
    """The states of Nagios; the values are its exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True)
class HealthLimits:
    """Values outside of the range ``warn`` are a warning, values outside of ``critical`` are critical.

    Ranges of acceptable values have the notation of Nagios: ``200``, ``10:20``, ``@5:10``.
    """

    warn: Range
    critical: Range

    def judge(self, value: float) -> tuple[Health, str]:
        """Return the state, and a description of the exceeded limit, empty for ``OK``."""
        for health, accepted in ((Health.CRITICAL, self.critical), (Health.WARNING, self.warn)):
            if not accepted.match(value):
                text = str(accepted)
                return health, f"more than {text}" if text.replace(".", "", 1).isdigit() else f"outside {text}"
        return Health.OK, ""


@dataclass(frozen=True)
class Measure:
    """A number for the performance data, with the ``limits`` that apply to it, if any."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    limits: HealthLimits | None = None


@dataclass(frozen=True)
class HealthVerdict:
    """A state, one line with the reason, and the measures for the performance data."""

    health: Health
    line: str
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusFile:
    """The content of ``RUN/status``; ``time`` is in seconds since the epoch."""

    time: float
    pid: int
    version: str
    status: str


def parse_status(text: str) -> StatusFile:
    """Parse the line ``TIME PID VERSION STATUS``, where STATUS may hold spaces; raises ``ValueError``."""
    fields = text.split(maxsplit=3)
    if len(fields) != 4 or len(text.strip().splitlines()) != 1:
        raise ValueError("expected one line: TIME PID VERSION STATUS")
    time, pid, version, status = fields
    if not math.isfinite(float(time)):
        raise ValueError(f"{time} is not a time: expected seconds since the epoch")
    return StatusFile(float(time), int(pid), version, status.rstrip())


def host_health(
    status: str | None, host: Properties | None, snapshot: FleetSnapshot, *, now: float, limits: HealthLimits
) -> HealthVerdict:
    """Judge one host by the first problem that applies; a host that waits for a rollout is ``OK``.

    ``status`` is the text of the status file, ``None`` if it cannot be read. ``host`` are the properties of the
    host's node, ``None`` if the host is not registered. ``snapshot`` has the cluster, its stops, and only the
    maintenance of this host. ``now`` is in seconds since the epoch. ``limits`` are in seconds and apply to the
    duration of a step.
    """
    cluster = snapshot.cluster
    for maintenance in snapshot.maintenance.values():
        return HealthVerdict(Health.OK, one_line(f"Host is {maintenance}"))
    if host is None or cluster is None:
        return HealthVerdict(Health.CRITICAL, one_line(_not_registered(status, cluster)))
    measures = _host_measures(host, snapshot, now)
    if cluster.version is None or cluster.version is False:
        reasons = describe_stops(stops_in_force(snapshot), now)
        line = f"Cluster version is {cluster.version}{': ' if reasons else ''}{'; '.join(reasons)}"
        return HealthVerdict(Health.WARNING, one_line(line), measures)
    try:
        file = parse_status(_required(status))
    except ValueError as error:
        return HealthVerdict(Health.CRITICAL, f"Status file unreadable: {error}", measures)
    age = max(now - file.time, 0.0) if now - file.time >= -_TOLERANCE else None
    if age is not None:
        measures = (Measure("age", round(age, 1), "s", limits=limits), *measures)
    match file.status.partition(" "):
        case ("error", _, detail):
            reason = one_line(detail or host.get("error") or "see the agent's log")
            return HealthVerdict(Health.CRITICAL, f"Error deploying {file.version}: {reason}", measures)
        case ("done", _, ""):
            health, line = _judge_done(file.version, host, cluster)
            lease = Host.from_properties("", host).lease_text
            return HealthVerdict(health, one_line(f"{line}, {lease}" if lease else line), measures)
    if file.status.startswith(WAITING_PREFIX):
        return HealthVerdict(Health.OK, one_line(file.status), measures)
    return HealthVerdict(*_judge_age(file, age, limits), measures)


def _not_registered(status: str | None, cluster: Cluster | None) -> str:
    """Return the line for a host without a node, also if its status file contradicts an empty ZooKeeper."""
    line = "Host not registered"
    if cluster is not None and cluster.version != INITIAL:
        return line
    try:
        version = parse_status(status or "").version
    except ValueError:
        return line
    if version in {str(None), INITIAL}:
        return line
    found = "there is no /hosts" if cluster is None else f"the cluster version is {INITIAL}"
    return (
        f"Host not registered: the host's status file has version {version}, but {found}; ZooKeeper was wiped or"
        " restored from an old backup, or this is another ensemble"
    )


def _host_measures(host: Properties, snapshot: FleetSnapshot, now: float) -> tuple[Measure, ...]:
    """Return the time without the cluster version, and the steps of the deployment, if known."""
    registered = Host.from_properties("", host)
    revision = None if snapshot.cluster is None else snapshot.cluster.revision
    measures: list[Measure] = []
    if revision is not None and snapshot.changed is not None:
        lag = 0.0 if registered.has(revision) else max(0.0, now - snapshot.changed)
        measures.append(Measure("lag", round(lag, 1), "s"))
    if registered.steps is not None:
        done, total = registered.steps
        measures.append(Measure("steps", done, most=total))
    return tuple(measures)


def _required(status: str | None) -> str:
    if status is None:
        raise ValueError("expected a file with TIME PID VERSION STATUS, as an agent writes it")
    return status


def _judge_done(version: str, host: Properties, cluster: Cluster) -> tuple[Health, str]:
    registered = host.get("version")
    if version != str(cluster.version):
        line = f"Version {version} is deployed but the cluster version is {cluster.version}"
    elif registered is None:
        line = f"Version {version} is deployed but the host's node has no version"
    elif str(registered) != version:
        line = f"Version {version} is deployed but the host's node has version {registered}"
    else:
        return Health.OK, version
    return Health.CRITICAL, line


def _judge_age(file: StatusFile, age: float | None, limits: HealthLimits) -> tuple[Health, str]:
    if age is None:
        return Health.UNKNOWN, f"Status file is from the future ({file.status}); check the clock"
    health, crossed = limits.judge(age)
    if health is Health.OK:
        return health, file.status
    return health, f"Too long deploying {file.version} ({file.status}: {age:.0f} s, {crossed} s)"


def one_line(value: object) -> str:
    """Return a text in the form that Nagios accepts: one line without the bar that begins performance data."""
    return printable(" ".join(str(value).replace("|", "/").split()))[:1000]
