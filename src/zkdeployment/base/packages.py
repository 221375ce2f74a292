"""Package sets as values: differences, changes that are not permitted, and packages that an agent may remove.

The package adapters decide with these functions and perform the changes. A package set maps each name to all its
packages (``base.inventory.Packages``); the order within a name does not count.

Packages that other programs installed are neither removed nor registered. The agent's own package is never removed
either, because nothing could install the agent again.
"""

from __future__ import annotations

import fnmatch
from enum import Enum
from itertools import combinations, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING

from zkdeployment.base.inventory import Inventory, Package, Packages, version_key
from zkdeployment.base.names import AGENT_PACKAGE
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


_NO_PACKAGES: Packages = MappingProxyType({})


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
    """Return the changes from one package set to another, sorted by name; swap the sets to undo them.

    A package is replaced by one of its own word size, if there is one.
    """
    differences: list[Item] = []
    for name in sorted({*before, *after}):
        had, has = set(before.get(name, ())), set(after.get(name, ()))
        differences += (Item(name, old, new) for old, new in _paired(sorted(had - has), sorted(has - had)))
    return tuple(differences)


def _paired(
    olds: Sequence[Package], news: Sequence[Package]
) -> Iterator[tuple[Package, Package] | tuple[Package | None, Package | None]]:
    rest_of_olds, rest_of_news = [*olds], [*news]
    for size in _SIZES:
        pairs = zip(
            [old for old in olds if word_size(old.arch) == size],
            [new for new in news if word_size(new.arch) == size],
            strict=False,
        )
        for old, new in pairs:
            rest_of_olds.remove(old)
            rest_of_news.remove(new)
            yield old, new
    yield from zip_longest(rest_of_olds, rest_of_news)


#: The word sizes of architectures in bits; packages for any architecture have none.
_SIZES = (None, 32, 64)


def word_size(arch: str) -> int | None:
    """Return the word size of an architecture in bits, as the solver of dnf decides it; ``None`` for ``noarch``.

    The packages of one name for two word sizes may be installed at the same time: rpm calls these sizes colours.
    """
    if arch == "noarch":
        return None
    return 64 if "64" in arch or arch == "s390x" else 32


def after(
    before: Packages,
    coming: Collection[Package],
    remove: Collection[str] = (),
    installonly: Collection[str] = (),
) -> Packages:
    """Return the package set after ``coming`` are installed and the packages of the names ``remove`` are removed.

    For a change that dnf has resolved, ``changed`` gives the result of dnf's own transaction instead.
    """
    names = set(remove).difference(package.name for package in coming)
    removed = {package for name in names for package in before.get(name, ())}
    return changed(before, coming, removed | replaced(before, coming, installonly))


def changed(before: Packages, installed: Collection[Package], removed: Collection[Package]) -> Packages:
    """Return the package set after exactly these packages were ``installed`` and ``removed``."""
    found = dict(before)
    for name in {package.name for package in (*installed, *removed)}:
        kept = set(before.get(name, ())).difference(removed)
        found[name] = tuple(sorted(kept.union(package for package in installed if package.name == name)))
    return {name: packages for name, packages in found.items() if packages}


def replaced(
    before: Packages, coming: Collection[Package], installonly: Collection[str] = ()
) -> frozenset[Package]:
    """Return the packages that ``coming`` replace: other packages of the same name and the same word size.

    A package for any architecture replaces packages of both word sizes, and is replaced by packages of both.
    Several versions of the names ``installonly`` may be installed at the same time.
    """
    return frozenset(
        old
        for package in coming
        if package.name not in installonly
        for old in before.get(package.name, ())
        if old not in coming and _excludes(package, old)
    )


def _excludes(package: Package, other: Package) -> bool:
    sizes = {word_size(package.arch), word_size(other.arch)}
    return len(sizes) == 1 or None in sizes


def deviations(expected: Packages, present: Packages) -> tuple[str, ...]:
    """Return one sentence for each name whose installed packages differ from the expected ones."""
    sentences = []
    for name in sorted({*expected, *present}):
        want, have = set(expected.get(name, ())), set(present.get(name, ()))
        if want != have:
            sentences.append(f"{name}: expected {_listed(want)}, found {_listed(have)}")
    return tuple(sentences)


def unmanaged(changes: Iterable[Item], managed: Collection[str]) -> tuple[str, ...]:
    """Return one sentence for each change of a package that is not ``managed``; such a change set is refused.

    A package that replaces no other package is a new dependency, which is permitted. Packages of its name may be
    installed for another word size, or in other versions if dnf keeps several.
    """
    return tuple(
        f"would {item}, which was not asked for"
        for item in changes
        if item.before is not None and item.name not in managed
    )


def is_installed(installed: Collection[Package], version: str | None, *, installonly: bool = False) -> bool:
    """Whether the ``installed`` packages of a name are those that a tree wants (``None``: any version).

    The packages for both word sizes must have the version, and no package may be installed twice. With
    ``installonly``, other versions may be installed at the same time.
    """
    fitting = [package for package in installed if version is None or has_version(package, version)]
    if installonly or not fitting:
        return bool(fitting)
    is_twice = any(_excludes(one, other) and one.evr != other.evr for one, other in combinations(installed, 2))
    return len(fitting) == len(installed) and not is_twice


def select(
    available: Iterable[Package],
    want: Mapping[str, str | None],
    *,
    arch: str = "",
    installed: Packages = _NO_PACKAGES,
) -> tuple[Mapping[str, tuple[Package, ...]], tuple[str, ...]]:
    """Return the packages to install for each name in ``want`` at its version (``None``: any).

    The second value is a sentence for each name that no available package satisfies.

    Packages for ``arch`` or ``noarch`` have precedence over those for other architectures (an empty ``arch``: all
    are equal); then the highest version in rpm's order is chosen. If packages of the name are ``installed`` for
    both word sizes, both get the version. A package for ``arch`` may replace one of another word size, but not
    the other way round.
    """
    by_name: dict[str, list[Package]] = {name: [] for name in want}
    for package in available:
        if package.name in by_name:
            by_name[package.name].append(package)
    chosen = {}
    missing = []
    for name, version in sorted(want.items()):
        matches = [package for package in by_name[name] if version is None or has_version(package, version)]
        present = installed.get(name, ())
        lacking = _lacking_arch(matches, present, arch) if matches else ""
        if matches and not lacking:
            chosen[name] = _chosen(matches, present, arch)
        else:
            missing.append(_missing(name, version, by_name[name], lacking))
    return chosen, tuple(missing)


def _chosen(matches: Sequence[Package], installed: Iterable[Package], arch: str) -> tuple[Package, ...]:
    """Return the best package, or the best one for each word size of the ``installed`` packages."""
    best = _best(matches, arch)
    sizes = {word_size(package.arch) for package in installed} - {None}
    if word_size(best.arch) is None:
        return (best,)
    by_size = ([package for package in matches if word_size(package.arch) == size] for size in sizes)
    return tuple(sorted(_best(same, arch) for same in by_size if same)) or (best,)


def _lacking_arch(matches: Sequence[Package], installed: Iterable[Package], arch: str) -> str:
    """Return an architecture of the ``installed`` packages that no match may replace, or an empty text."""
    best = _best(matches, arch)
    if word_size(best.arch) is None:
        return ""
    sizes = {word_size(package.arch) for package in matches}
    lacking = [package for package in installed if word_size(package.arch) not in {*sizes, None}]
    has_others = any(word_size(package.arch) in sizes for package in installed)
    if not has_others and (not arch or word_size(best.arch) == word_size(arch)):
        return ""
    return min((package.arch for package in lacking), default="")


def _best(matches: Iterable[Package], arch: str) -> Package:
    return max(matches, key=lambda package: (package.arch in (arch, "noarch"), order_key(package)))


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


def _missing(name: str, version: str | None, others: Sequence[Package], arch: str) -> str:
    """Return a sentence on a package that is not available, for ``arch`` only unless that is empty."""
    wanted = name if version is None else f"{name} {version}"
    if arch:
        wanted = f"{wanted} for {arch}, which is installed"
        others = [package for package in others if word_size(package.arch) == word_size(arch)]
    versions = [package.evr.removeprefix("0:") for package in sorted(others, key=order_key)]
    have = f"; it has {name} {', '.join(dict.fromkeys(versions))}" if versions else ""
    return f"no repository has the package {wanted}{have}"


def _listed(packages: Iterable[Package]) -> str:
    return ", ".join(package.nevra for package in sorted(packages)) or "none"


def matching_names(patterns: Iterable[str], installed: Iterable[str]) -> list[str]:
    """Return the names of installed packages that match any of these patterns, sorted."""
    wanted = tuple(patterns)
    return sorted(name for name in installed if any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted))


def removable_packages(candidates: Iterable[str], inventory: Inventory) -> frozenset[str]:
    """Return the candidates that are registered as managed or are installed packages, without the agent's own."""
    return frozenset(
        name
        for name in candidates
        if name != AGENT_PACKAGE and (name in inventory.managed or name in inventory.packages)
    )


def packages_to_register(
    applications: Mapping[str, str], installed: Collection[str], removed: Collection[str]
) -> dict[str, str]:
    """Return the packages, by name with their applications, that a transaction installs or removes.

    Without a package manager (``packages = none``) a transaction installs nothing: others provide the packages.
    """
    return {
        name: application for name, application in applications.items() if name in installed or name in removed
    }
