"""Package sets as values: what differs, what may be touched, which release to take.

The package adapters decide with these functions and do the rest. A package set maps each name to all its
packages (``model.inventory.Packages``); the order within a name does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from zkdeployment.model.inventory import Package, Packages

_SEGMENT = re.compile(r"~|\^|[0-9]+|[A-Za-z]+")


class Action(Enum):
    """What becomes of one package."""

    INSTALL = "install"
    CHANGE = "change"
    REINSTALL = "reinstall"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One package that comes (no ``before``), goes (no ``after``) or is replaced (even by itself)."""

    name: str
    before: Package | None = None
    after: Package | None = None

    @property
    def action(self) -> Action:
        """Say what becomes of it."""
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
    """Return what turns one package set into another, sorted by name; the other way round is the way back."""
    found: list[Item] = []
    for name in sorted({*before, *after}):
        had, has = set(before.get(name, ())), set(after.get(name, ()))
        found += (Item(name, old, new) for old, new in zip_longest(sorted(had - has), sorted(has - had)))
    return tuple(found)


def after(
    before: Packages,
    chosen: Iterable[Package],
    remove: Collection[str] = (),
    extra: Iterable[Package] = (),
) -> Packages:
    """Return the package set to have after a change.

    ``chosen`` are the packages asked for and ``extra`` the ones that come with them: each replaces whatever
    has its name. ``remove`` are names to have no more.
    """
    coming: dict[str, list[Package]] = {}
    for package in (*chosen, *extra):
        coming.setdefault(package.name, []).append(package)
    kept = {name: packages for name, packages in before.items() if name not in remove}
    return kept | {name: tuple(sorted(set(packages))) for name, packages in coming.items()}


def deviations(expected: Packages, found: Packages) -> tuple[str, ...]:
    """Say, a sentence for each name, where a host's packages are not what they have to be."""
    sentences = []
    for name in sorted({*expected, *found}):
        want, have = set(expected.get(name, ())), set(found.get(name, ()))
        if want != have:
            sentences.append(f"{name}: expected {_listed(want)}, found {_listed(have)}")
    return tuple(sentences)


def unmanaged(changes: Iterable[Item], managed: Collection[str], installed: Packages) -> tuple[str, ...]:
    """Say which changes would touch a package that is not ours; none may be made then.

    A package of a name that was not ``installed`` before is a new dependency, which may come.
    """
    return tuple(
        f"would {item}, which was not asked for"
        for item in changes
        if item.name not in managed and item.name in installed
    )


def select(
    available: Iterable[Package], want: Mapping[str, str | None], *, arch: str = ""
) -> tuple[Mapping[str, Package], tuple[str, ...]]:
    """Choose one package for each name in ``want`` at the version wanted (``None``: any).

    Of several the highest by rpm's ordering is taken. Packages for ``arch`` or for any machine go before
    those for other machines (an empty ``arch``: all are equal). Returns the packages by name and a sentence for
    each name that cannot be had.
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
    """Whether a package is of the version a tree asks for, compared as text.

    A tree names rpm's version; the release and, in front, the epoch may be given as well (``1.4``,
    ``1.4-2``, ``1:1.4-2``).
    """
    epoch, _, rest = version.rpartition(":")
    if epoch and epoch != str(package.epoch):
        return False
    return rest in (package.version, f"{package.version}-{package.release}")


def order_key(package: Package) -> tuple[object, ...]:
    """Return a sort key: epoch, version and release by rpm's ordering, then the architecture's name."""
    return package.epoch, version_key(package.version), version_key(package.release), package.arch


def version_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that orders versions and releases as rpm does (rpm-version(7), rpmvercmp).

    Separators only separate. Segment by segment, a tilde comes before the end, the end before a caret, a caret
    before letters, letters before numbers; numbers are compared by value, letters as text.
    """
    key = []
    for segment in _SEGMENT.findall(text):
        if segment == "~":
            key.append((0, 0, ""))
        elif segment == "^":
            key.append((2, 0, ""))
        elif segment.isdigit():
            digits = segment.lstrip("0")
            key.append((4, len(digits), digits))
        else:
            key.append((3, 0, segment))
    return (*key, (1, 0, ""))


def _missing(name: str, version: str | None, others: Sequence[Package]) -> str:
    wanted = name if version is None else f"{name} {version}"
    versions = [f"{package.version}-{package.release}" for package in sorted(others, key=order_key)]
    have = f"; it has {name} {', '.join(dict.fromkeys(versions))}" if versions else ""
    return f"no repository has the package {wanted}{have}"


def _listed(packages: Iterable[Package]) -> str:
    return ", ".join(package.nevra for package in sorted(packages)) or "none"
