"""A package manager in memory, which fails on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.installed_packages import by_name
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.packages import Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.available_packages import AvailablePackage
    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.base.inventory import Package, Packages
    from zkdeployment.base.plan import PackageChange


class Crash(BaseException):
    """Stands for the death of the agent: no code under test catches it."""


@dataclass(frozen=True, slots=True)
class FakeTransaction:
    """The packages before and after a change, and the changes of each package."""

    before: Packages
    after: Packages
    items: tuple[Item, ...] = ()
    reversible: bool = True


class FakePackageManager:
    """Implements ``ports.PackageManager`` in memory.

    ``available`` holds the packages of its repository. Faults: ``unreachable`` (the repository), ``locked``
    (another program changes packages), ``crash`` (the agent dies in the middle of the next commit), ``stuck`` (the
    rollback fails). ``lost`` names packages whose scripts are missing. ``commits`` lists every attempted
    transaction.
    """

    def __init__(self, available: Iterable[AvailablePackage] = (), installed: Iterable[Package] = ()) -> None:
        self.available: dict[Package, AvailablePackage] = {offer.package: offer for offer in available}
        self.commits: list[FakeTransaction] = []
        self.unreachable = False
        self.locked = False
        self.crash = False
        self.stuck = False
        self.lost: set[str] = set()
        self._known = dict(self.available)
        self._installed: Packages = by_name(installed)
        self._journal: Packages | None = None

    def put(self, *items: Package) -> None:
        """Install packages behind the package manager's back."""
        self._installed = packages.after(self._installed, items)

    def drop(self, name: str) -> None:
        """Remove a package behind the package manager's back."""
        self._installed = {other: have for other, have in self._installed.items() if other != name}

    def installed(self) -> Packages:
        """Return the installed packages."""
        return self._installed

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of packages whose scripts are missing."""
        return frozenset(self.lost & packages.keys())

    def prepare(self, change: PackageChange) -> FakeTransaction:
        """Resolve and check a change as a package manager does."""
        problems = [
            name_problem(NameKind.PACKAGE, name) for name in (*change.want, *change.remove, *change.reinstall)
        ]
        if any(problems):
            raise PackageError("; ".join(filter(None, problems)))
        before = self._installed
        wanted = {
            name: version for name, version in change.want.items() if not _is_there(before.get(name, ()), version)
        }
        chosen, extra = self._resolve(wanted)
        after = packages.after(before, chosen.values(), change.remove - change.want.keys(), extra)
        items = packages.items(before, after)
        if refused := packages.unmanaged(items, change.managed, before):
            raise PackageError("; ".join(refused))
        self._check(after, items, change.managed)
        again = (change.reinstall & before.keys()) - wanted.keys() - change.remove
        items += tuple(Item(name, package, package) for name in sorted(again) for package in before[name])
        return FakeTransaction(before, after, items)

    def commit(self, transaction: Transaction) -> None:
        """Execute the transaction, or roll back and raise ``PackageError``."""
        assert isinstance(transaction, FakeTransaction)
        if not transaction.items:
            return
        self.commits.append(transaction)
        if packages.deviations(transaction.before, self._installed):
            raise PackageError(
                "another program changed packages after this transaction was prepared", retry_helps=True
            )
        if self.locked:
            raise PackageError("another program is changing packages", retry_helps=True)
        self._journal = transaction.before
        coming = [self._known[item.after] for item in transaction.items if item.after is not None]
        failed = [offer.package for offer in coming if offer.pre_fails or offer.post_fails]
        if self.crash or failed:
            self._installed = _half_way(transaction)
        if self.crash:
            raise Crash
        if failed:
            self._go_back(f"a package's scriptlet failed ({failed[0]})")
        self._installed = transaction.after
        self.lost -= {item.name for item in transaction.items}
        self._journal = None

    def recover(self) -> None:
        """Restore the packages from before a transaction that ``crash`` interrupted."""
        if self._journal is not None:
            self._installed, self._journal = self._journal, None

    def _go_back(self, reason: str) -> None:
        if self.stuck:
            raise PackageError(f"{reason}; and the packages could not be rolled back", changed=True)
        self.recover()
        raise PackageError(reason)

    def _resolve(self, wanted: Mapping[str, str | None]) -> tuple[Mapping[str, Package], list[Package]]:
        if wanted and self.unreachable:
            raise PackageError("a repository cannot be reached", retry_helps=True)
        chosen, missing = packages.select(self.available, wanted)
        if missing:
            raise PackageError("; ".join(missing))
        extra: list[Package] = []
        for package in (coming := [*chosen.values()]):
            for name, version in self.available[package].requires.items():
                if not any(
                    _fits(package, version)
                    for package in (*coming, *self._installed.get(name, ()))
                    if package.name == name
                ):
                    matches, missing = packages.select(self.available, {name: version})
                    if missing:
                        raise PackageError(f"the packages cannot be installed together: {package} requires {name}")
                    coming.append(matches[name])
                    extra.append(matches[name])
        return chosen, extra

    def _check(self, after: Packages, items: Iterable[Item], managed: frozenset[str]) -> None:
        for offer in [self.available[item.after] for item in items if item.after is not None]:
            if offer.signature != "good":
                raise PackageError(f"a package lacks the signature that its repository requires: {offer.package}")
            if displaced := (self._installed.keys() & {*offer.obsoletes}) - managed:
                raise PackageError(
                    f"the change would touch a package that is not managed by zkdeployment: {displaced}"
                )
            if after.keys() & {*offer.conflicts}:
                raise PackageError(
                    f"the packages cannot be installed together: {offer.package} and {offer.conflicts}"
                )
        for package in (package for have in after.values() for package in have if package in self._known):
            for name, version in self._known[package].requires.items():
                if not any(_fits(match, version) for match in after.get(name, ())):
                    raise PackageError(f"the packages cannot be installed together: {package} requires {name}")


def _half_way(transaction: FakeTransaction) -> Packages:
    """Return what an interrupted transaction leaves: all new packages installed, no old package removed."""
    return by_name({package for half in (transaction.before, transaction.after) for have in half.values()
                    for package in have})  # fmt: skip


def _is_there(have: tuple[Package, ...], version: str | None) -> bool:
    return len(have) == 1 and _fits(have[0], version)


def _fits(package: Package, version: str | None) -> bool:
    return version is None or packages.has_version(package, version)
