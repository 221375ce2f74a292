"""Makes dnf repositories of directories of RPM files, with createrepo_c."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.errors import PackageError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MAKER = "createrepo_c"


def is_possible() -> bool:
    """Whether createrepo_c is installed."""
    return shutil.which(_MAKER) is not None


def make(directory: Path, name: str, *, signed: bool) -> Sequence[str]:
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
