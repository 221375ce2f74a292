"""Monitoring systems: their reports, their leases, and their notifications."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.durations import seconds_ahead
from zkdeployment.base.records import Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from zkdeployment.fleet.views.snapshot import FleetSnapshot

#: The most characters of an output that the record keeps.
LONGEST_OUTPUT = 1000


class ResultState(Enum):
    """The state that a monitoring system found."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult(Record):
    """The last result of a check instance.

    ``since`` is when the check came into its state, ``reported`` when the monitoring system reported the result,
    and ``checked`` when the check ran, if the system reports it. Times are in seconds since the epoch.
    ``config_id`` is the configuration that ran, if the system reports it.
    """

    state: ResultState
    output: str
    since: float
    reported: float
    checked: float | None = None
    config_id: str | None = None

    def is_of(self, config_id: str) -> bool:
        """Whether the result may belong to a configuration: it does not name another one."""
        return self.config_id in {None, config_id}

    def is_newer(self, deployed: float, activated: float) -> bool:
        """Return whether the check ran after a deployment, and was reported after its details became active."""
        ran = self.reported if self.checked is None else min(self.checked, self.reported)
        return ran > deployed and self.reported > activated


@dataclass(frozen=True, slots=True)
class SystemContact(Record):
    """The last contacts of a monitoring system, in seconds since the epoch; ``None``: no such contact.

    ``fetched`` is when it last listed or fetched instances, ``reported`` when it last sent results, which is also
    a sign of life when no result has changed.
    """

    is_lenient: ClassVar[bool] = True
    fetched: float | None = None
    reported: float | None = None

    def merged(self, later: SystemContact) -> SystemContact:
        """Return the contact after a later one."""
        return SystemContact(
            self.fetched if later.fetched is None else later.fetched,
            self.reported if later.reported is None else later.reported,
        )


#: Seconds without a sign of life after which the checks of a monitoring system are unknown.
STALE_AFTER = 300.0


def is_stale(contact: SystemContact | None, now: float) -> bool:
    """Return whether a monitoring system has reported nothing for so long that its results do not count.

    A report from the future shows nothing: a service whose clock is ahead recorded it, at an unknown time.
    """
    if contact is None or contact.reported is None:
        return True
    return now - contact.reported > STALE_AFTER or seconds_ahead(contact.reported, now) > 0


#: Seconds for which a bridge may remove many unknown checks after an operator has allowed it.
REMOVAL_ALLOWED = 3600.0


def is_removal_allowed(until: float, now: float) -> bool:
    """Return whether a permission to remove unknown checks that ends at ``until`` counts.

    A permission that ends too late does not count: the clock of the machine that wrote it was wrong.
    """
    return now < until and not seconds_ahead(until - REMOVAL_ALLOWED, now)


def hosts_at_work(fleet: FleetSnapshot) -> frozenset[str]:
    """Return the ids of the hosts whose checks may fail: in a deployment step, a reboot or maintenance."""
    working = (
        host.identity.id
        for host in fleet.hosts
        if host.deploying is not None and host.step is not None and not host.is_waiting
    )
    return frozenset(working).union(fleet.maintenance, fleet.expected_back)


#: The length of a lease after a request, and the remaining time below which a request renews it, in seconds.
_DURATION = 120.0
_RENEWED = 80.0


@dataclass(frozen=True, slots=True)
class SystemLease(Record):
    """The bridge that gets the updates of a monitoring system until a time, in seconds since the epoch."""

    holder: str
    until: float

    def is_held(self, now: float) -> bool:
        """Whether the lease is valid; if it ends too late, the clock of the service that wrote it was wrong."""
        return now < self.until <= now + 2 * _DURATION

    @property
    def end(self) -> str:
        """The end of the lease in words."""
        return datetime.fromtimestamp(self.until, UTC).isoformat(sep=" ", timespec="seconds")


def lease_after(lease: SystemLease | None, bridge: str, now: float) -> SystemLease | None:
    """Return the lease after a request of a bridge: its own lease, or that of the bridge that holds one.

    A bridge without a name (an empty text) gets no lease.
    """
    if lease is not None and lease.is_held(now) and (lease.holder != bridge or lease.until - now >= _RENEWED):
        return lease
    return SystemLease(bridge, now + _DURATION) if bridge else None


@dataclass(frozen=True, slots=True)
class Poke:
    """A poke of the callback of a monitoring system.

    ``flag`` is the count of the instance's flag for which the poke is sent; a success clears the flag only for
    this count.
    """

    instance: str
    callback: str
    flag: int
