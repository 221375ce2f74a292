"""Quarantines: commits that forbid a version in the whole fleet, or allow it again."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from zkdeployment.base.errors import RefusedError, TreeError, without_passwords
from zkdeployment.base.text import listing
from zkdeployment.documents.edits import with_new_document, without_document
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.rules.quarantines import QUARANTINE, Quarantine, quarantined
from zkdeployment.publishing.rules.review import Review, check_change, review
from zkdeployment.tree.checkout import is_checkout, parse_checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits


#: The limit of services that a message names.
_NAMED = 5


def with_quarantine(files: Sequence[SourceFile], quarantine: Quarantine) -> dict[str, bytes | None]:
    """Return the changed files after a version is put into quarantine; empty if it already is in quarantine.

    Raises ``RefusedError`` if the tree wants the version.
    """
    reviewed = review(files)
    wanted = [assignment.path for assignment, _ in quarantined(_assignments(reviewed), [quarantine])]
    if wanted:
        raise RefusedError(
            f"cannot put {quarantine} into quarantine, because the tip of the branch wants it"
            f" ({listing(sorted(set(wanted)), _NAMED)}): change the version in the tree first, or use"
            " 'zkdeployment rollback --quarantine'"
        )
    if (quarantine.name, quarantine.version) in reviewed.documents.of(QUARANTINE):
        return {}
    return _with_new(files, quarantine)


def _with_new(files: Sequence[SourceFile], quarantine: Quarantine) -> dict[str, bytes | None]:
    subject = quarantine.name, quarantine.version
    return with_new_document(files, QUARANTINE, subject, quarantine.to_document())


def without_quarantine(files: Sequence[SourceFile], name: str, version: str) -> dict[str, bytes | None]:
    """Return the changed file after the end of a quarantine; raises ``RefusedError`` if it does not exist."""
    entry = read_documents(document_files(files)).entries.get((QUARANTINE.name, (name, version)))
    if entry is None:
        raise RefusedError(
            f"there is no quarantine of {without_passwords(name)} {version} at the tip of the branch;"
            " 'zkdeployment quarantine list' shows all"
        )
    return without_document(files, entry)


def introduced_versions(
    past: Sequence[SourceFile], newer: Iterable[Sequence[SourceFile]]
) -> tuple[tuple[str, str], ...]:
    """Return the names and versions that the ``newer`` revisions want, but not the ``past`` revision."""
    last = review(past)
    wanted_before = tuple(_assignments(last))
    versions: dict[tuple[str, str], None] = {}
    for files in newer:
        last = review(files, last)
        for assignment in _assignments(last):
            versions |= dict.fromkeys(_versions(assignment))
    return tuple(
        (name, version)
        for name, version in sorted(versions)
        if not any(Quarantine(name, version, "", "", "").matches(assignment) for assignment in wanted_before)
    )


def _assignments(reviewed: Review) -> Iterator[Assignment]:
    return (assignment for listed in reviewed.targets.values() for assignment in listed)


def _versions(assignment: Assignment) -> Iterator[tuple[str, str]]:
    """Yield the names and versions that an assignment wants, in the form of quarantines."""
    yield from assignment.patches.items()
    in_name = assignment.package.removeprefix(f"{assignment.application}-")
    if assignment.version is None:
        if in_name != assignment.package:
            yield assignment.application, in_name
    elif not is_checkout(assignment.version):
        yield assignment.package, assignment.version
    else:
        try:
            checkout = parse_checkout(assignment.version)
        except TreeError:
            return
        if without_passwords(checkout.url) == checkout.url:
            yield checkout.url, checkout.revision


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
    present = read_documents(document_files(branch.files)).of(QUARANTINE)
    changed: dict[str, bytes | None] = {}
    for name, version in introduced_versions(branch.past_files, branch.newer_files):
        if (name, version) not in present:
            files = FileChanges(changed, "").apply(branch.files)
            changed |= _with_new(files, new_record(name, version, reason, author, now))
    return changed


def new_record(name: str, version: str, reason: str, author: Author, now: float) -> Quarantine:
    """Return a quarantine by a person at a time in seconds since the epoch."""
    time = dt.datetime.fromtimestamp(int(now), tz=dt.UTC)
    return Quarantine(name, version, reason, str(author), time.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _subject(act: str, quarantine: Quarantine) -> str:
    return f"{act} {quarantine}: {quarantine.reason}"
