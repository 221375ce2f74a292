"""Monitoring systems: their reports, their leases, and their notifications."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.tree.values import Value


#  The most characters of an output that the record keeps.
LONGEST_OUTPUT = 1000


class ResultState(Enum):
    """The state that a monitoring system found."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


_STATES = frozenset(state.value for state in ResultState)


@dataclass(frozen=True, slots=True)
class CheckResult:
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

    def to_json(self) -> dict[str, Value]:
        """Return the stored and printed form of the result."""
        return {
            "state": self.state.value,
            "output": self.output,
            "since": self.since,
            "reported": self.reported,
            "checked": self.checked,
            "config_id": self.config_id,
        }

    @classmethod
    def from_json(cls, value: object) -> CheckResult | None:
        """Return the result that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {
                "state": str(state),
                "output": str(output),
                "since": int() | float() as since,
                "reported": int() | float() as reported,
                **others,
            } if state in _STATES:
                checked, config_id = _time(others.get("checked")), others.get("config_id")
                named = config_id if isinstance(config_id, str) else None
                return cls(ResultState(state), output, since, reported, checked, named)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class SystemContact:
    """The last contacts of a monitoring system, in seconds since the epoch; ``None``: no such contact.

    ``fetched`` is when it last listed or fetched instances, ``reported`` when it last sent results, which is also
    a sign of life when no result has changed.
    """

    fetched: float | None = None
    reported: float | None = None

    def merged(self, later: SystemContact) -> SystemContact:
        """Return the contact after a later one."""
        return SystemContact(
            self.fetched if later.fetched is None else later.fetched,
            self.reported if later.reported is None else later.reported,
        )

    def to_json(self) -> dict[str, Value]:
        """Return the stored and printed form of the contact."""
        return {"fetched": self.fetched, "reported": self.reported}

    @classmethod
    def from_json(cls, value: Mapping[str, Value]) -> SystemContact:
        """Return the contact that ``to_json`` encoded; malformed times read as ``None``."""
        return cls(_time(value.get("fetched")), _time(value.get("reported")))


def _time(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


#  Seconds without a sign of life after which the checks of a monitoring system are unknown.
STALE_AFTER = 300.0


def is_stale(contact: SystemContact | None, now: float) -> bool:
    """Return whether a monitoring system has reported nothing for so long that its results do not count."""
    return contact is None or contact.reported is None or now - contact.reported > STALE_AFTER


#  The length of a lease after a request, and the remaining time below which a request renews it, in seconds.
_DURATION = 120.0
_RENEWED = 80.0


@dataclass(frozen=True, slots=True)
class SystemLease:
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

    def to_json(self) -> dict[str, Value]:
        """Return the stored form of the lease."""
        return {"holder": self.holder, "until": self.until}

    @classmethod
    def from_json(cls, value: Mapping[str, Value]) -> SystemLease | None:
        """Return the lease that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {"holder": str(holder), "until": int() | float() as until, **_others}:
                return cls(holder, until)
            case _:
                return None


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
