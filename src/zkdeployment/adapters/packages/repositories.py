"""The configuration key ``repositories`` as arguments of dnf."""

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


@dataclass(frozen=True, slots=True)
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
            if "://" in value:
                name = f"zkdeployment-{number}"
                others += [f"--repofrompath={name},{value}", f"--setopt={name}.gpgcheck=1"]
            elif value.startswith("/"):
                directories.append(_checked_directory(value))
            elif not _ID.fullmatch(value):
                raise PackageError(
                    f"repositories: expected a directory, a URL or the id of a repository, found {value!r};"
                    " correct the configuration"
                )
            else:
                others.append(f"--enablerepo={value}")
        return [f"--setopt=reposdir={','.join(directories)}", *others]


def _checked_directory(path: str) -> str:
    directory = Path(path)
    if not directory.is_dir():
        raise PackageError(f"repositories: {path} is not a directory; create it, or correct the configuration")
    if not any(directory.glob("*.repo")):
        is_repository = (directory / "repodata").is_dir()
        advice = f"write file://{path} for the repository itself" if is_repository else "correct the configuration"
        raise PackageError(f"repositories: expected *.repo files in {path}, found none; {advice}")
    return path
