"""The installed packages of a host, and RPM files: a cache for rollbacks, and directories as repositories."""

from __future__ import annotations

import functools
import os
import re
import shutil
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import PackageError, ProgramError
from zkdeployment.base.inventory import Package, Packages
from zkdeployment.base.machine import files as durable
from zkdeployment.base.machine import process
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


#: The columns of a package: the query format for rpm, and ``QUERY`` for dnf.
_COLUMNS = r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}\t%{RELEASE}\t%{ARCH}"
QUERY = "%{name}\t%{epoch}\t%{version}\t%{release}\t%{arch}\n"
_SIGNATURE = "%|RSAHEADER?{signed}:{%|DSAHEADER?{signed}:{unsigned}|}|"
#: The same for rpm 6 and later, whose own format of packages has signatures of any algorithm in one tag.
_SIGNATURE_TAG = "OPENPGP"
_SIGNATURE_6 = f"%|{_SIGNATURE_TAG}?{{signed}}:{{unsigned}}|"

#: rpm stores the keys that it trusts as packages of this name, which hold no software.
_KEYS = "gpg-pubkey"

#: Scripts below ``/opt/NAME``: the two possible deploy scripts, and those of a role controller.
_SCRIPTS = (
    "bin/zookeeper-deploy",
    "zookeeper-deploy",
    "bin/starting-deployments",
    "bin/ending-deployments",
)

_SCRIPT_COLUMNS = r"[%{=NAME}\t%{FILENAMES}\t%{FILESIZES}\t%{FILEMODES:octal}\n]"

#: The capabilities of packages of which dnf keeps several versions: dnf's defaults for ``installonlypkgs``.
_INSTALLONLY = (
    "kernel",
    "kernel-PAE",
    "installonlypkg(kernel)",
    "installonlypkg(kernel-module)",
    "installonlypkg(vm)",
    "multiversion(kernel)",
)

#: The files of the configuration of dnf below the root; dnf 5 has directories of them.
_DNF_CONFIGURATION = (
    "etc/dnf/dnf.conf",
    "usr/share/dnf5/libdnf.conf.d/*.conf",
    "etc/dnf/libdnf5.conf.d/*.conf",
)

#: Time limit in seconds: only a locked database or a broken disk takes longer.
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class RpmFile:
    """An RPM file and its package. ``trusted``: the file is signed with a key that the root's rpm has."""

    path: Path
    package: Package
    trusted: bool
    obsoletes: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RpmDatabase:
    """The package database of ``root``; rpm runs with the environment ``env``."""

    root: Path
    env: Mapping[str, str]

    def installed(self) -> Packages:
        """Return all installed packages; raises ``PackageError`` if the database cannot be read."""
        return by_name(parse(self._query("-qa", "--qf", rf"{_COLUMNS}\n").stdout))

    def installonly(self) -> frozenset[str]:
        """Return the names of the installed packages of which dnf keeps several versions."""
        capabilities = sorted(self.kept_beside())
        done = self._query("-q", "--qf", rf"{_COLUMNS}\n", "--whatprovides", *capabilities, may_lack=True)
        return frozenset(package.name for package in parse(done.stdout))

    def installed_since(self, time: float) -> frozenset[str]:
        """Return the names of the packages that were installed after a time in seconds since the epoch."""
        rows = self._query("-qa", "--qf", r"%{INSTALLTIME} %{NAME}\n").stdout.split("\n")
        installed = (row.partition(" ") for row in rows if row)
        return frozenset(name for when, _, name in installed if int(when) > time)

    def module_streams(self) -> frozenset[str]:
        """Return the streams of modules from which packages are installed, such as ``nodejs:18``."""
        labels = self._query("-qa", "--qf", r"%{MODULARITYLABEL}\n").stdout.split("\n")
        return frozenset(":".join(label.split(":")[:2]) for label in labels if ":" in label)

    def kept_beside(self) -> frozenset[str]:
        """Return the capabilities of packages of which dnf keeps several versions (``installonlypkgs``)."""
        found = set(_INSTALLONLY)
        for file in configuration_files(self.root):
            found.update(configured(file, "installonlypkgs"))
        return frozenset(found)

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of the installed ``packages`` whose scripts are missing, empty or not executable.

        A script that the package itself ships as empty or not executable does not count.
        """
        if not packages:
            return frozenset()
        nevras = [_label(package) for name in sorted(packages) for package in packages[name]]
        rows = self._query("-q", "--qf", _SCRIPT_COLUMNS, *nevras).stdout.splitlines()
        return frozenset(name for row in rows if (name := self._package_of_lost_script(row)) is not None)

    def _package_of_lost_script(self, row: str) -> str | None:
        """Return the name of a row's package if the row describes a script that is missing or damaged."""
        match row.split("\t"):
            case [name, path, size, mode] if path in {f"/opt/{name}/{script}" for script in _SCRIPTS}:
                script = self.root / path.lstrip("/")
                is_complete = script.is_file() and (size == "0" or script.stat().st_size > 0)
                is_executable = not int(mode, 8) & 0o111 or os.access(script, os.X_OK)
                return None if is_complete and is_executable else name
        return None

    def read(self, files: Sequence[Path]) -> tuple[RpmFile, ...]:
        """Return the packages of RPM files; raises ``PackageError`` if a file is damaged."""
        if not files:
            return ()
        signature = _SIGNATURE_6 if _SIGNATURE_TAG in _known_tags() else _SIGNATURE
        columns = rf"{_COLUMNS}\t{signature}\t[%{{OBSOLETENAME}} ]\t[%{{PROVIDENAME}} ]\n"
        done = self._query("-qp", "--qf", columns, *map(str, files))
        rows = done.stdout.splitlines()
        if len(rows) != len(files):
            raise PackageError(f"cannot read the RPM files {_listed(files)}: {done.stderr.strip()[-500:]}")
        untrusted = set(re.findall(r"^warning: (.*?): .*NOKEY", done.stderr, re.MULTILINE))
        return tuple(_file(path, row, str(path) not in untrusted) for path, row in zip(files, rows, strict=True))

    def _query(self, *arguments: str, may_lack: bool = False) -> process.Completed:
        """Run a query; with ``may_lack``, rpm may report that no package matches."""
        if not self.root.is_dir():  # rpm would create an empty database there
            raise PackageError(
                f"cannot read the packages of {self.root}: there is no such directory", retry_helps=True
            )
        root = [] if self.root == Path("/") else ["--root", str(self.root)]
        try:
            done = process.run(["rpm", *root, *arguments], env=self.env, timeout=_TIMEOUT)
        except ProgramError as error:
            raise PackageError(f"cannot read the packages of {self.root}: {error}", retry_helps=True) from error
        if done.status and not (may_lack and not done.stderr.strip()):
            output = " ".join(done.stderr.split())[-500:]
            raise PackageError(f"cannot read the packages of {self.root}: rpm reported {output}", retry_helps=True)
        return done


def _known_tags() -> frozenset[str]:
    """Return the names in query formats of the installed rpm; empty without rpm."""
    program = shutil.which("rpm")
    return frozenset() if program is None else _tags(program, Path(program).stat().st_mtime_ns)


@functools.cache
def _tags(program: str, changed: int) -> frozenset[str]:  # noqa: ARG001  a changed file needs a new call
    try:
        return frozenset(process.run([program, "--querytags"], timeout=_TIMEOUT).check().stdout.split())
    except ProgramError as error:
        raise PackageError(f"{error}") from error


def parse(text: str) -> tuple[Package, ...]:
    """Return the packages in lines of name, epoch, version, release and architecture, separated by tabs.

    Other lines, and the keys that rpm stores as packages, are skipped.
    """
    packages = []
    for line in text.splitlines():
        match line.split("\t"):
            case [name, epoch, version, release, arch] if epoch.isascii() and epoch.isdecimal() and name != _KEYS:
                packages.append(Package(name, int(epoch), version, release, arch))
    return tuple(packages)


def configuration_files(root: Path) -> Iterator[Path]:
    """Yield the files of the configuration of dnf below ``root``."""
    for pattern in _DNF_CONFIGURATION:
        yield from sorted(root.glob(pattern))


def configured(file: Path, key: str) -> Sequence[str]:
    """Return the values of a list in a configuration file of dnf; none in a file without the key."""
    parser = ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except ConfigParserError:
        return ()  # dnf itself reports the errors of its configuration
    return (parser.get("main", key, fallback="") or "").replace(",", " ").split()


def by_name(packages: Iterable[Package]) -> Packages:
    """Return the packages by name, those of one name sorted."""
    grouped: dict[str, tuple[Package, ...]] = {}
    for package in sorted(packages):
        grouped[package.name] = (*grouped.get(package.name, ()), package)
    return grouped


def _label(package: Package) -> str:
    """Return a package's complete label; rpm would match a shorter label with other packages, too."""
    return f"{package.name}-{package.version}-{package.release}.{package.arch}"


def _file(path: Path, row: str, key_is_known: bool) -> RpmFile:  # noqa: FBT001  one caller, right above
    *columns, signature, obsoletes, provides = row.split("\t")
    (package,) = parse("\t".join(columns))
    is_trusted = key_is_known and signature == "signed"
    return RpmFile(path, package, is_trusted, frozenset(obsoletes.split()), frozenset(provides.split()))


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)


_MAKER = "createrepo_c"


def can_make_repository() -> bool:
    """Whether createrepo_c is installed."""
    return shutil.which(_MAKER) is not None


def make_repository(directory: Path, name: str, *, signed: bool) -> Sequence[str]:
    """Make a repository of a directory and return the arguments that add it to dnf's repositories as ``name``.

    ``signed``: dnf checks the signatures of the packages. Raises ``PackageError`` if createrepo_c fails.
    """
    # createrepo_c refuses to run if a crash left its temporary directory.
    shutil.rmtree(directory / ".repodata", ignore_errors=True)
    try:
        process.run([_MAKER, "-q", str(directory)], timeout=600).check()
    except ProgramError as error:
        raise PackageError(f"cannot make a repository of the packages in {directory}: {error}") from error
    return [
        f"--repofrompath={name},{directory.as_uri()}",
        f"--setopt={name}.gpgcheck={int(signed)}",
        # The exact packages are already chosen; modules must not hide them.
        f"--setopt={name}.module_hotfixes=1",
    ]


class PackageCache:
    """A directory of RPM files, each named after its package.

    dnf uses the directory as a repository of the same name.
    """

    def __init__(self, directory: Path, database: RpmDatabase) -> None:
        self.directory = directory
        self._database = database

    @property
    def files(self) -> Sequence[Path]:
        """All files in the cache."""
        return sorted(self.directory.glob("*.rpm"))

    def find(self, packages: Collection[Package]) -> Sequence[RpmFile]:
        """Return the intact files of packages in the cache."""
        paths = {path for package in packages if (path := self._path(package)).exists()}
        try:
            files = self._database.read(sorted(paths))
        except PackageError:  # A file is damaged: skip it.
            files = tuple(file for path in sorted(paths) for file in self._intact(path))
        return [*{file.package: file for file in files if file.package in packages}.values()]

    def keep(self, files: Iterable[RpmFile]) -> Sequence[RpmFile]:
        """Move files into the cache and return them there; raises ``OSError``."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = []
        for file in files:
            durable.sync_file(file.path)
            kept.append(replace(file, path=file.path.replace(self._path(file.package))))
        durable.sync_directory(self.directory)
        return kept

    def copy(self, files: Iterable[RpmFile]) -> None:
        """Copy files into the cache; raises ``OSError``."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in files:
            durable.replace(self._path(file.package), file.path.read_bytes())

    def drop(self, packages: Iterable[Package]) -> None:
        """Remove the files of these packages."""
        for package in packages:
            self._path(package).unlink(missing_ok=True)

    def prune(self, installed: Packages) -> None:
        """Remove the files of packages that are no longer installed."""
        names = {self._path(package).name for packages in installed.values() for package in packages}
        for path in self.directory.glob("*.rpm"):
            if path.name not in names:
                path.unlink()
        shutil.rmtree(self.directory / "repodata", ignore_errors=True)

    def arguments(self, *, trusted: bool) -> Sequence[str]:
        """Return the arguments that add the cache to dnf's repositories.

        ``trusted``: dnf checks the signatures of the files. Raises ``PackageError`` if createrepo_c fails.
        """
        return [
            *make_repository(self.directory, f"zkdeployment-{self.directory.name}", signed=trusted),
            "--refresh",
        ]

    def _intact(self, path: Path) -> Sequence[RpmFile]:
        try:
            return self._database.read([path])
        except PackageError:
            return ()

    def _path(self, package: Package) -> Path:
        """Return the path of a package's file; the name contains the epoch, so that two epochs have two files."""
        epoch = f".epoch{package.epoch}" if package.epoch else ""
        return self.directory / f"{package.name}-{package.version}-{package.release}.{package.arch}{epoch}.rpm"
