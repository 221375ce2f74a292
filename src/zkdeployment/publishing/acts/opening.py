"""Opens the repository of the tree for acts as commits, and local repositories for commands and hooks.

GitPython is imported only when a repository is read, so that the other commands start fast.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from zkdeployment.base.daemon import failpoints
from zkdeployment.base.errors import RefusedError, without_passwords
from zkdeployment.publishing.acts.commits import COMMITTER, Author
from zkdeployment.publishing.section import section
from zkdeployment.publishing.settings import SyncSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.config.settings import Settings
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.publishing.sources.git.objects import Pushed


def read_local_revision(name: str) -> Sequence[SourceFile]:
    """Return the files of a revision of the git repository around this directory; raises ``SourceError``."""
    from zkdeployment.publishing.sources.git.source import revision_files  # noqa: PLC0415

    return revision_files(Path.cwd(), name)


def is_local_revision(name: str) -> bool:
    """Whether the git repository around this directory has this revision."""
    from zkdeployment.publishing.sources.git.objects import has_revision  # noqa: PLC0415

    return has_revision(name)


def read_staged() -> Sequence[SourceFile]:
    """Return the files of the git index, as a pre-commit hook sees them; raises ``SourceError``."""
    from zkdeployment.publishing.sources.git.objects import staged_files  # noqa: PLC0415

    return staged_files()


def read_documents_of(commit: str) -> Sequence[SourceFile]:
    """Return the files with documents of a commit; empty if the commit does not exist. Raises ``SourceError``."""
    from zkdeployment.publishing.sources.git.objects import documents_of  # noqa: PLC0415

    return documents_of(commit)


def read_push(lines: TextIO) -> Sequence[Pushed] | None:
    """Return the branches of a push, as git passes them to a pre-receive hook; ``None`` without any."""
    from zkdeployment.publishing.sources.git.objects import read_pushed  # noqa: PLC0415

    return read_pushed(lines)


#: The time limit of one run of git, in seconds, because a person or a stopped fleet waits for an act.
_TIMEOUT = 60.0


@contextlib.contextmanager
def open_commits(settings: Settings) -> Iterator[TreeCommits]:
    """Yield the branch of the configured repository as a place for commits; its mirror is made at the first use.

    Raises ``RefusedError`` if the tree is in Subversion, ``ConfigurationError`` without a repository.
    """
    # GitPython is imported only where it is used, so that the other verbs start fast.
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.command import ssh_variables  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.source import GitSource  # noqa: PLC0415
    from zkdeployment.publishing.sources.opening import system_of  # noqa: PLC0415

    sync = settings.require(SyncSettings)
    url = sync.push_url or sync.url
    if "svn" in {system_of(url), system_of(sync.url)}:
        raise RefusedError(
            f"{without_passwords(sync.url)} is a Subversion repository, and acts are committed to git only; change"
            " the tree with 'svn commit'"
        )
    with tempfile.TemporaryDirectory(prefix="zkdeployment-acts-") as scratch:
        source = GitSource(
            url,
            Path(scratch) / "mirror",
            branch=sync.branch,
            allowed_signers=sync.allowed_signers,
            timeout=_TIMEOUT,
            gap=1,
            variables=ssh_variables(sync.push_key),
        )
        yield TreeCommits(
            source,
            Author.of(COMMITTER, f"{COMMITTER}@{socket.gethostname()}"),
            sync.signing_key,
            section().mirror_approvals(sync, source),
            sync.contained_in,
            reach=failpoints.reach,
        )


def terminal_author(user: str) -> Author:
    """Return the author of acts at a terminal: the user in git's configuration, else the machine's ``user``."""
    from zkdeployment.publishing.sources.git.act_commits import configured_author  # noqa: PLC0415  it runs git

    return configured_author(Path.cwd()) or user_author(user)


def user_author(user: str) -> Author:
    """Return the author of the acts of a user of the service or of this machine."""
    return Author.of(user, f"{user}@{socket.gethostname()}")
