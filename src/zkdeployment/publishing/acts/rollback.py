"""Rollbacks: a commit that restores the tree of an earlier revision, and its publication.

A YAML file may hold strategies and other documents, so such files are divided into documents. The text of a
document is not changed: comments and layout stay.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Revision, short
from zkdeployment.base.source_files import SourceFile, is_tree_file
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.documents.reading import document_files, read_documents
from zkdeployment.publishing.acts.commits import (
    ROLLBACK_TRAILER,
    ROLLOUT_TRAILER,
    Author,
    BranchSnapshot,
    CommitOutcome,
    FileChanges,
)
from zkdeployment.publishing.rules.convergence import is_completed
from zkdeployment.strategies.documents import strategy_in_force
from zkdeployment.tree.layers import without_reserved
from zkdeployment.tree.parse import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zkdeployment.publishing.records import CommitSummary, PublicationRecord
    from zkdeployment.publishing.sources.git.act_commits import TreeCommits
    from zkdeployment.strategies.state import RolloutState


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOrder:
    """The request for a rollback.

    ``revision`` is the commit whose tree is wanted again; ``None`` is the last successful revision. ``rollout`` is
    the id of the failed rollout that the coordinator rolls back, with at most one commit for each. ``quarantine``
    puts each version that the undone commits introduced into quarantine, at the time ``now`` in epoch seconds.
    ``former_strategy`` restores the strategies of the revision, too; else those of the branch's tip stay.
    """

    author: Author
    reason: str
    revision: str | None = None
    rollout: str | None = None
    quarantine: bool = False
    former_strategy: bool = False
    now: float = 0.0


def governing_strategy(outcome: CommitOutcome, commits: TreeCommits) -> str:
    """Return a sentence on the strategy that governs a rollback, and on the former one if that is not restored."""
    past = str(outcome.past)
    found = strategy_in_force(read_documents(document_files(outcome.files)))
    former = strategy_in_force(read_documents(document_files(commits.files(past))))
    governs = "no strategy governs" if found is None else f"the strategy {found.name} governs"
    how = "all hosts without the revision deploy at once" if found is None else "hosts deploy in its groups"
    if found == former:
        return f"{governs} the rollback: {how}"
    had = "had no strategy" if former is None else f"had the strategy {former.name} with other content"
    if former is not None and (found is None or found.name != former.name):
        had = f"had the strategy {former.name}"
    return f"{governs} the rollback: {how}; {short(past)} {had}, which is not restored"


def last_good_revision(
    records: Iterable[PublicationRecord],
    attempts: Callable[[int], Sequence[RolloutState]],
    *,
    with_current: bool = False,
) -> Revision | None:
    """Return the last successful revision before the current one; ``None`` if the history has no such revision.

    ``records`` are newest first. ``attempts`` returns the rollouts of the publication with a sequence. A
    publication that changed only documents succeeded if the last one that concerned hosts did. ``with_current``:
    what shall be undone is not published, so that the current revision counts, too.
    """
    by_sequence = {record.sequence: record for record in records}
    current = next(iter(by_sequence.values()), None)
    for record in by_sequence.values():
        if not with_current and current is not None:
            if current.revision == record.revision:
                continue
            if record.effective_since == current.effective_since:
                continue  # the same tree and strategy
        base = by_sequence.get(record.effective_since, record)
        if has_succeeded(base, attempts(base.sequence)):
            return record.revision
    return None


#: The subject of a rollback: the shortened revision to which it leads.
_ROLLED_BACK = re.compile(r"Roll back to ([0-9a-f]{12}): ")


def restored_commit(record: PublicationRecord, records: Iterable[PublicationRecord]) -> tuple[str, str]:
    """Return the shortened revision and the subject of the commit that made the tree of a publication.

    For a rollback that is the commit to which it led. The subject is empty if no publication before it in
    ``records``, newest first, has that commit.
    """
    revision, subject = short(record.revision), "" if record.origin is None else record.origin.subject
    for older in (each for each in records if each.sequence < record.sequence):
        if (rolled := _ROLLED_BACK.match(subject)) is None:
            break
        if str(older.revision).startswith(rolled[1]):
            revision, subject = short(older.revision), "" if older.origin is None else older.origin.subject
    rolled = _ROLLED_BACK.match(subject)
    return (revision, subject) if rolled is None else (rolled[1], "")


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


def rollback_changes(
    branch: BranchSnapshot, reason: str, *, rollout: str | None = None, former_strategy: bool = False
) -> FileChanges:
    """Return the change that restores the tree files of ``branch.past``, with its commit message.

    ``rollout`` is the id of the failed rollout that the coordinator rolls back. ``former_strategy`` is as in
    ``restored_files``.
    """
    past = branch.past or branch.tip
    trailers = {ROLLBACK_TRAILER: past}
    if rollout is not None:
        trailers[ROLLOUT_TRAILER] = rollout
    return FileChanges(
        restored_files(branch, former_strategy=former_strategy),
        f"Roll back to {short(past)}: {reason}",
        _undone(branch.newer),
        trailers,
    )


def restored_files(
    branch: BranchSnapshot, *, former_strategy: bool = False, keeps_nodes: bool = True
) -> dict[str, bytes | None]:
    """Return the files that differ between the tip and the rolled back tip, with their new content.

    The strategies of the tip stay, unless ``former_strategy`` asks for those of the past, or the tip has
    strategies with errors: no publication could follow them. Top-level nodes that the past does not have stay
    empty in their ``.zk`` files, because a publication ends nothing below a node that is in no file. Former
    programs did not keep them (``keeps_nodes``).
    """
    present, past = _contents(branch.files), _contents(branch.past_files)
    former_strategy = former_strategy or _has_broken_strategies(branch)
    tops = {top for name, content in past.items() for top in _owned_tops(name, content)}
    restored: dict[str, bytes | None] = {}
    for name in sorted({*present, *past, *branch.unusable}):
        old, new = present.get(name), past.get(name)
        if not is_tree_file(name):
            new = with_strategies_of(new or b"", old or b"") or None if former_strategy else old
        elif (
            keeps_nodes
            and new != old
            and (left := [top for top in _owned_tops(name, old or b"") if top not in tops])
        ):
            tops.update(left)
            new = _with_empty_nodes(new or b"", left)
        if new != old or name in branch.unusable:
            restored[name] = new
    return restored


def is_rollback(branch: BranchSnapshot, files: Sequence[SourceFile]) -> bool:
    """Whether ``files`` have the tree files that a rollback makes of the tip, also one by a former program."""
    present, found = _contents(branch.files), _tree_files(_contents(files))
    restored = (restored_files(branch, keeps_nodes=keeps_nodes) for keeps_nodes in (True, False))
    return any(_tree_files({**present, **each}) == found for each in restored)


def _tree_files(contents: Mapping[str, bytes | None]) -> dict[str, bytes]:
    return {name: content for name, content in contents.items() if content is not None and is_tree_file(name)}


def _owned_tops(name: str, content: bytes) -> Sequence[str]:
    """Return the top-level nodes that a publication makes equal to a file: those of a ``.zk`` file."""
    if not is_tree_file(name) or (parsed := parse_bytes(name, content)).is_layer:
        return ()
    return without_reserved(parsed.tree).tops


def _with_empty_nodes(content: bytes, tops: Iterable[str]) -> bytes:
    if content and not content.endswith(b"\n"):
        content += b"\n"
    return content + "".join(f"{top}\n" for top in tops).encode()


def _has_broken_strategies(branch: BranchSnapshot) -> bool:
    """Whether a file with strategies at the tip has errors, or is no file that can be read."""
    broken = {problem.file for problem in read_documents(document_files(branch.files)).errors}
    unusable = any(_STRATEGY.search(file.content) for file in branch.past_files if file.name in branch.unusable)
    return unusable or any(_STRATEGY.search(file.content) for file in branch.files if file.name in broken)


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
