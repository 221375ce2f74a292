"""The option ``--repositories`` of ``plan`` and ``lint``, and the repositories that it names."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.base.daemon.control import interrupted_by_signals
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.config.settings import SYSTEM_CONFIGURATION, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.agent.packages.host_repositories import DnfHostRepositories

R = TypeVar("R")

#  The message of a command without repositories.
MISSING = "no repositories are configured: set repositories in [sync] of the configuration, or use --repositories"


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
    if config is None and not os.access(SYSTEM_CONFIGURATION, os.R_OK):
        return ()
    sync = load(config or SYSTEM_CONFIGURATION, host=False).sync
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
