"""The files that give an intent the content again that it had in an earlier revision, and change nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import subject_text
from zkdeployment.errors import RefusedError
from zkdeployment.intents.edits import described_as, find_intent, with_description
from zkdeployment.model.commits import FileChanges
from zkdeployment.model.listing import listing
from zkdeployment.model.source_files import is_tree_file
from zkdeployment.planning.review import review
from zkdeployment.tree.diff import diff

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.planning.review import Review
    from zkdeployment.planning.targets.content import IntentContent

#: The most nodes that a message names.
_NAMED = 5


def restored_content(
    present: Sequence[SourceFile], past: Sequence[SourceFile], subject: IntentSubject, digest: str
) -> dict[str, bytes | None]:
    """Return the files that change when an intent gets the content with this digest, which ``past`` files have.

    Whole files are restored: those of the nodes that the content has or had, and of the nodes that its links lead
    to. Raises ``RefusedError`` if the past files have another content, or if other nodes would change, too.
    """
    name = subject_text(subject)
    before = find_intent(past, subject, place="in the revision of the instance").snapshot
    if before.content.digest != digest:
        raise RefusedError(
            f"the content of {name} cannot be restored: expected {digest}, found {before.content.digest} in the"
            " revision of the instance; restore it by hand, then approve it"
        )
    placed = find_intent(present, subject)
    reviewed, former = review(present), review(past)
    owned = _nodes(placed.snapshot.content) | _nodes(before.content)
    files = _restored_files(reviewed, former, owned)
    files |= with_description(placed, described_as(placed.intent, before.intent))
    result = FileChanges(files, "").apply(present)
    change = diff(reviewed.linted.tree, review(result).linted.tree)
    others = sorted({*change.create, *change.update, *change.delete} - owned)
    if others:
        names = ", ".join(sorted(name for name in files if is_tree_file(name)))
        raise RefusedError(
            f"the content of {name} cannot be restored alone: {names} would also change"
            f" {listing(others, _NAMED)}; restore the nodes by hand, then approve them"
        )
    found = find_intent(result, subject).snapshot.content.digest
    if found != digest:
        raise RefusedError(
            f"the content of {name} cannot be restored from its files: expected {digest}, found {found};"
            " restore it by hand, then approve it"
        )
    return files


def _nodes(content: IntentContent) -> set[str]:
    """Return the nodes of a content, and those elsewhere that its property links lead to."""
    return {*content.nodes, *(path for path, _ in content.sources)}


def _restored_files(present: Review, past: Review, owned: Collection[str]) -> dict[str, bytes | None]:
    """Return the past content of the tree files that define these nodes, then or now."""
    old, new = _contents(past), _contents(present)
    names = {
        file.name
        for reviewed in (present, past)
        for file, parsed in reviewed.linted.parsed.items()
        if any(path in owned for path in parsed.tree)
    }
    return {name: old.get(name) for name in sorted(names) if old.get(name) != new.get(name)}


def _contents(reviewed: Review) -> Mapping[str, bytes]:
    return {file.name: file.content for file in reviewed.linted.parsed}
