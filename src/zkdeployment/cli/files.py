"""Reads the files, the documents and the repositories in arguments of verbs, and the text that hosts last had."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.base.cluster import Revision, is_commit
from zkdeployment.base.daemon.control import interrupted_by_signals
from zkdeployment.base.errors import ConfigurationError, SourceError
from zkdeployment.base.source_files import (
    DOCUMENT_SUFFIXES,
    TREE_SUFFIXES,
    SourceFile,
    is_tree_file,
)
from zkdeployment.cli.options import configured_revision, require_path
from zkdeployment.config.settings import chosen_settings_if_any, load
from zkdeployment.documents.kinds import known_kinds, mentions_documents
from zkdeployment.publishing.acts.opening import read_local_revision
from zkdeployment.publishing.rules.changes import ordered_revision
from zkdeployment.publishing.rules.review import review
from zkdeployment.publishing.settings import SyncSettings, paths_problem
from zkdeployment.publishing.sources.directory import read_directory, read_nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories
    from zkdeployment.fleet.views.forecast import PredictionBasis


def read_files(paths: Iterable[str]) -> list[SourceFile]:
    """Return the named files, and the tree files and documents in named directories.

    Raises ``ConfigurationError`` for a file that cannot be read or is neither.
    """
    return [file for path in paths for file in _read(Path(path))]


def read_trees(names: Iterable[str]) -> list[SourceFile]:
    """Return files and directories as ``read_files`` does; other names are revisions of the local repository.

    Files with documents in subdirectories follow, so that checks can name documents that are not in force.
    """
    return [file for name in names for file in _read_tree(name)]


def looks_like_file(path: str) -> bool:
    """Return whether a path has the suffix of a tree file or a document; the file may be missing."""
    return path.endswith(TREE_SUFFIXES + DOCUMENT_SUFFIXES)


def is_whole_tree(names: Iterable[str]) -> bool:
    """Return whether the names are directories or revisions: a whole tree, which removes all other nodes."""
    return any(Path(name).is_dir() or not looks_like_file(name) for name in names)


def _read_tree(name: str) -> Iterable[SourceFile]:
    if Path(name).exists() or looks_like_file(name):
        return [*_read(Path(name)), *_read_below(Path(name), read_nested)]
    try:
        return read_local_revision(name)
    except SourceError as error:
        raise ConfigurationError(
            f"{name} is neither a file nor a directory, and no git revision: {error}"
        ) from error


def _read(path: Path) -> list[SourceFile]:
    try:
        if path.is_dir():
            return _read_below(path, lambda top: read_directory(top, str(top)))
        if not looks_like_file(path.name) and path.exists():
            raise ConfigurationError(
                f"{path} is not a tree file: expected *.zk, *.zkx or a directory with such files"
            )
        file = SourceFile(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename or path}: {error.strerror}") from error
    if not is_tree_file(path.name) and not mentions_documents(file.content):
        raise ConfigurationError(
            f"{path} holds no document: expected schema: {' or '.join(known_kinds().by_schema)}"
        )
    return [file]


def _read_below(top: Path, read: Callable[[Path], Iterable[SourceFile]]) -> list[SourceFile]:
    """Return the files that ``read`` finds in a directory, with their paths."""
    try:
        return [replace(file, name=str(top / file.name)) for file in read(top)]
    except SourceError as error:
        raise ConfigurationError(str(error)) from error


def with_ordered_text(basis: PredictionBasis, config: Path | None) -> PredictionBasis:
    """Return the basis with the text that hosts were last ordered to deploy, if the live tree may differ.

    The text is that of the git repository around the current directory, or of the configured repository. The basis
    stays unchanged if neither has the revision.
    """
    revision = ordered_revision(basis.published)
    if revision is None:
        return basis
    try:
        return replace(basis, ordered_text=review(_read_ordered(revision, config)))
    except (ConfigurationError, SourceError):
        return basis


def _read_ordered(revision: Revision, config: Path | None) -> Sequence[SourceFile]:
    if isinstance(revision, str) and is_commit(revision):
        try:
            return read_local_revision(revision)
        except SourceError:
            pass  # the revision is in another repository, or there is no repository
    return configured_revision(config, revision)[1]


R = TypeVar("R")


def governed_paths_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--governed-path``; the verb receives ``governed``, the paths."""
    return click.option(
        "--governed-path",
        "governed",
        metavar="PATH",
        multiple=True,
        callback=lambda _context, _option, paths: _checked_paths(paths),
        help="A path at and below which all services need an intent."
        "  [default: governed-paths in [sync] of --config]",
    )(function)


def _checked_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        require_path(path)
    if (problem := paths_problem(" ".join(paths))) is not None:
        raise click.BadParameter(problem)
    return paths


def governed_paths(config: Path | None) -> tuple[str, ...]:
    """Return the paths of a configuration at and below which all services need an intent."""
    sync = None if config is None else load(config, host=False).of(SyncSettings)
    return () if sync is None else sync.governed_paths


#: The message of a command without repositories.
NO_REPOSITORIES = (
    "no repositories are configured: set repositories in [sync] of the configuration, or use --repositories"
)


def repositories_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--repositories``; the verb receives ``repositories``, the values of all occurrences."""
    return click.option(
        "--repositories",
        metavar="VALUE",
        multiple=True,
        help="Where hosts get packages from, instead of the configuration's: a directory of *.repo files, a URL or"
        " dnf's configuration file. May be repeated.",
    )(function)


def chosen_repositories(given: Sequence[str], config: Path | None) -> tuple[str, ...]:
    """Return the given repositories, else those of the configuration (default: the system's, if there is one)."""
    if given:
        return _named_repositories([value for values in given for value in values.split()])
    settings = chosen_settings_if_any(config)
    sync = None if settings is None else settings.of(SyncSettings)
    return () if sync is None else sync.repositories


def _named_repositories(values: Sequence[str]) -> tuple[str, ...]:
    """Return the values of the option, with absolute paths; raises ``ConfigurationError`` for an invalid one."""
    from zkdeployment.agent.packages.host_repositories import check_repositories  # noqa: PLC0415  as below

    if not values:
        raise ConfigurationError("--repositories: expected a directory, a URL or a file, found nothing")
    repositories = tuple(str(Path(value).absolute()) if Path(value).exists() else value for value in values)
    check_repositories(repositories, "--repositories")
    return repositories


@contextmanager
def open_repositories(repositories: Sequence[str]) -> Iterator[DnfHostRepositories]:
    """Yield the repositories, as ``check_packages`` reads them; a signal inside the block ends dnf, too."""
    from zkdeployment.agent.packages.host_repositories import own_repositories  # noqa: PLC0415  for quick commands without

    with interrupted_by_signals():
        yield own_repositories(repositories)
