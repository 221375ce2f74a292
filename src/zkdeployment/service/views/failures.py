"""The failures of hosts on pages: hosts with the same error are one group, with the last lines of their script."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Revision, short
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.status import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.views.snapshot import FleetSnapshot
    from zkdeployment.fleet.views.status import FleetStatus

#: Seconds after which a time of the day alone could be that of another day.
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class HostFailure:
    """One host that failed, with its error, at ``time`` in seconds since the epoch; 0 if the time is unknown.

    ``output`` are the last lines of the failed script. ``stops`` is whether the failure stopped the fleet.
    """

    id: str
    name: str
    step: str
    error: str
    time: float = 0.0
    revision: Revision | None = None
    output: str = ""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Hosts that failed at the same step with the same error, in the order of their failures."""

    hosts: tuple[HostFailure, ...]

    @property
    def error(self) -> str:
        """The error that all these hosts have."""
        return self.hosts[0].error

    @property
    def title(self) -> str:
        """The failure in a few words: ``2 hosts failed at deploy /shop/web 0 of c1fb3efd0f91``."""
        step = f" at {self.hosts[0].step}" if self.hosts[0].step else ""
        revision = next((f" of {short(host.revision)}" for host in self.hosts if host.revision is not None), "")
        return f"{counted(len(self.hosts), 'host', ',')} failed{step}{revision}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines of the failed script on the first of these hosts that has any."""
        return tuple(next((host.output for host in self.hosts if host.output), "").splitlines())

    @property
    def first(self) -> float | None:
        """When the first of these hosts failed; ``None`` if that is unknown."""
        return min((host.time for host in self.hosts if host.time), default=None)

    def summary(self, now: float) -> str:
        """Return the number of hosts and the first time: ``2 hosts, same error, first at 03:12:04``."""
        clock = _clock(self.first, now)
        if len(self.hosts) == 1:
            return f"at {clock}" if clock else ""
        alike = f"{len(self.hosts):,} hosts, same error"
        return f"{alike}, first at {clock}" if clock else alike


def failure_groups(snapshot: FleetSnapshot, status: FleetStatus) -> tuple[FailureGroup, ...]:
    """Return failures by step and error: those that stopped the fleet first, then the largest groups."""
    alike: dict[tuple[str, str], list[HostFailure]] = {}
    for host in _failed_hosts(snapshot, status):
        alike.setdefault((host.step, host.error), []).append(host)
    groups = [FailureGroup(tuple(sorted(hosts, key=lambda host: host.time))) for hosts in alike.values()]
    return tuple(
        sorted(groups, key=lambda group: (not any(host.stops for host in group.hosts), -len(group.hosts)))
    )


def _failed_hosts(snapshot: FleetSnapshot, status: FleetStatus) -> Iterator[HostFailure]:
    """Yield each failed host once; the record of a stop is kept after the agent of its host has ended."""
    hosts = {host.identity.id: host for host in snapshot.hosts}
    stopping = {stop.host_id: stop for stop in reversed(status.stops) if stop.by is None and not stop.repaired}
    for host_id, stop in reversed(stopping.items()):
        present = hosts.get(host_id)
        output = "" if present is None or present.error != stop.reason else present.output or ""
        yield HostFailure(
            host_id, stop.host_name, stop.step, stop.reason, stop.time, stop.revision, output, stops=True
        )
    for shown in status.hosts:
        if shown.error is not None and shown.state is HostState.FAILED and shown.id not in stopping:
            present = hosts.get(shown.id)
            step = "" if present is None or present.failed is None else present.failed.step
            output = "" if present is None else present.output or ""
            yield HostFailure(shown.id, shown.name, step, shown.error, shown.since or 0.0, output=output)


def _clock(time: float | None, now: float) -> str:
    """Return a time in UTC as people read a clock, with the date unless it is from the last day."""
    if time is None:
        return ""
    try:
        at = datetime.fromtimestamp(time, UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    return f"{at:%H:%M:%S}" if 0 <= now - time < _DAY else f"{at:%Y-%m-%d %H:%M:%S}"
