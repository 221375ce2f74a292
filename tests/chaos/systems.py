"""The operating systems of a chaos run: two releases, and the system nodes that trees have. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.base.system import RebootRule
from zkdeployment.sandbox.snapshots import SystemPackage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from random import Random

    from zkdeployment.base.system import WantedSystem

#: The packages of each release. Both have a package that needs a reboot, and one that needs none.
RELEASES: Mapping[str, Sequence[SystemPackage]] = {
    "2026-10": (
        SystemPackage("glibc", "2.34"),
        SystemPackage("bash", "5.1"),
        SystemPackage("kernel-core", "5.14.1"),
    ),
    "2026-11": (
        SystemPackage("glibc", "2.39"),
        SystemPackage("bash", "5.2"),
        SystemPackage("kernel-core", "5.14.2"),
    ),
}

#: The release with which hosts are installed.
INSTALLED = "2026-10"

#: The names of all packages of operating systems.
SYSTEM_NAMES = frozenset(package.name for packages in RELEASES.values() for package in packages)

#: Seconds until a reboot is a failure; a fault that keeps hosts off lasts longer than the first.
_TIMEOUTS = (10, 40)


@dataclass(frozen=True, slots=True)
class SystemPlan:
    """A system node, and the targets that it is deployed to."""

    targets: tuple[str, ...]
    release: str = INSTALLED
    reboot: RebootRule = RebootRule.IF_NEEDED
    generation: int = 1
    timeout: int = _TIMEOUTS[0]

    def changed(self, chance: Random) -> SystemPlan:
        """Return the plan with an update, a reboot, or other properties."""
        match chance.choice(["release", "release", "reboot", "properties"]):
            case "release":
                other = next(release for release in RELEASES if release != self.release)
                return replace(self, release=other)
            case "reboot":
                return replace(self, reboot=RebootRule.ALWAYS, generation=self.generation + 1)
        return replace(self, reboot=chance.choice([*RebootRule]), timeout=chance.choice(_TIMEOUTS))

    def lines(self, name: str) -> Iterator[str]:
        """Yield the lines of the node with a name, below ``/os``."""
        yield f"  /{name} : system"
        yield f"    release = '{self.release}'"
        yield f"    reboot = '{self.reboot.value}'"
        yield f"    generation = {self.generation}"
        yield f"    reboot_timeout = {self.timeout}"
        yield "    /deploy"
        yield from (f"      /{target}" for target in self.targets)


def lacks_of(wanted: WantedSystem | None, have: Collection[tuple[str, str]]) -> list[str]:
    """Return the contradictions to the claim that a host has the operating system ``wanted``.

    ``have`` are the names and versions of its packages. Kernels of other releases may be there, too.
    """
    if wanted is None:
        return []
    release = {(package.name, package.version) for package in RELEASES[wanted.release]}
    others = {
        (name, version) for name, version in have if name in SYSTEM_NAMES and name != "kernel-core"
    } - release
    return [
        *(f"{name} {version} of release {wanted.release} is not installed" for name, version in release - {*have}),
        *(f"{name} {version} is not of release {wanted.release}" for name, version in others),
    ]
