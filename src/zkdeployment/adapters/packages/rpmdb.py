"""Reading packages with rpm: those of a root's database, and those in files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.errors import PackageError, ProgramError
from zkdeployment.model.inventory import Package

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zkdeployment.model.inventory import Packages

#: The columns of a package, for rpm and (in its own spelling) for dnf.
_COLUMNS = r"%{NAME}\t%{EPOCHNUM}\t%{VERSION}\t%{RELEASE}\t%{ARCH}"
QUERY = r"%{name}\t%{epoch}\t%{version}\t%{release}\t%{arch}"
_SIGNATURE = "%|RSAHEADER?{signed}:{%|DSAHEADER?{signed}:{unsigned}|}|"
_FILE_COLUMNS = rf"{_COLUMNS}\t{_SIGNATURE}\t[%{{OBSOLETENAME}} ]\n"

#: rpm keeps the keys it trusts as packages of this name; they are no software.
_KEYS = "gpg-pubkey"

#: Under ``/opt/NAME``: the deploy script, in one of two places, and a role controller's.
_SCRIPTS = (
    "bin/zookeeper-deploy",
    "zookeeper-deploy",
    "bin/starting-deployments",
    "bin/ending-deployments",
)

_SCRIPT_COLUMNS = r"[%{=NAME}\t%{FILENAMES}\t%{FILESIZES}\t%{FILEMODES:octal}\n]"

#: A read that takes longer has met a database that somebody keeps locked, or a dead disk.
_TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class RpmFile:
    """A package in a file. ``trusted``: it carries a signature by a key that the root's rpm knows."""

    path: Path
    package: Package
    trusted: bool
    obsoletes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RpmDatabase:
    """The package database of ``root``, read with rpm run in the environment ``env``."""

    root: Path
    env: Mapping[str, str]

    def installed(self) -> Packages:
        """Read all packages; raises ``PackageError`` when the database cannot be read."""
        return by_name(parse(self._query("-qa", "--qf", rf"{_COLUMNS}\n").stdout))

    def lost_scripts(self, packages: Packages) -> frozenset[str]:
        """Return the names of the installed ``packages`` whose scripts are missing, empty or not executable.

        Only scripts that the database lists with a content and as executable count.
        """
        if not packages:
            return frozenset()
        nevras = [_label(package) for name in sorted(packages) for package in packages[name]]
        rows = self._query("-q", "--qf", _SCRIPT_COLUMNS, *nevras).stdout.splitlines()
        return frozenset(name for row in rows if (name := self._loser(row)) is not None)

    def _loser(self, row: str) -> str | None:
        """Return the name of the package whose file a row describes, if that is a script and lost."""
        match row.split("\t"):
            case [name, path, size, mode] if path in {f"/opt/{name}/{script}" for script in _SCRIPTS}:
                script = self.root / path.lstrip("/")
                whole = script.is_file() and (size == "0" or script.stat().st_size > 0)
                runs = not int(mode, 8) & 0o111 or os.access(script, os.X_OK)
                return None if whole and runs else name
        return None

    def read(self, files: Sequence[Path]) -> tuple[RpmFile, ...]:
        """Read what the files hold; raises ``PackageError`` when one is not an intact package."""
        if not files:
            return ()
        done = self._query("-qp", "--qf", _FILE_COLUMNS, *map(str, files))
        rows = done.stdout.splitlines()
        if len(rows) != len(files):
            raise PackageError(f"cannot read the packages {_listed(files)}: {done.stderr.strip()[-500:]}")
        untrusted = set(re.findall(r"^warning: (.*?): .*NOKEY", done.stderr, re.MULTILINE))
        return tuple(_file(path, row, str(path) not in untrusted) for path, row in zip(files, rows, strict=True))

    def _query(self, *words: str) -> process.Completed:
        place = [] if self.root == Path("/") else ["--root", str(self.root)]
        try:
            done = process.run(["rpm", *place, *words], env=self.env, timeout=_TIMEOUT)
        except ProgramError as error:
            raise PackageError(f"cannot read the packages of {self.root}: {error}", retry_helps=True) from error
        if done.status:
            words_of_rpm = " ".join(done.stderr.split())[-500:]
            raise PackageError(
                f"cannot read the packages of {self.root}: rpm says: {words_of_rpm}", retry_helps=True
            )
        return done


def parse(text: str) -> tuple[Package, ...]:
    """Read lines of name, epoch, version, release and architecture separated by tabs; skip all others."""
    found = []
    for line in text.splitlines():
        match line.split("\t"):
            case [name, epoch, version, release, arch] if epoch.isdigit() and name != _KEYS:
                found.append(Package(name, int(epoch), version, release, arch))
    return tuple(found)


def by_name(packages: Iterable[Package]) -> Packages:
    """Group packages by their names, sorted."""
    grouped: dict[str, tuple[Package, ...]] = {}
    for package in sorted(packages):
        grouped[package.name] = (*grouped.get(package.name, ()), package)
    return grouped


def _label(package: Package) -> str:
    """Return a package's exact label; rpm takes a shorter one for other packages, too."""
    return f"{package.name}-{package.version}-{package.release}.{package.arch}"


def _file(path: Path, row: str, key_is_known: bool) -> RpmFile:  # noqa: FBT001  one caller, right above
    *columns, signature, obsoletes = row.split("\t")
    (package,) = parse("\t".join(columns))
    return RpmFile(path, package, key_is_known and signature == "signed", frozenset(obsoletes.split()))


def _listed(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)
