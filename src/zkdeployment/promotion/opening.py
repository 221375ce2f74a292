"""Opens the main branch for the acts of operators, with their own rights for the repository."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.daemon import failpoints
from zkdeployment.config.settings import SYSTEM_CONFIGURATION, load
from zkdeployment.promotion.acts import OperatorBranches
from zkdeployment.promotion.settings import PromoteSettings
from zkdeployment.publishing.acts.commits import Author

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Seconds for one run of git, because a person waits.
_TIMEOUT = 60.0

_PROGRAM = "zkdeployment"


def configured_promotion(config: Path | None) -> PromoteSettings:
    """Return the section [promote] of a configuration; raises ``ConfigurationError`` without it."""
    return load(config or SYSTEM_CONFIGURATION, host=False).require(PromoteSettings)


@contextlib.contextmanager
def open_main(settings: PromoteSettings, signing_key: Path | None = None) -> Iterator[OperatorBranches]:
    """Yield the main branch, freshly read; the user's own keys are used, not the promoter's.

    ``signing_key`` signs the commits. Raises ``SourceError`` if the repository cannot be read.
    """
    # GitPython is imported only where it is used, so that the other verbs start fast.
    from zkdeployment.promotion.branches import FleetBranches  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits  # noqa: PLC0415
    from zkdeployment.publishing.sources.git.source import GitSource  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="zkdeployment-promote-") as scratch:
        source = GitSource(
            settings.url,
            Path(scratch) / "mirror",
            branch=settings.branch,
            timeout=_TIMEOUT,
            gap=1,
            every_branch=True,
        )
        branches = FleetBranches(source)
        committer = Author.of(_PROGRAM, f"{_PROGRAM}@{socket.gethostname()}")
        commits = TreeCommits(source, committer, signing_key, reach=failpoints.reach)
        yield OperatorBranches(branches.fetch(), branches, commits)
