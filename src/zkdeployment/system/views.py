"""The operating systems of hosts, composed once for the verb, the API, the page and the monitor."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.base.records import Record
from zkdeployment.base.system import HostSystem
from zkdeployment.base.text import counted, listing
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.targets.services import unchecked_systems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import KnownHost
    from zkdeployment.base.publication import Targets

#: The headings of the columns on a terminal and on the page, in the order of ``HostSystemRow.cells``.
HEADINGS = ("HOST", "RELEASE", "WANTED", "KERNEL", "REBOOT DUE", "ADVISORIES", "EXCEPTIONS")

#: The limit of packages or hosts that a cell or a sentence names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class HostSystemRow(Record):
    """The operating system of a host that has a system node, or that has updated its system for one.

    ``path`` is its system node, ``wanted`` the release that the node brings; both are null without a node,
    ``wanted`` also for a node that only reboots. ``system`` is the last report of the host, null before the first.
    """

    id: str
    name: str
    path: str | None
    wanted: str | None
    system: HostSystem | None

    @property
    def release(self) -> str | None:
        """The release of the last completed update."""
        return None if self.system is None else self.system.release

    def cells(self, now: float) -> tuple[str, ...]:
        """Return the cells of the host below ``HEADINGS``, at a time in seconds since the epoch."""
        kernel = "" if self.system is None else self.system.kernel
        if self.system is not None and self.has_other_kernel:
            kernel = f"{kernel} (installed: {self.system.installed_kernel})"
        advisories = None if self.system is None else self.system.advisories
        lacks = "-" if advisories is None else str(advisories)
        release, wanted = self.release or "-", self.wanted or "-"
        return self.name, release, wanted, kernel or "-", self.due_text(now), lacks, self.exceptions_text

    @property
    def has_other_kernel(self) -> bool:
        """Whether the host runs another kernel than the newest installed one."""
        system = self.system
        return system is not None and system.installed_kernel not in {None, system.kernel}

    @property
    def exceptions_text(self) -> str:
        """The packages that updates do not treat like all others, by kind; empty without any."""
        exceptions = {} if self.system is None else self.system.exceptions
        return "; ".join(f"{kind}: {names}" for kind, names in exceptions.items())

    def due_text(self, now: float) -> str:
        """Return since when a reboot is due, and the packages that ask for it; empty if none is due."""
        if self.system is None or self.system.due is None:
            return ""
        return f"for {age(now - self.system.due)}: {listing(self.system.reasons, _NAMED)}"


@dataclass(frozen=True, slots=True)
class SystemsStatus(Record):
    """The operating systems of all hosts with system nodes, and a summary in one sentence."""

    hosts: tuple[HostSystemRow, ...] = ()
    summary: str = "no host has a system node"


def has_systems(targets: Targets) -> bool:
    """Return whether the published tree has a system node."""
    return any(entry.system is not None for entries in targets.values() for entry in entries)


def systems_status(
    identities: Iterable[Identity], known: Mapping[str, KnownHost], targets: Targets
) -> SystemsStatus:
    """Return the operating systems of hosts, by name; ``known`` are their last reports, by id."""
    rows = []
    for identity in identities:
        wanted = next((entry.system for entry in unchecked_systems(identity, targets)), None)
        report = known.get(identity.id)
        system = None if report is None else report.system
        if wanted is not None or (system is not None and system.release is not None):
            path, release = (None, None) if wanted is None else (wanted.path, wanted.new_release)
            rows.append(HostSystemRow(identity.id, identity.name, path, release, system))
    rows.sort(key=lambda row: (row.name, row.id))
    return SystemsStatus(tuple(rows), _summary(rows)) if rows else SystemsStatus()


def _summary(rows: Sequence[HostSystemRow]) -> str:
    counts = Counter(row.release for row in rows)
    waiting = counts.pop(None, 0)
    due = sum(row.system is not None and row.system.due is not None for row in rows)
    parts = [
        f"{counted(count, 'host') if not index else count} at {release}"
        for index, (release, count) in enumerate(
            sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))
        )
    ]
    if waiting:
        parts.append(f"{waiting if parts else counted(waiting, 'host')} not updated yet")
    needs = f"; {due} {'needs' if due == 1 else 'need'} a reboot" if due else ""
    return f"{', '.join(parts)}{needs}"
