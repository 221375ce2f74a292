"""A host's health, as the Nagios check tells it: from the status file and what ZooKeeper has of the host."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from zkdeployment.fleet.stops import in_force, tell
from zkdeployment.model.host import WAITING_PREFIX, Host
from zkdeployment.printable import printable

if TYPE_CHECKING:
    from zkdeployment.fleet.snapshot import Snapshot
    from zkdeployment.model.cluster import Cluster
    from zkdeployment.model.tree import Properties

#: Clocks are read to the second by some tools: a status file may be this many seconds ahead.
_TOLERANCE = 1.0


class Health(IntEnum):
    """Nagios' states; the values are its exit codes."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Range(Protocol):
    """A range of values that is fine, as Nagios writes it: ``200``, ``10:20``, ``@5:10``."""

    def match(self, value: float) -> bool:
        """Whether a value is fine."""


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """What is not in the range ``warn`` is a warning, what is not in ``critical`` is critical."""

    warn: Range
    critical: Range

    def judge(self, value: float) -> tuple[Health, str]:
        """Return the state, and the limit that was crossed in words."""
        for health, fine in ((Health.CRITICAL, self.critical), (Health.WARNING, self.warn)):
            if not fine.match(value):
                text = str(fine)
                return health, f"more than {text}" if text.replace(".", "", 1).isdigit() else f"outside {text}"
        return Health.OK, ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number for the performance data; ``limits`` are those that judge it."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None
    limits: HealthLimits | None = None


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """A health, one line that says why, and what was measured."""

    health: Health
    line: str
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusFile:
    """What ``RUN/status`` says: when (seconds since the epoch), who, at which version, at which step."""

    time: float
    pid: int
    version: str
    status: str


def parse_status(text: str) -> StatusFile:
    """Read the line ``TIME PID VERSION STATUS``, where STATUS may hold spaces; raises ``ValueError``."""
    fields = text.split(maxsplit=3)
    if len(fields) != 4 or len(text.strip().splitlines()) != 1:
        raise ValueError("expected one line: TIME PID VERSION STATUS")
    time, pid, version, status = fields
    if not math.isfinite(float(time)):
        raise ValueError(f"{time} is not a time")
    return StatusFile(float(time), int(pid), version, status.rstrip())


def host_health(
    status: str | None, host: Properties | None, snapshot: Snapshot, *, now: float, limits: HealthLimits
) -> HealthVerdict:
    """Judge one host, first things first; one that waits for its turn in a rollout is well.

    ``status`` is the text of the status file, ``None`` if it cannot be read. ``host`` are the properties of the
    host's node, ``None`` if it is not registered. Of ``snapshot`` the cluster and the stops count. ``now`` is in
    seconds since the epoch. ``limits`` judge how many seconds a step takes.
    """
    cluster = snapshot.cluster
    if host is None or cluster is None:
        return HealthVerdict(Health.CRITICAL, "Host not registered")
    measures = _host_measures(host, snapshot, now)
    if cluster.version is None or cluster.version is False:
        reasons = tell(in_force(cluster, snapshot.stops), now)
        line = f"Cluster version is {cluster.version}{': ' if reasons else ''}{'; '.join(reasons)}"
        return HealthVerdict(Health.WARNING, one_line(line), measures)
    try:
        found = parse_status(_required(status))
    except ValueError as error:
        return HealthVerdict(Health.CRITICAL, f"Status file unreadable: {error}", measures)
    age = max(now - found.time, 0.0) if now - found.time >= -_TOLERANCE else None
    if age is not None:
        measures = (Measure("age", round(age, 1), "s", limits=limits), *measures)
    match found.status.partition(" "):
        case ("error", _, detail):
            why = one_line(detail or host.get("error") or "see the agent's log")
            return HealthVerdict(Health.CRITICAL, f"Error deploying {found.version}: {why}", measures)
        case ("done", _, ""):
            return HealthVerdict(*_judge_done(found.version, host, cluster), measures)
    if found.status.startswith(WAITING_PREFIX):
        return HealthVerdict(Health.OK, one_line(found.status), measures)
    return HealthVerdict(*_judge_age(found, age, limits), measures)


def _host_measures(host: Properties, snapshot: Snapshot, now: float) -> tuple[Measure, ...]:
    """For how long the host has lacked the cluster version, and the steps of its deployment, as far as known."""
    seen = Host.from_properties("", host)
    revision = None if snapshot.cluster is None else snapshot.cluster.revision
    found: list[Measure] = []
    if revision is not None and snapshot.changed is not None:
        lag = 0.0 if seen.has(revision) else max(0.0, now - snapshot.changed)
        found.append(Measure("lag", round(lag, 1), "s"))
    if seen.steps is not None:
        done, total = seen.steps
        found.append(Measure("steps", done, most=total))
    return tuple(found)


def _required(status: str | None) -> str:
    if status is None:
        raise ValueError("expected a file with TIME PID VERSION STATUS, as an agent writes it")
    return status


def _judge_done(version: str, host: Properties, cluster: Cluster) -> tuple[Health, str]:
    has = host.get("version")
    if version != str(cluster.version):
        line = f"Version {version} is deployed but the cluster version is {cluster.version}"
    elif has is None:
        line = f"Version {version} is deployed but the host's node has no version"
    elif str(has) != version:
        line = f"Version {version} is deployed but the host's node has version {has}"
    else:
        return Health.OK, version
    return Health.CRITICAL, line


def _judge_age(found: StatusFile, age: float | None, limits: HealthLimits) -> tuple[Health, str]:
    if age is None:
        return Health.UNKNOWN, f"Status file is from the future ({found.status}); check the clock"
    health, crossed = limits.judge(age)
    if health is Health.OK:
        return health, found.status
    return health, f"Too long deploying {found.version} ({found.status}: {age:.0f} s, {crossed} s)"


def one_line(value: object) -> str:
    """Return a text from elsewhere fit for Nagios: one line, without the bar that starts performance data."""
    return printable(" ".join(str(value).replace("|", "/").split()))[:1000]
