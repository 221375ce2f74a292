"""The columns of tables of hosts, on a terminal and on the page, and the order of hosts by each column."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zkdeployment.base.cluster import short
from zkdeployment.base.values import dataclass
from zkdeployment.fleet.views.status import HostState, HostStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.base.act import Maintenance
    from zkdeployment.base.machine.reboots import RebootRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table of hosts.

    ``value`` names the column in the address of a list that is sorted by the column. ``heading`` and ``text`` are
    the heading and the cells on a terminal, ``title`` and ``shown`` those on the page; without ``shown``, the page
    shows ``text``. ``order`` returns the sort key of a host; lists are not sorted by a column without it. The
    cells of a ``whole`` column are never broken. A ``dispensable`` column is omitted on a narrow terminal if all
    its cells are equal.
    """

    value: str
    text: Callable[[HostStatus], str]
    heading: str = ""
    title: str = ""
    shown: Callable[[HostStatus], str] | None = None
    order: Callable[[HostStatus], Any] | None = None
    whole: bool = False
    dispensable: bool = False

    def page_text(self, host: HostStatus) -> str:
        """Return the cell of a host on the page."""
        return (self.shown or self.text)(host)


#: States by urgency, the most urgent first.
URGENCY = (
    HostState.FAILED,
    HostState.ABSENT,
    HostState.REBOOTING,
    HostState.DEPLOYING,
    HostState.BEHIND,
    HostState.MAINTENANCE,
    HostState.CONVERGED,
    HostState.EXCLUDED,
    HostState.UNKNOWN,
)


def _version(version: str | int | None) -> str:
    return "-" if version is None else short(version)


def _shown_version(host: HostStatus) -> str:
    if host.version is not None:
        return short(host.version)
    return "none" if host.former is None else f"none, before {short(host.former)}"


def _reboot(reboot: RebootRecord) -> str:
    return f"{reboot.step}, {reboot.return_text}"


def _step(host: HostStatus) -> str:
    if host.maintenance is not None:
        return _maintenance(host, host.maintenance)
    if host.reboot is not None:
        return _reboot(host.reboot)
    steps = "" if host.steps is None or host.steps == (0, 0) else f"{host.steps[0]}/{host.steps[1]} "
    return steps + (host.step or host.lease_text)


def _maintenance(host: HostStatus, maintenance: Maintenance) -> str:
    step = host.step if maintenance.is_draining else None
    return f"{maintenance}; {step}" if step else str(maintenance)


def _shown_step(host: HostStatus) -> str:
    if host.maintenance is not None:
        return _maintenance(host, host.maintenance)
    if host.reboot is not None:
        return _reboot(host.reboot)
    done, total = host.steps or (0, 0)
    progress = f"{done} of {total} steps" if total else ""
    return host.error or ": ".join(filter(None, (progress, host.step)))


def _since(host: HostStatus) -> str:
    return (
        "" if host.since is None else f"{datetime.fromtimestamp(host.since, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    )


NAME = Column(
    value="name",
    heading="HOST",
    title="Host",
    text=lambda host: host.name,
    order=lambda host: (host.name, host.id),
    whole=True,
)
ID = Column(value="id", heading="ID", text=lambda host: host.id)
ROLE = Column(
    value="role",
    heading="ROLE",
    title="Role",
    text=lambda host: host.role or "-",
    shown=lambda host: host.role or "",
    order=lambda host: (host.role is None, host.role or ""),
    dispensable=True,
)
STATE = Column(
    value="state",
    heading="STATE",
    title="State",
    text=lambda host: host.state.value,
    order=lambda host: URGENCY.index(host.state),
    whole=True,
)
VERSION = Column(
    value="version",
    heading="VERSION",
    title="Revision",
    text=lambda host: _version(host.version) if host.former is None else f"- (had {short(host.former)})",
    shown=_shown_version,
    order=lambda host: (host.version is None, str(host.version)),
)
WANTED = Column(value="wanted", heading="WANTED", text=lambda host: _version(host.wanted), dispensable=True)
STEP = Column(value="step", heading="STEP", title="Now", text=_step, shown=_shown_step, dispensable=True)
SINCE = Column(
    value="since",
    heading="SINCE",
    title="Since",
    text=_since,
    order=lambda host: (host.since is None, -(host.since or 0.0)),
)

#: The columns of the verb ``status``, and those of the page.
ON_TERMINAL = (NAME, ID, ROLE, STATE, VERSION, WANTED, STEP, SINCE)
ON_PAGE = (NAME, STATE, ROLE, VERSION, SINCE, STEP)

#: The columns by which a list can be sorted, the default first.
SORTED_BY = (STATE, *(column for column in ON_PAGE if column.order is not None and column is not STATE))
