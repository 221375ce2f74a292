"""The version control systems for trees. A new one needs a room, a line below, and a test in ``system_of``."""

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
    """Return the source for the repository at ``url``; no network is used yet.

    Raises ``ConfigurationError`` if its system does not support an option.
    """
    return SYSTEMS[system_of(url)](url, tree_directory, branch=branch, allowed_signers=allowed_signers)


def system_of(url: str) -> str:
    """Return the name of a repository's system; local directories are inspected."""
    if re.match(r"svn(\+[a-z]+)?:", url) or (url.startswith("file://") and _is_in_subversion(url)):
        return "svn"
    return "git"


def _is_in_subversion(url: str) -> bool:
    place = Path(unquote(urlsplit(url).path))
    return any((top / "format").is_file() and (top / "db").is_dir() for top in (place, *place.parents))


def _open_subversion(
    url: str, tree_directory: Path, *, branch: str | None, allowed_signers: Path | None
) -> TreeSource:
    """Return the source for a Subversion directory; ``svn:URL`` marks any URL that svn understands."""
    del tree_directory  # Subversion needs no mirror
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
