"""Builds the reader of the repositories that hosts install packages from."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from zkdeployment.adapters.packages.host_repositories import DnfHostRepositories
from zkdeployment.adapters.packages.repositories import NamedRepositories
from zkdeployment.errors import ConfigurationError, PackageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.config.sync import SyncSettings


def syncer_repositories(
    sync: SyncSettings, *, tick: Callable[[], None] = lambda: None
) -> DnfHostRepositories | None:
    """Return the configured repositories, cached beside the mirror; ``None`` if none are configured.

    ``tick`` is called a few times a second while they are read; when it raises, the reading ends.
    """
    if not sync.repositories:
        return None
    mirror = sync.tree_directory
    cache = mirror.with_name(f".{mirror.name}.packages")
    return DnfHostRepositories(cache, NamedRepositories(sync.repositories), tick=tick)


@contextlib.contextmanager
def temporary_repositories(
    sync: SyncSettings, *, tick: Callable[[], None]
) -> Iterator[DnfHostRepositories | None]:
    """Yield the configured repositories, cached in a temporary directory; ``None`` if none are configured.

    The service has no other directory of its own. ``tick`` is as in ``syncer_repositories``.
    """
    if not sync.repositories:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zkdeployment-packages-") as cache:
        yield DnfHostRepositories(Path(cache), NamedRepositories(sync.repositories), tick=tick)


def check_repositories(configured: Sequence[str], where: str) -> None:
    """Raise ``ConfigurationError`` for a value that dnf cannot use; ``where`` names their origin."""
    try:
        NamedRepositories(tuple(configured)).arguments()
    except PackageError as error:
        raise ConfigurationError(f"{where}: {str(error).removeprefix('repositories: ')}") from error


def own_repositories(configured: Sequence[str]) -> DnfHostRepositories:
    """Return repositories for a command, cached in the user's cache directory."""
    cache = Path(platformdirs.user_cache_dir("zkdeployment", appauthor=False))
    return DnfHostRepositories(cache / "packages", NamedRepositories(tuple(configured)))
