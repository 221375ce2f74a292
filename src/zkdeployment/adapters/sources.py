"""The systems that a tree may be kept in: a new one is a module beside this, a line below, and how to tell it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from zkdeployment.adapters.git.source import GitSource
from zkdeployment.adapters.svn.source import SvnSource
from zkdeployment.errors import ConfigurationError, without_passwords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.ports.publication import TreeSource


class _Open(Protocol):
    def __call__(
        self, url: str, tree_directory: Path, *, branch: str | None, allowed_signers: Path | None
    ) -> TreeSource: ...


def open_source(
    url: str, tree_directory: Path, *, branch: str | None = None, allowed_signers: Path | None = None
) -> TreeSource:
    """Return the repository at ``url``; nothing is contacted yet.

    Raises ``ConfigurationError`` if its system cannot do what is asked.
    """
    return SYSTEMS[system_of(url)](url, tree_directory, branch=branch, allowed_signers=allowed_signers)


def system_of(url: str) -> str:
    """Say which system a repository is of; a local one is looked at."""
    if re.match(r"svn(\+[a-z]+)?:", url) or (url.startswith("file://") and _is_in_subversion(url)):
        return "svn"
    return "git"


def _is_in_subversion(url: str) -> bool:
    place = Path(unquote(urlsplit(url).path))
    return any((top / "format").is_file() and (top / "db").is_dir() for top in (place, *place.parents))


def _open_subversion(
    url: str, tree_directory: Path, *, branch: str | None, allowed_signers: Path | None
) -> TreeSource:
    """Return a directory of a Subversion repository; ``svn:URL`` stands for any URL that svn understands."""
    del tree_directory  # nothing has to be kept
    shown = without_passwords(url)
    if branch is not None:
        raise ConfigurationError(
            f"branch: {shown} is a Subversion repository, where the branch is a part of url; found {branch}"
        )
    if allowed_signers is not None:
        raise ConfigurationError(
            f"allowed-signers: {shown} is a Subversion repository; only git's commits can be signed"
        )
    plain = url.removeprefix("svn:")
    return SvnSource(plain if "://" in plain else url)


SYSTEMS: Mapping[str, _Open] = {"git": GitSource, "svn": _open_subversion}
