"""Reads packages with rpm, from the package database of a root and from RPM files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import PackageError, ProgramError
from zkdeployment.base.inventory import Package
from zkdeployment.base.machine import process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.base.inventory import Packages

#: The columns of a package: the query format for rpm, and ``QUERY`` for dnf.
_COLUMNS = r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}\t%{RELEASE}\t%{ARCH}"
QUERY = r"%{name}\t%{epoch}\t%{version}\t%{release}\t%{arch}"
_SIGNATURE = "%|RSAHEADER?{signed}:{%|DSAHEADER?{signed}:{unsigned}|}|"
_FILE_COLUMNS = rf"{_COLUMNS}\t{_SIGNATURE}\t[%{{OBSOLETENAME}} ]\n"

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

#: Time limit in seconds: only a locked database or a broken disk takes longer.
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class RpmFile:
    """An RPM file and its package. ``trusted``: the file is signed with a key that the root's rpm has."""

    path: Path
    package: Package
    trusted: bool
    obsoletes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RpmDatabase:
    """The package database of ``root``; rpm runs with the environment ``env``."""

    root: Path
    env: Mapping[str, str]

    def installed(self) -> Packages:
        """Return all installed packages; raises ``PackageError`` if the database cannot be read."""
        return by_name(parse(self._query("-qa", "--qf", rf"{_COLUMNS}\n").stdout))

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
        done = self._query("-qp", "--qf", _FILE_COLUMNS, *map(str, files))
        rows = done.stdout.splitlines()
        if len(rows) != len(files):
            raise PackageError(f"cannot read the RPM files {_listed(files)}: {done.stderr.strip()[-500:]}")
        untrusted = set(re.findall(r"^warning: (.*?): .*NOKEY", done.stderr, re.MULTILINE))
        return tuple(_file(path, row, str(path) not in untrusted) for path, row in zip(files, rows, strict=True))

    def _query(self, *arguments: str) -> process.Completed:
        if not self.root.is_dir():  # rpm would create an empty database there
            raise PackageError(
                f"cannot read the packages of {self.root}: there is no such directory", retry_helps=True
            )
        root = [] if self.root == Path("/") else ["--root", str(self.root)]
        try:
            done = process.run(["rpm", *root, *arguments], env=self.env, timeout=_TIMEOUT)
        except ProgramError as error:
            raise PackageError(f"cannot read the packages of {self.root}: {error}", retry_helps=True) from error
        if done.status:
            output = " ".join(done.stderr.split())[-500:]
            raise PackageError(f"cannot read the packages of {self.root}: rpm reported {output}", retry_helps=True)
        return done


def parse(text: str) -> tuple[Package, ...]:
    """Return the packages in lines of name, epoch, version, release and architecture, separated by tabs.

    Other lines, and the keys that rpm stores as packages, are skipped.
    """
    packages = []
    for line in text.splitlines():
        match line.split("\t"):
            case [name, epoch, version, release, arch] if epoch.isdigit() and name != _KEYS:
                packages.append(Package(name, int(epoch), version, release, arch))
    return tuple(packages)


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
    *columns, signature, obsoletes = row.split("\t")
    (package,) = parse("\t".join(columns))
    return RpmFile(path, package, key_is_known and signature == "signed", frozenset(obsoletes.split()))


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)
