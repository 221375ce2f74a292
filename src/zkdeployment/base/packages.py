"""Package sets as values: differences, changes that are not permitted, and packages that an agent may remove.

The package adapters decide with these functions and perform the changes. A package set maps each name to all its
packages (``base.inventory.Packages``); the order within a name does not count.

Packages that other programs installed are neither removed nor registered. The agent's own package is never removed
either, because nothing could install the agent again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING

from zkdeployment.base.inventory import version_key
from zkdeployment.base.names import AGENT_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.base.inventory import Inventory, Package, Packages


class Action(Enum):
    """The effect of a change on one package."""

    INSTALL = "install"
    CHANGE = "change"
    REINSTALL = "reinstall"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One package that is installed (no ``before``), removed (no ``after``) or replaced (even by itself)."""

    name: str
    before: Package | None = None
    after: Package | None = None

    @property
    def action(self) -> Action:
        """The effect of the change on the package."""
        if self.before is None:
            return Action.INSTALL
        if self.before == self.after:
            return Action.REINSTALL
        return Action.REMOVE if self.after is None else Action.CHANGE

    def __str__(self) -> str:
        if self.before is None:
            return f"install {self.after}"
        if self.before == self.after:
            return f"reinstall {self.after}"
        return f"remove {self.before}" if self.after is None else f"change {self.before} to {self.after}"


def items(before: Packages, after: Packages) -> tuple[Item, ...]:
    """Return the changes from one package set to another, sorted by name; swap the sets to undo them."""
    differences: list[Item] = []
    for name in sorted({*before, *after}):
        had, has = set(before.get(name, ())), set(after.get(name, ()))
        differences += (Item(name, old, new) for old, new in zip_longest(sorted(had - has), sorted(has - had)))
    return tuple(differences)


def after(
    before: Packages,
    chosen: Iterable[Package],
    remove: Collection[str] = (),
    extra: Iterable[Package] = (),
) -> Packages:
    """Return the package set after a change.

    ``chosen`` are the requested packages and ``extra`` their dependencies: each replaces all packages of its name.
    ``remove`` are the names of packages to remove.
    """
    coming: dict[str, list[Package]] = {}
    for package in (*chosen, *extra):
        coming.setdefault(package.name, []).append(package)
    kept = {name: packages for name, packages in before.items() if name not in remove}
    return kept | {name: tuple(sorted(set(packages))) for name, packages in coming.items()}


def deviations(expected: Packages, present: Packages) -> tuple[str, ...]:
    """Return one sentence for each name whose installed packages differ from the expected ones."""
    sentences = []
    for name in sorted({*expected, *present}):
        want, have = set(expected.get(name, ())), set(present.get(name, ()))
        if want != have:
            sentences.append(f"{name}: expected {_listed(want)}, found {_listed(have)}")
    return tuple(sentences)


def unmanaged(changes: Iterable[Item], managed: Collection[str], installed: Packages) -> tuple[str, ...]:
    """Return one sentence for each change of a package that is not ``managed``; such a change set is refused.

    A package whose name was not ``installed`` before is a new dependency, which is permitted.
    """
    return tuple(
        f"would {item}, which was not asked for"
        for item in changes
        if item.name not in managed and item.name in installed
    )


def select(
    available: Iterable[Package], want: Mapping[str, str | None], *, arch: str = ""
) -> tuple[Mapping[str, Package], tuple[str, ...]]:
    """Return one package for each name in ``want`` at its version (``None``: any).

    The second value is a sentence for each name that no available package satisfies.

    Packages for ``arch`` or ``noarch`` have precedence over those for other architectures (an empty ``arch``: all
    are equal); then the highest version in rpm's order is chosen.
    """
    by_name: dict[str, list[Package]] = {name: [] for name in want}
    for package in available:
        if package.name in by_name:
            by_name[package.name].append(package)
    chosen = {}
    missing = []
    for name, version in sorted(want.items()):
        matches = [package for package in by_name[name] if version is None or has_version(package, version)]
        if matches:
            chosen[name] = max(matches, key=lambda package: (package.arch in (arch, "noarch"), order_key(package)))
        else:
            missing.append(_missing(name, version, by_name[name]))
    return chosen, tuple(missing)


def has_version(package: Package, version: str) -> bool:
    """Whether a package has the version that a tree states, compared as text.

    A tree states rpm's version, optionally with the release and, in front, the epoch (``1.4``,
    ``1.4-2``, ``1:1.4-2``).
    """
    epoch, _, rest = version.rpartition(":")
    if epoch and epoch != str(package.epoch):
        return False
    return rest in (package.version, f"{package.version}-{package.release}")


def order_key(package: Package) -> tuple[object, ...]:
    """Return the sort key: epoch, version and release in rpm's order, then the name of the architecture."""
    return package.epoch, version_key(package.version), version_key(package.release), package.arch


def _missing(name: str, version: str | None, others: Sequence[Package]) -> str:
    wanted = name if version is None else f"{name} {version}"
    versions = [package.evr.removeprefix("0:") for package in sorted(others, key=order_key)]
    have = f"; it has {name} {', '.join(dict.fromkeys(versions))}" if versions else ""
    return f"no repository has the package {wanted}{have}"


def _listed(packages: Iterable[Package]) -> str:
    return ", ".join(package.nevra for package in sorted(packages)) or "none"


def removable_packages(candidates: Iterable[str], inventory: Inventory) -> frozenset[str]:
    """Return the candidates that are registered as managed or are installed packages, without the agent's own."""
    packages = inventory.managed.keys() | inventory.packages.keys()
    return frozenset(name for name in candidates if name in packages and name != AGENT_PACKAGE)


def packages_to_register(
    applications: Mapping[str, str], installed: Collection[str], removed: Collection[str]
) -> dict[str, str]:
    """Return the packages, by name with their applications, that a transaction installs or removes.

    Without a package manager (``packages = none``) a transaction installs nothing: others provide the packages.
    """
    return {
        name: application for name, application in applications.items() if name in installed or name in removed
    }
