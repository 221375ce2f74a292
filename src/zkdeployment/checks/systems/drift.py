"""Drift: checks that a monitoring system runs, but that differ from those that the service has deployed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.checks.overview import host_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.model.tree import Value

#: Seconds after which a check that is not reported any more is no drift any more.
_REMEMBERED = 3600.0

#: Seconds after which a drift that is reported again is recorded again, and how many are recorded.
_PACE = 60.0
_MOST = 500


@dataclass(frozen=True, slots=True)
class DroppedResult:
    """Results of an instance that were dropped because they are of another configuration.

    ``config_id`` is that configuration; empty if the monitoring system named none. Results of it have been dropped
    from ``since`` until ``seen``, in seconds since the epoch.
    """

    config_id: str
    since: float
    seen: float

    def to_json(self) -> dict[str, Value]:
        """Return the stored form of the record."""
        return {"config_id": self.config_id, "since": self.since, "seen": self.seen}

    @classmethod
    def from_json(cls, value: object) -> DroppedResult | None:
        """Return the record that ``to_json`` encoded; ``None`` for anything else."""
        match value:
            case {
                "config_id": str(config_id),
                "since": int() | float() as since,
                "seen": int() | float() as seen,
                **_others,
            }:
                return cls(config_id, since, seen)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class CheckDrift:
    """A check that a monitoring system runs in the configuration ``reported`` instead of ``expected``.

    ``instance`` is ``None`` if it does not exist, and ``expected`` if the system should not run the check.
    """

    id: str
    system: str
    reported: str
    expected: str | None
    since: float
    seen: float
    instance: CheckInstance | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the drift as ``checks drift -o json`` prints it."""
        key = None if self.instance is None else self.instance.key
        return {
            "id": self.id,
            "monitoring": self.system,
            "check": None if key is None else key.check,
            "path": None if key is None else key.path,
            "number": None if key is None else key.number,
            "host": None if key is None else key.host,
            "name": None if self.instance is None else host_name(self.instance),
            "reported": self.reported or None,
            "expected": self.expected,
            "since": self.since,
            "seen": self.seen,
        }


def expected_configuration(instance: CheckInstance | None, system: str) -> str | None:
    """Return the configuration that a monitoring system is to run; ``None`` if the instance is not its own."""
    current = None if instance is None or instance.system != system else instance.current_configuration
    return None if current is None else current.config_id


def with_report(
    known: Mapping[str, DroppedResult], dropped: Mapping[str, str], kept: Collection[str], now: float
) -> dict[str, DroppedResult]:
    """Return the records of a monitoring system after it reported results.

    ``dropped`` are the configurations of dropped results, and ``kept`` the instances whose results count.
    """
    records = {
        instance: record
        for instance, record in known.items()
        if instance not in kept and now - record.seen < _REMEMBERED
    }
    for instance, config_id in dropped.items():
        former = records.get(instance)
        if former is None or former.config_id != config_id:
            records[instance] = DroppedResult(config_id, now, now)
        elif abs(now - former.seen) >= _PACE:
            records[instance] = DroppedResult(config_id, former.since, now)
    return dict(sorted(records.items(), key=lambda item: (-item[1].seen, item[0]))[:_MOST])


def check_drift(
    records: Mapping[str, Mapping[str, DroppedResult]], instances: Mapping[str, CheckInstance], now: float
) -> tuple[CheckDrift, ...]:
    """Return the present drift; ``records`` are by monitoring system and instance."""
    return tuple(
        CheckDrift(instance_id, system, record.config_id, expected, record.since, record.seen, found)
        for system, dropped in sorted(records.items())
        for instance_id, record in sorted(dropped.items())
        for found in (instances.get(instance_id),)
        for expected in (expected_configuration(found, system),)
        if now - record.seen < _REMEMBERED and expected != record.config_id
    )
