"""The operating system of a host: what a ``system`` node of the tree wants, and what the host reports.

The package manager, the agent's steps and the displays share these values. Which steps follow from them is decided
in ``agent.rules``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from zkdeployment.base.records import OMITTED, Key, Record
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The reserved type of the nodes that describe operating systems; no package of this name is installed.
SYSTEM = "system"

#: The package in the published entry of a system node. The name is invalid on purpose: an agent that knows no
#: system nodes refuses the publication with an error that shows this text.
NEEDS_UPGRADE = "a system node: upgrade zkdeployment on this host"

#: Seconds until a host that does not come back from its reboot is a failure, by default.
REBOOT_TIMEOUT = 900


class RebootRule(Enum):
    """When a host reboots after an update: the property ``reboot`` of its system node."""

    IF_NEEDED = "if needed"
    ALWAYS = "always"
    NEVER = "never"


#: Which packages an update changes: all of them, those with security advisories, none, or names with patterns.
Extent: TypeAlias = Literal["all", "security", "none"] | tuple[str, ...]


def _read_extent(value: Any) -> Extent:
    if value == "all" or value == "security" or value == "none":  # noqa: PLR1714  the type checker needs each
        found: Extent = value
    elif isinstance(value, list) and all(isinstance(name, str) for name in value):
        found = tuple(value)
    else:
        raise ValueError(f"expected 'all', 'security', 'none' or a list of names, found {value!r}")
    return found


def _write_extent(extent: Extent) -> str | Sequence[str]:
    return extent if isinstance(extent, str) else list(extent)


@dataclass(frozen=True, slots=True)
class WantedSystem(Record):
    """The operating system that the system node at ``path`` wants for a target.

    ``release`` names a snapshot of the repositories; releases are never ordered. A higher ``generation`` updates
    again at the same release, or reboots again with the rule ``always``. ``exclude`` are patterns of packages that
    no update changes. ``timeout`` is in seconds, until a host that does not come back from its reboot is a
    failure.
    """

    path: str
    release: str
    update: Annotated[Extent, Key(read=_read_extent, write=_write_extent, form=object)] = "all"
    exclude: Annotated[tuple[str, ...], OMITTED] = ()
    reboot: Annotated[RebootRule, OMITTED] = RebootRule.IF_NEEDED
    generation: Annotated[int, OMITTED] = 1
    timeout: Annotated[int, Key("reboot_timeout", omit=True)] = REBOOT_TIMEOUT

    @property
    def new_release(self) -> str | None:
        """The release that an update brings; ``None`` for a node that only reboots, whose hosts keep theirs."""
        return None if self.update == "none" else self.release

    def is_update_after(self, before: WantedSystem | None) -> bool:
        """Whether a host that wanted the system ``before`` has another update to make.

        Another node, another rule for reboots or another time limit is no update.
        """
        if before is None:
            return True
        return self != replace(before, path=self.path, reboot=self.reboot, timeout=self.timeout)


@dataclass(frozen=True)
class SystemChange:
    """The goal of a transaction that updates the operating system.

    ``release`` is the value of the dnf variable ``release`` in the transaction. ``kept`` are the names of the
    packages that belong to services or to the agent; the transaction changes none of them.
    """

    release: str
    update: Extent
    exclude: tuple[str, ...] = ()
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RebootFacts:
    """The facts that decide whether a host needs a reboot.

    ``boot_id`` is that of the kernel; ``booted`` is when the host booted, in seconds since the epoch.
    ``kernel`` is the release of the running kernel as ``uname -r`` prints it, ``installed_kernel`` that of the
    newest installed one of its package, ``None`` if no package contains it. ``changed`` are the names of the
    packages that were installed after the boot, ``None`` if unknown. ``reported`` are the packages that
    ``needs-restarting`` names, ``None`` without that program.
    """

    boot_id: str
    booted: float
    kernel: str
    installed_kernel: str | None = None
    changed: frozenset[str] | None = frozenset()
    reported: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class HostSystem(Record):
    """The operating system of a host, as the host reports it with its inventory.

    ``release`` is that of the last completed update, ``None`` before the first. ``kernel`` is the running kernel.
    ``reasons`` are the packages that ask for a reboot; ``due`` is since when a reboot is due, in seconds since the
    epoch. ``advisories`` is the number of security advisories of its release that the host lacks, ``None`` if
    unknown. ``exceptions`` are the packages that the last update did not treat like all others, as text by kind:
    ``excluded`` by the system node, ``held`` by dnf's configuration, and ``modular`` ones, as streams of modules.
    ``updated`` is when the last update ended.
    """

    release: str | None = None
    generation: Annotated[int, OMITTED] = 0
    kernel: str = ""
    installed_kernel: Annotated[str | None, OMITTED] = None
    reasons: Annotated[tuple[str, ...], OMITTED] = ()
    due: Annotated[float | None, OMITTED] = None
    advisories: Annotated[int | None, OMITTED] = None
    exceptions: Annotated[Mapping[str, str], OMITTED] = field(default_factory=dict)
    updated: Annotated[float | None, OMITTED] = None
