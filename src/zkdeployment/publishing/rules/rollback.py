"""The revision to which a rollback returns, and the files that the rollback writes.

A YAML file may hold strategies and other documents, so such files are divided into documents. The text of a
document is not changed: comments and layout stay.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import short
from zkdeployment.base.source_files import is_tree_file
from zkdeployment.base.text import counted
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER, ROLLOUT_TRAILER, FileChanges
from zkdeployment.publishing.rules.convergence import is_completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.source_files import SourceFile
    from zkdeployment.publishing.acts.commits import BranchSnapshot, CommitSummary
    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.strategies.state import RolloutState


def last_good_revision(
    records: Iterable[PublicationRecord], attempts: Callable[[int], Sequence[RolloutState]]
) -> Revision | None:
    """Return the last successful revision before the current one; ``None`` if the history has no such revision.

    ``records`` are newest first. ``attempts`` returns the rollouts of the publication with a sequence. A
    publication that changed only documents succeeded if the last one that concerned hosts did.
    """
    by_sequence = {record.sequence: record for record in records}
    current = next(iter(by_sequence.values()), None)
    for record in by_sequence.values():
        if current is None or current.revision == record.revision:
            continue
        if record.effective_since == current.effective_since:
            continue  # the same tree and strategy
        base = by_sequence.get(record.effective_since, record)
        if has_succeeded(base, attempts(base.sequence)):
            return record.revision
    return None


def has_succeeded(record: PublicationRecord, attempts: Sequence[RolloutState]) -> bool:
    """Whether a publication succeeded: with its rollout, or, without a rollout, on every registered host."""
    if attempts:
        return any(is_completed(attempt) for attempt in attempts)
    return not record.failed and record.done >= record.expected


#: The beginning of a document in a YAML file. YAML allows no such line inside a value.
_DOCUMENT = re.compile(rb"(?m)^(?=---(?:\s|$))")

#: A document about rollouts, possibly with a misspelt schema.
_STRATEGY = re.compile(
    rb"""(?mi)^\s*(?:-{3}\s*)?\{?\s*["']?schema["']?\s*:\s*["']?(shipyard|deployment[-_]?(strategy|configuration))/"""
)

#: Text between documents that is not a document: blank lines, comments and the line that begins a document.
_BLANK = re.compile(rb"(?:\s|#[^\n]*|---|\.\.\.)*")

#: The commits that a commit message lists.
_LISTED = 50


def rollback_changes(branch: BranchSnapshot, reason: str, *, rollout: str | None = None) -> FileChanges:
    """Return the change that restores the tree files and strategies of ``branch.past``, with its commit message.

    ``rollout`` is the id of the failed rollout that the coordinator rolls back.
    """
    past = branch.past or branch.tip
    trailers = {ROLLBACK_TRAILER: past}
    if rollout is not None:
        trailers[ROLLOUT_TRAILER] = rollout
    return FileChanges(
        restored_files(branch), f"Roll back to {short(past)}: {reason}", _undone(branch.newer), trailers
    )


def restored_files(branch: BranchSnapshot) -> dict[str, bytes | None]:
    """Return the files that differ between the tip and the rolled back tip, with their new content."""
    present, past = _contents(branch.files), _contents(branch.past_files)
    restored: dict[str, bytes | None] = {}
    for name in sorted({*present, *past, *branch.unusable}):
        old, new = present.get(name), past.get(name)
        if not is_tree_file(name):
            new = with_strategies_of(new or b"", old or b"") or None
        if new != old or name in branch.unusable:
            restored[name] = new
    return restored


def with_strategies_of(past: bytes, present: bytes) -> bytes:
    """Return the text of a YAML file with the strategies of ``past`` and the other documents of ``present``.

    Text without any document is empty. The file stays unchanged if its strategies are the same.
    """
    if _cores(_strategies(past)) == _cores(_strategies(present)):
        return present
    others = [text for text in _documents(present) if not _STRATEGY.search(text)]
    if not others and all(_STRATEGY.search(text) for text in _documents(past)):
        return past
    return _joined([*_strategies(past), *others])


def _cores(documents: Sequence[bytes]) -> list[bytes]:
    """Return the documents without the comments, blank lines and marks around them."""
    return [b"\n".join(_stripped(_stripped(document.splitlines())[::-1])[::-1]) for document in documents]


def _stripped(lines: list[bytes]) -> list[bytes]:
    return list(itertools.dropwhile(_BLANK.fullmatch, lines))


def _strategies(text: bytes) -> list[bytes]:
    return [document for document in _documents(text) if _STRATEGY.search(document)]


def _documents(text: bytes) -> list[bytes]:
    """Return the documents of a YAML text, each with the comments before it and the line that begins it."""
    documents: list[bytes] = []
    pending = b""
    for part in _DOCUMENT.split(text):
        pending += part
        if not _BLANK.fullmatch(part):
            documents.append(pending)
            pending = b""
    return documents


def _joined(documents: Sequence[bytes]) -> bytes:
    text = b""
    for document in documents:
        if text and not text.endswith(b"\n"):
            text += b"\n"
        if text and not _DOCUMENT.search(document):
            text += b"---\n"
        text += document
    return text


def _undone(commits: Sequence[CommitSummary]) -> str:
    lines = [f"  {short(commit.id)} {commit.subject} ({commit.author})" for commit in commits[:_LISTED]]
    if len(commits) > _LISTED:
        lines.append(f"  and {len(commits) - _LISTED} more")
    return "\n".join([f"This undoes {counted(len(commits), 'commit')}:", "", *lines]) if commits else ""


def _contents(files: Sequence[SourceFile]) -> dict[str, bytes]:
    return {file.name: file.content for file in files}
