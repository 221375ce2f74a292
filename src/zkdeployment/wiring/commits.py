"""Composition of the acts that are commits: the repository, its mirror, the keys, and the people at a terminal."""

from __future__ import annotations

import contextlib
import shlex
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.daemons import failpoints
from zkdeployment.errors import RefusedError, without_passwords
from zkdeployment.model.commits import Author
from zkdeployment.wiring.approvals import mirror_approvals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.config.settings import Settings
    from zkdeployment.ports.commits import TreeCommits

#: Seconds for one run of git: an act waits for people or for a stopped fleet.
_TIMEOUT = 60.0

_PROGRAM = "zkdeployment"


@contextlib.contextmanager
def open_commits(settings: Settings) -> Iterator[TreeCommits]:
    """Yield the branch of the configured repository as a place for commits; its mirror is made when it is used.

    Raises ``RefusedError`` if the tree is in Subversion, ``ConfigurationError`` without a repository.
    """
    # GitPython is imported only where it is used, so that the other verbs start fast.
    from zkdeployment.adapters.git.act_commits import GitTreeCommits  # noqa: PLC0415
    from zkdeployment.adapters.git.source import GitSource  # noqa: PLC0415
    from zkdeployment.adapters.sources import system_of  # noqa: PLC0415

    sync = settings.require_sync()
    url = sync.push_url or sync.url
    if "svn" in {system_of(url), system_of(sync.url)}:
        raise RefusedError(
            f"{without_passwords(sync.url)} is a Subversion repository, and acts are committed to git only; change"
            " the tree with 'svn commit'"
        )
    variables = {}
    if sync.push_key is not None:
        ssh = ["ssh", "-i", str(sync.push_key), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]
        variables["GIT_SSH_COMMAND"] = shlex.join(ssh)
    with tempfile.TemporaryDirectory(prefix="zkdeployment-acts-") as scratch:
        source = GitSource(
            url,
            Path(scratch) / "mirror",
            branch=sync.branch,
            allowed_signers=sync.allowed_signers,
            timeout=_TIMEOUT,
            gap=1,
            variables=variables,
        )
        yield GitTreeCommits(
            source,
            Author.of(_PROGRAM, f"{_PROGRAM}@{socket.gethostname()}"),
            sync.signing_key,
            mirror_approvals(sync, source),
            reach=failpoints.reach,
        )


def terminal_author(user: str) -> Author:
    """Return the author of acts at a terminal: the person of git's configuration, else the machine's ``user``."""
    from zkdeployment.adapters.git.people import configured_author  # noqa: PLC0415  it runs git

    return configured_author(Path.cwd()) or user_author(user)


def user_author(user: str) -> Author:
    """Return the author of the acts of a user of the service or of this machine."""
    return Author.of(user, f"{user}@{socket.gethostname()}")
