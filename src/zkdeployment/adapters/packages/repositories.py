"""The configuration's ``repositories``, as arguments of dnf."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import PackageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where dnf looks by itself.
_SYSTEM_DIRECTORIES = ("etc/yum.repos.d", "etc/yum/repos.d", "etc/distro.repos.d")

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


@dataclass(frozen=True, slots=True)
class Repositories:
    """Where packages come from: the root's own repositories, and ``words`` besides.

    Each word is a directory of ``*.repo`` files (it starts with ``/``), a URL of a repository (it contains ``://``;
    signatures are checked with the keys rpm knows), or the id of a repository to enable.
    """

    root: Path
    words: tuple[str, ...]

    def arguments(self) -> Sequence[str]:
        """Return the arguments that make dnf use them; raises ``PackageError`` for a word that is of no use."""
        places = [str(self.root / directory) for directory in _SYSTEM_DIRECTORIES]
        others: list[str] = []
        for number, word in enumerate(self.words, 1):
            if "://" in word:
                name = f"zkdeployment-{number}"
                others += [f"--repofrompath={name},{word}", f"--setopt={name}.gpgcheck=1"]
            elif word.startswith("/"):
                places.append(_directory(word))
            elif not _ID.fullmatch(word):
                raise PackageError(
                    f"repositories: expected a directory, a URL or the id of a repository, found {word!r}"
                )
            else:
                others.append(f"--enablerepo={word}")
        return [f"--setopt=reposdir={','.join(places)}", *others]


def _directory(word: str) -> str:
    directory = Path(word)
    if not directory.is_dir():
        raise PackageError(f"repositories: {word} is not a directory; create it or correct the configuration")
    if not any(directory.glob("*.repo")):
        hint = f"; for the repository itself write file://{word}" if (directory / "repodata").is_dir() else ""
        raise PackageError(f"repositories: {word} holds no *.repo file{hint}")
    return word
