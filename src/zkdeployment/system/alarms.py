"""The warnings about operating systems in the monitor of the fleet, and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from zkdeployment.base.durations import age
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.config.forms import DAYS, YES_NO, SectionSettings, setting
from zkdeployment.fleet.views.health import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.fleet.views.fleet_health import AlarmTimes
    from zkdeployment.system.views import HostSystemRow, SystemsStatus

#: The limit of hosts that a warning names.
_NAMED = 3

_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class SystemSettings(SectionSettings):
    """The settings of the monitor's warnings about operating systems: the table of ``[system]``."""

    SECTION: ClassVar[str] = "system"
    PLACE: ClassVar[int] = 90

    reboot_days: int = setting(DAYS, 7)
    """The number of days after which the monitor of the fleet warns of a reboot that is due."""

    release_days: int = setting(DAYS, 45)
    """The number of days since its last update after which the monitor of the fleet warns of a host that lacks the
    wanted release."""

    kernels: bool = setting(YES_NO, True)
    """Whether the monitor of the fleet warns of a host that runs another kernel than its newest one although no
    reboot is due."""


SECTIONS = (SystemSettings,)


def system_alarms(status: SystemsStatus, times: AlarmTimes) -> Iterator[tuple[Health, str]]:
    """Yield the warnings about due reboots, old releases and kernels, each with the first hosts by name."""
    settings = times.settings.given_or_default(SystemSettings) if times.settings is not None else None
    settings, now = settings or SystemSettings(), times.now
    due, old, kernels = [], [], []
    for row in status.hosts:
        since = None if row.system is None else row.system.due
        if since is not None and now - since > settings.reboot_days * _DAY:
            due.append(f"{row.name} ({age(now - since)})")
        if row.wanted not in {None, row.release} and _lag(row, times) > settings.release_days * _DAY:
            old.append(f"{row.name} ({row.release or 'never updated'} instead of {row.wanted})")
        if settings.kernels and since is None and row.has_other_kernel:
            kernels.append(row.name)
    for hosts, one, many in (
        (due, "has a reboot due", "have a reboot due"),
        (old, "lacks the wanted release", "lack the wanted release"),
        (kernels, "runs another kernel than its newest one", "run another kernel than their newest one"),
    ):
        if hosts:
            yield (
                Health.WARNING,
                f"{counted(len(hosts), 'host')} {one if len(hosts) == 1 else many}: {listing(hosts, _NAMED)}",
            )


def _lag(row: HostSystemRow, times: AlarmTimes) -> float:
    """Return the seconds since the last update of a host; before the first one, those since the publication."""
    if row.system is None or row.system.updated is None:
        return times.published_for
    return times.now - row.system.updated
