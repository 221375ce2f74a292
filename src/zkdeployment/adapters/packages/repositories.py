"""The configuration keys ``repositories`` as arguments of dnf."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The directories below the root that dnf reads by default.
_SYSTEM_DIRECTORIES = ("etc/yum.repos.d", "etc/yum/repos.d", "etc/distro.repos.d")

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True)
class Repositories:
    """The repositories that dnf may use: those of the root, and the ``configured`` ones.

    Each configured value is a directory of ``*.repo`` files (starts with ``/``), the URL of a repository (contains
    ``://``; signatures are checked with the keys that rpm has), or the id of a repository to enable.
    """

    root: Path
    configured: tuple[str, ...]

    def arguments(self) -> Sequence[str]:
        """Return the arguments for dnf; raises ``PackageError`` for an invalid value."""
        directories = [str(self.root / directory) for directory in _SYSTEM_DIRECTORIES]
        others: list[str] = []
        for number, value in enumerate(self.configured, 1):
            if value.startswith("/"):
                directories.append(_checked_directory(value))
            else:
                others += _further_arguments(number, value)
        return [f"--setopt=reposdir={','.join(directories)}", *others]


@dataclass(frozen=True)
class NamedRepositories:
    """The repositories of other hosts: the ``configured`` ones, and none of this machine.

    The values are those of ``Repositories``. A path may also be dnf's configuration file, whose settings and
    repositories are used; with directories, only the repositories in these are.
    """

    configured: tuple[str, ...]

    def arguments(self) -> Sequence[str]:
        """Return the arguments for dnf; raises ``PackageError`` for an invalid value."""
        directories: list[str] = []
        others: list[str] = []
        configured = False
        for number, value in enumerate(self.configured, 1):
            if value.startswith("/") and Path(value).is_file():
                others.append(f"--config={value}")
                configured = True
            elif value.startswith("/"):
                directories.append(_checked_directory(value))
            else:
                others += _further_arguments(number, value)
        if directories or not configured:
            others.insert(0, f"--setopt=reposdir={','.join(directories) or '/dev/null'}")
        return others


def _further_arguments(number: int, value: str) -> Sequence[str]:
    """Return the arguments for a value that is not a path."""
    if "://" in value:
        name = f"zkdeployment-{number}"
        return [f"--repofrompath={name},{value}", f"--setopt={name}.gpgcheck=1"]
    if not _ID.fullmatch(value):
        raise PackageError(
            f"repositories: expected a directory, a URL or the id of a repository, found {value!r};"
            " correct the configuration"
        )
    return [f"--enablerepo={value}"]


def _checked_directory(path: str) -> str:
    directory = Path(path)
    if not directory.is_dir():
        raise PackageError(f"repositories: {path} is not a directory; create it, or correct the configuration")
    if not any(directory.glob("*.repo")):
        is_repository = (directory / "repodata").is_dir()
        advice = f"write file://{path} for the repository itself" if is_repository else "correct the configuration"
        raise PackageError(f"repositories: expected *.repo files in {path}, found none; {advice}")
    return path
