"""A host's health, as the Nagios check tells it: from the status file and what ZooKeeper has of the host."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from zkdeployment.fleet.status import in_force

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zkdeployment.model.cluster import Cluster
    from zkdeployment.model.stop import Stop
    from zkdeployment.model.tree import Properties

#: Clocks are read to the second by some tools: a status file may be this many seconds ahead.
_TOLERANCE = 1.0


class Health(IntEnum):
    """Nagios' states; the values are its exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class StatusFile:
    """What ``RUN/status`` says: when (seconds since the epoch), who, at which version, at which step."""

    time: float
    pid: int
    version: str
    status: str


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """A host's health, one line that says why, and the age of the status file in seconds, if known."""

    health: Health
    line: str
    age: float | None = None


def parse_status(text: str) -> StatusFile:
    """Read the line ``TIME PID VERSION STATUS``, where STATUS may hold spaces; raises ``ValueError``."""
    fields = text.split(maxsplit=3)
    if len(fields) != 4 or len(text.strip().splitlines()) != 1:
        raise ValueError("expected one line: TIME PID VERSION STATUS")
    time, pid, version, status = fields
    if not math.isfinite(float(time)):
        raise ValueError(f"{time} is not a time")
    return StatusFile(float(time), int(pid), version, status.rstrip())


def host_health(  # noqa: PLR0913  each is one fact
    status: str | None,
    host: Properties | None,
    cluster: Cluster | None,
    stops: Iterable[Stop] = (),
    *,
    now: float,
    warn_age: float = 200,
    error_age: float = 600,
) -> HealthVerdict:
    """Judge one host, first things first.

    ``status`` is the text of the status file, ``None`` if it cannot be read. ``host`` are the properties of the
    host's node, ``None`` if it is not registered. ``stops`` say what stopped the fleet. ``now`` is in seconds
    since the epoch. A step that takes strictly longer than an age, in seconds, is a warning or an error.
    """
    if host is None or cluster is None:
        return HealthVerdict(Health.CRITICAL, "Host not registered")
    if cluster.version is None or cluster.version is False:
        reasons = [str(stop) for stop in in_force(cluster, stops)]
        return HealthVerdict(
            Health.WARNING,
            _one_line(f"Cluster version is {cluster.version}{': ' if reasons else ''}{'; '.join(reasons)}"),
        )
    try:
        found = parse_status(_required(status))
    except ValueError as error:
        return HealthVerdict(Health.CRITICAL, f"Status file unreadable: {error}")
    age = max(now - found.time, 0.0) if now - found.time >= -_TOLERANCE else None
    match found.status.partition(" "):
        case ("error", _, detail):
            why = _one_line(detail or host.get("error") or "see the agent's log")
            return HealthVerdict(Health.CRITICAL, f"Error deploying {found.version}: {why}", age)
        case ("done", _, ""):
            return _judge_done(found.version, host, cluster, age)
    return _judge_age(found, age, warn_age=warn_age, error_age=error_age)


def _required(status: str | None) -> str:
    if status is None:
        raise ValueError("expected a file with TIME PID VERSION STATUS, as an agent writes it")
    return status


def _judge_done(version: str, host: Properties, cluster: Cluster, age: float | None) -> HealthVerdict:
    has = host.get("version")
    if version != str(cluster.version):
        line = f"Version {version} is deployed but the cluster version is {cluster.version}"
    elif has is None:
        line = f"Version {version} is deployed but the host's node has no version"
    elif str(has) != version:
        line = f"Version {version} is deployed but the host's node has version {has}"
    else:
        return HealthVerdict(Health.OK, version, age)
    return HealthVerdict(Health.CRITICAL, line, age)


def _judge_age(found: StatusFile, age: float | None, *, warn_age: float, error_age: float) -> HealthVerdict:
    if age is None:
        return HealthVerdict(Health.UNKNOWN, f"Status file is from the future ({found.status}); check the clock")
    for limit, health in ((error_age, Health.CRITICAL), (warn_age, Health.WARNING)):
        if age > limit:
            line = f"Too long deploying {found.version} ({found.status}: {age:.0f} s, more than {limit:g} s)"
            return HealthVerdict(health, line, age)
    return HealthVerdict(Health.OK, found.status, age)


def _one_line(value: object) -> str:
    """Return a text from elsewhere fit for Nagios: one line, without the bar that starts performance data."""
    return " ".join(str(value).replace("|", "/").split())[:1000]
