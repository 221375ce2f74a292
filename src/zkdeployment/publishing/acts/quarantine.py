"""Quarantines: commits that forbid a version in the whole fleet, or allow it again."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from zkdeployment.publishing.acts.checking import check_change
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, FileChanges
from zkdeployment.publishing.rules.quarantine_changes import (
    introduced_versions,
    new_quarantine,
    with_quarantine,
    without_quarantine,
)
from zkdeployment.publishing.rules.quarantines import Quarantine

if TYPE_CHECKING:
    from zkdeployment.publishing.acts.commits import CommitOutcome, TreeCommits


def add_quarantine(
    commits: TreeCommits, quarantine: Quarantine, author: Author, *, dry_run: bool = False
) -> CommitOutcome:
    """Put a version into quarantine; raises ``RefusedError`` while the tip of the branch wants the version."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        return FileChanges(with_quarantine(branch.files, quarantine), _subject("Quarantine", quarantine))

    return commits.commit(CommitOrder(author=author, compute=compute, check=check_change), dry_run=dry_run)


def remove_quarantine(
    commits: TreeCommits, quarantine: Quarantine, author: Author, *, dry_run: bool = False
) -> CommitOutcome:
    """End the quarantine of a version; raises ``RefusedError`` if it does not exist."""

    def compute(branch: BranchSnapshot) -> FileChanges:
        changed = without_quarantine(branch.files, quarantine.name, quarantine.version)
        return FileChanges(changed, _subject("End the quarantine of", quarantine))

    return commits.commit(CommitOrder(author=author, compute=compute, check=check_change), dry_run=dry_run)


def quarantines_of_rollback(
    branch: BranchSnapshot, reason: str, author: Author, now: float
) -> dict[str, bytes | None]:
    """Return the files of new quarantines: of each version that the commits of a rollback introduced."""
    files: dict[str, bytes | None] = {}
    present = {file.name for file in branch.files}
    for name, version in introduced_versions(branch.past_files, branch.newer_files):
        files |= new_quarantine(new_record(name, version, reason, author, now))
    return {name: content for name, content in files.items() if name not in present}


def new_record(name: str, version: str, reason: str, author: Author, now: float) -> Quarantine:
    """Return a quarantine by a person at a time in seconds since the epoch."""
    time = dt.datetime.fromtimestamp(int(now), tz=dt.UTC)
    return Quarantine(name, version, reason, str(author), time.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _subject(act: str, quarantine: Quarantine) -> str:
    return f"{act} {quarantine}: {quarantine.reason}"
