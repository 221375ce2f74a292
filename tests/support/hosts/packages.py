"""Packages that repositories of tests provide, and a package manager in memory, which fails on demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkdeployment.agent.packages.installed_packages import by_name
from zkdeployment.base import packages
from zkdeployment.base.errors import PackageError
from zkdeployment.base.inventory import Package
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.packages import Item, word_size
from zkdeployment.sandbox.repositories import build_packages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.agent.adapters import Transaction
    from zkdeployment.base.inventory import Packages
    from zkdeployment.base.plan import PackageChange
    from zkdeployment.base.system import SystemChange


_SPEC = """\
Name: {name}
Version: {version}
Release: {release}
{tags}
Summary: A package for tests
License: MIT
# There is no shell in a test's root.
AutoReqProv: no
%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%description
A package for tests.
%install
mkdir -p %{{buildroot}}/opt/{directory}
{script}
{library}
echo {version} > %{{buildroot}}/opt/{directory}/version
{image}
%files
/opt/{directory}
{image_entry}
{scriptlets}
"""

_SCRIPT = """\
mkdir -p %{{buildroot}}/opt/{name}/bin
echo deploy {version} > %{{buildroot}}/opt/{name}/bin/zookeeper-deploy
chmod 755 %{{buildroot}}/opt/{name}/bin/zookeeper-deploy
"""

#: A file that the package only reserves space for, as kernels do for the image that their scriptlets make.
_IMAGE = "mkdir %{{buildroot}}/boot && head -c {size} /dev/zero > %{{buildroot}}/boot/{name}-{version}.img"
_IMAGE_ENTRY = "%ghost /boot/{name}-{version}.img"

#: Writes the header of a library. rpm gives the package a colour, because the file can be executed.
_LIBRARY = """\
{{ printf '\\177ELF\\00{word}\\001\\001'; head -c 9 /dev/zero; printf '\\003'; head -c 64 /dev/zero; }} \\
    >%{{buildroot}}/opt/{directory}/library.so
chmod 755 %{{buildroot}}/opt/{directory}/library.so
"""

#: A scriptlet that creates a file when it starts, then sleeps.
_SLOW = """\
%pre -p <lua>
io.open("/scriptlet-runs", "w"):close()
posix.sleep(5)
"""

#: A scriptlet that fails: its section, and the package that triggers it.
_FAILING = """\
%{section} -p <lua> {trigger}
print("looking for the fire")
error("the disk is on fire")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailablePackage:
    """A package in a repository.

    ``requires`` maps names to versions (``None``: any). ``signature`` is ``good``, ``none`` or ``foreign``.
    ``directory`` is its name under ``/opt`` if this differs from the package's name. With ``script`` the package
    has a deploy script; ``module`` is the label of its module. ``fails`` is the section of a scriptlet that fails,
    ``trigger`` the name of the package whose installation triggers that scriptlet. ``image`` is the size in bytes
    of the file that a scriptlet would make in ``/boot``. A package for ``arch`` other than ``noarch`` has a
    library, at the same path for all architectures.
    """

    name: str
    version: str
    release: str = "1"
    epoch: int = 0
    requires: Mapping[str, str | None] = field(default_factory=dict)
    provides: tuple[str, ...] = ()
    obsoletes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    fails: str = ""
    trigger: str = ""
    slow: bool = False
    directory: str | None = None
    script: bool = False
    image: int = 0
    arch: str = "noarch"
    signature: str = "good"
    module: str = ""

    @property
    def package(self) -> Package:
        """The installed package."""
        return Package(self.name, self.epoch, self.version, self.release, self.arch)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the package provides, without versions, as rpmbuild adds it."""
        own = f"{self.name}{_ISA[word_size(self.arch)]}"
        return frozenset({self.name, own, *(capability.partition(" ")[0] for capability in self.provides)})

    def build(self, directory: Path) -> Path:
        """Build the package and return the unsigned RPM file."""
        tags = [f"Epoch: {self.epoch}"] if self.epoch else []
        tags += [f"ModularityLabel: {self.module}"] if self.module else []
        tags += ["BuildArch: noarch"] if self.arch == "noarch" else []
        tags += [f"Requires: {name} = {version}" if version else f"Requires: {name}"
                 for name, version in self.requires.items()]  # fmt: skip
        tags += [f"Provides: {name}" for name in self.provides]
        tags += [f"Obsoletes: {name}" for name in self.obsoletes]
        tags += [f"Conflicts: {name}" for name in self.conflicts]
        scriptlets = [_SLOW] if self.slow else []
        if self.fails:
            place = f"/opt/{self.trigger}" if "file" in self.fails else self.trigger
            scriptlets.append(_FAILING.format(section=self.fails, trigger=f"-- {place}" if self.trigger else ""))
        is_library, isa = self.arch != "noarch", _ISA[word_size(self.arch)]
        spec = directory / f"{self.package.nevra}.spec"
        names = {"name": self.name, "version": self.version}
        text = _SPEC.format(
            **names,
            directory=self.directory or self.name,
            release=self.release,
            script=_SCRIPT.format(**names) if self.script else "",
            library=_LIBRARY.format(directory=self.directory or self.name, word=2 if "64" in isa else 1)
            if is_library
            else "",
            image=_IMAGE.format(size=self.image, **names) if self.image else "",
            image_entry=_IMAGE_ENTRY.format(**names) if self.image else "",
            tags="\n".join(tags) or "# no more tags",
            scriptlets="\n".join(scriptlets),
        )
        spec.write_text(text, encoding="utf-8")
        target = {"_target_cpu": self.arch, "_arch": self.arch, "_isa": isa} if is_library else {}
        (file,) = build_packages(spec, directory, target)
        return file


#: The suffix of a capability for packages of a word size.
_ISA = {None: "", 32: "(x86-32)", 64: "(x86-64)"}

#: dnf keeps several versions of such a package.
KERNEL_MODULE = "installonlypkg(kernel-module)"

#: The packages in the repository of the package managers' tests.
CATALOGUE = (
    AvailablePackage(name="foo", version="1.0"),
    AvailablePackage(name="foo", version="1.1"),
    AvailablePackage(name="foo", version="1.4"),
    AvailablePackage(name="foo", version="1.4", release="2"),
    AvailablePackage(name="foo-1.1", version="5.0"),
    AvailablePackage(name="foo-patch", version="3"),
    AvailablePackage(name="bar", version="1.0"),
    AvailablePackage(name="bar", version="2.0"),
    AvailablePackage(name="epochal", version="1.0", epoch=1, script=True),
    AvailablePackage(name="service", version="1.0", script=True),
    AvailablePackage(name="service", version="2.0", script=True),
    AvailablePackage(name="library", version="1.0"),
    AvailablePackage(name="library", version="2.0"),
    AvailablePackage(name="reader", version="1.0", requires={"library": "1.0"}),
    AvailablePackage(name="reader", version="2.0", requires={"library": "2.0"}),
    AvailablePackage(name="lonely", version="1.0", requires={"nobody-has-this": None}),
    AvailablePackage(name="pretender", version="1.0", provides=("foo = 7.7", "nickname")),
    AvailablePackage(name="successor", version="1.0", obsoletes=("bar",)),
    AvailablePackage(name="rival", version="1.0", conflicts=("foo",)),
    AvailablePackage(name="first-aid", version="1.0", fails="pre"),
    AvailablePackage(name="last-aid", version="1.0"),
    AvailablePackage(name="last-aid", version="2.0", fails="post"),
    AvailablePackage(name="afterthought", version="1.0", fails="posttrans"),
    AvailablePackage(name="farewell", version="1.0", fails="postun"),
    AvailablePackage(name="farewell", version="2.0"),
    AvailablePackage(name="onlooker", version="1.0", fails="triggerin", trigger="foo"),
    AvailablePackage(name="scanner", version="1.0", fails="transfiletriggerin", trigger="foo"),
    AvailablePackage(name="slow", version="1.0", slow=True),
    AvailablePackage(name="squatter", version="2.0", directory="foo"),
    AvailablePackage(name="twin", version="1.0", arch="x86_64"),
    AvailablePackage(name="twin", version="1.0", arch="i686"),
    AvailablePackage(name="twin", version="1.1", arch="x86_64"),
    AvailablePackage(name="twin", version="1.1", arch="i686"),
    AvailablePackage(name="twin", version="1.2", arch="x86_64"),
    AvailablePackage(name="twin", version="1.3", arch="i686"),
    AvailablePackage(name="emulator", version="1.0", requires={"twin(x86-32)": "1.0"}),
    AvailablePackage(name="ported", version="1.0", arch="i686"),
    AvailablePackage(name="ported", version="2.0", arch="x86_64"),
    AvailablePackage(name="kmod", version="1.0", arch="x86_64", directory="kmod-1.0", provides=(KERNEL_MODULE,)),
    AvailablePackage(name="kmod", version="1.1", arch="x86_64", directory="kmod-1.1", provides=(KERNEL_MODULE,)),
    AvailablePackage(name="driver", version="1.1", requires={"kmod": "1.1"}),
    AvailablePackage(name="unsigned", version="1.0", signature="none"),
    AvailablePackage(name="foreign", version="1.0", signature="foreign"),
)


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
        self.recent: set[str] = set()
        self.releases: dict[str, Sequence[Package]] = {}
        self.advisories: dict[str, int] = {}
        self._known = dict(self.available)
        self._installed: Packages = by_name(installed)
        self._journal: Packages | None = None

    def put(self, *items: Package) -> None:
        """Install packages behind the package manager's back."""
        self._installed = packages.after(self._installed, items, (), self.installonly())

    def drop(self, name: str) -> None:
        """Remove a package behind the package manager's back."""
        self._installed = {other: have for other, have in self._installed.items() if other != name}

    def installed(self) -> Packages:
        """Return the installed packages."""
        return self._installed

    def installonly(self) -> frozenset[str]:
        """Return the names of the installed packages of which several versions may be installed."""
        return frozenset(name for name in self._installed if name in self._kept_beside())

    def installed_since(self, time: float) -> frozenset[str]:  # noqa: ARG002  the fake has no clock
        """Return the names in ``recent``."""
        return frozenset(self.recent & self._installed.keys())

    def missing_advisories(self, release: str) -> int | None:
        """Return the number in ``advisories``."""
        return self.advisories.get(release)

    def update_exceptions(self, change: SystemChange) -> Mapping[str, str]:
        """Return the patterns that a change excludes."""
        return {"excluded": ", ".join(change.exclude)} if change.exclude else {}

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
        beside = self._kept_beside()
        wanted = {
            name: version
            for name, version in change.want.items()
            if not packages.is_installed(before.get(name, ()), version, installonly=name in beside)
        }
        coming = self._resolve(wanted)
        displaced = {
            package
            for name in wanted.keys() - beside
            for package in before.get(name, ())
            if package.arch not in {other.arch for other in coming if other.name == name}
        }
        after = packages.after(before, coming, change.remove - change.want.keys(), beside)
        after = packages.changed(after, (), displaced)
        items = packages.items(before, after)
        if refused := packages.unmanaged(items, change.managed):
            raise PackageError("; ".join(refused))
        self._check(after, items, change.managed)
        again = (change.reinstall & before.keys()) - wanted.keys() - change.remove
        items += tuple(Item(name, package, package) for name in sorted(again) for package in before[name])
        return FakeTransaction(before, after, items)

    def prepare_system(self, change: SystemChange) -> FakeTransaction:
        """Resolve an update of the system: each package of the release becomes what the release has."""
        offers = self.releases.get(change.release)
        if offers is None:
            raise PackageError(f"no repository has the release {change.release}")
        before, beside = self._installed, self._kept_beside()
        fixed = {*change.kept, *change.exclude}
        coming = [
            offer
            for offer in offers
            if change.update != "none" and offer.name in before and offer.name not in fixed
            if isinstance(change.update, str) or offer.name in change.update
            if offer not in before[offer.name]
        ]
        after = packages.after(before, coming, (), beside)
        return FakeTransaction(before, after, packages.items(before, after))

    def preview_system(self, change: SystemChange) -> Packages:
        """Return the packages after an update of the system."""
        return self.prepare_system(change).after

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
        failed = [offer.package for offer in self._failing(transaction)]
        if self.crash or failed:
            self._installed = _half_way(transaction)
        if self.crash:
            raise Crash
        if failed:
            self._go_back(f"a package's scriptlet failed ({failed[0]})")
        self._installed = transaction.after
        self.lost -= {item.name for item in transaction.items}
        self._journal = None

    def _failing(self, transaction: FakeTransaction) -> Iterator[AvailablePackage]:
        """Yield the packages with a scriptlet that the transaction runs and that fails."""
        coming = {item.after for item in transaction.items if item.after is not None}
        going = {item.before for item in transaction.items if item.before is not None}
        for package, offer in self._known.items():
            is_triggered = package in (*self._installed.get(package.name, ()), *coming)
            if offer.trigger:
                if is_triggered and any(new.name == offer.trigger for new in coming):
                    yield offer
            elif offer.fails and package in (going if offer.fails == "postun" else coming):
                yield offer

    def recover(self) -> None:
        """Restore the packages from before a transaction that ``crash`` interrupted."""
        if self._journal is not None:
            self._installed, self._journal = self._journal, None

    def _go_back(self, reason: str) -> None:
        if self.stuck:
            raise PackageError(f"{reason}; and the packages could not be rolled back", changed=True)
        self.recover()
        raise PackageError(reason)

    def _kept_beside(self) -> frozenset[str]:
        return frozenset(package.name for package, offer in self._known.items() if KERNEL_MODULE in offer.provides)

    def _resolve(self, wanted: Mapping[str, str | None]) -> list[Package]:
        if wanted and self.unreachable:
            raise PackageError("a repository cannot be reached", retry_helps=True)
        chosen, missing = packages.select(self.available, wanted, arch="x86_64", installed=self._installed)
        if missing:
            raise PackageError("; ".join(missing))
        coming = [package for same in chosen.values() for package in same]
        for package in coming:
            for need, version in self.available[package].requires.items():
                present = [other for have in self._installed.values() for other in have if other in self._known]
                if not any(self._meets(other, need, version) for other in (*coming, *present)):
                    matches = [other for other in self.available if self._meets(other, need, version)]
                    if not matches:
                        raise PackageError(f"the packages cannot be installed together: {package} requires {need}")
                    coming.append(max(matches, key=packages.order_key))
        return coming

    def _meets(self, package: Package, need: str, version: str | None) -> bool:
        return need in self._known[package].capabilities and _fits(package, version)

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
            for need, version in self._known[package].requires.items():
                present = [other for have in after.values() for other in have if other in self._known]
                if not any(self._meets(other, need, version) for other in present):
                    raise PackageError(f"the packages cannot be installed together: {package} requires {need}")


def _half_way(transaction: FakeTransaction) -> Packages:
    """Return the packages after an interrupted transaction: all new packages installed, no old package removed."""
    return by_name({package for half in (transaction.before, transaction.after) for have in half.values()
                    for package in have})  # fmt: skip


def _fits(package: Package, version: str | None) -> bool:
    return version is None or packages.has_version(package, version)
