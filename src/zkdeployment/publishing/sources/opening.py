"""Opens the repository of a tree with the adapter for its version control system.

A new system needs a folder beside ``git`` and ``svn``, an entry in ``SYSTEMS``, and a rule in ``system_of``.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from zkdeployment.base.cluster import Revision, is_commit
from zkdeployment.base.errors import ConfigurationError, without_passwords
from zkdeployment.publishing.sources.git.source import GitSource
from zkdeployment.publishing.sources.svn import SvnSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.publishing.ports import TreeSource
    from zkdeployment.publishing.settings import SyncSettings


def open_source(
    url: str,
    tree_directory: Path,
    *,
    branch: str | None = None,
    allowed_signers: Path | None = None,
    every_branch: bool = False,
) -> TreeSource:
    """Return the source for the repository at ``url``, without using the network.

    ``every_branch``: the commits of all branches can be read (git only).

    Raises ``ConfigurationError`` if the repository's system does not support an option.
    """
    open_system = SYSTEMS[system_of(url)]
    return open_system(
        url, tree_directory, branch=branch, allowed_signers=allowed_signers, every_branch=every_branch
    )


def system_of(url: str) -> str:
    """Return the name of a repository's version control system; local directories are inspected."""
    if re.match(r"svn(\+[a-z]+)?:", url) or (url.startswith("file://") and _is_in_subversion(url)):
        return "svn"
    return "git"


def _is_in_subversion(url: str) -> bool:
    directory = Path(unquote(urlsplit(url).path))
    return any((top / "format").is_file() and (top / "db").is_dir() for top in (directory, *directory.parents))


def _open_subversion(
    url: str, tree_directory: Path, *, branch: str | None, allowed_signers: Path | None, every_branch: bool
) -> TreeSource:
    """Return the source for a Subversion directory; the prefix ``svn:`` marks any URL as a Subversion URL."""
    del tree_directory, every_branch  # Subversion is read without a mirror, and its branches are directories
    shown = without_passwords(url)
    if branch is not None:
        raise ConfigurationError(
            f"branch: {shown} is a Subversion repository, where the branch is a part of url; found {branch};"
            " remove the key branch"
        )
    if allowed_signers is not None:
        raise ConfigurationError(
            f"allowed-signers: {shown} is a Subversion repository, and only git's commits can be signed; remove"
            " the key allowed-signers"
        )
    plain = url.removeprefix("svn:")
    return SvnSource(plain if "://" in plain else url)


#: Each function takes the arguments of ``open_source``.
SYSTEMS: Mapping[str, Callable[..., TreeSource]] = {"git": GitSource, "svn": _open_subversion}


def read_revision(sync: SyncSettings, name: Revision | None = None) -> tuple[Revision, Sequence[SourceFile]]:
    """Return a revision and its tree files, read through a temporary mirror; raises ``SourceError``.

    ``name`` is a branch, or the whole id of a commit of any branch (Subversion: a number of the configured
    directory); without a name, the revision is the tip of the configured branch. Signatures are not verified:
    nothing is published.
    """
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as place:
        branch = name if isinstance(name, str) and not is_commit(name) else None
        is_commit_id = name is not None and branch is None
        source = open_source(
            sync.url, Path(place) / "mirror", branch=branch or sync.branch, every_branch=is_commit_id
        )
        tip = source.fetch()
        revision = tip if name is None or branch is not None else name
        return revision, source.files(revision)
