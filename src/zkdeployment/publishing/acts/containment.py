"""Whether a branch stays within another one: the rule of a syncer with ``contained-in``.

A fleet under promotion follows its own branch, which a promoter moves to commits of the main branch. Its syncer
publishes nothing else, so that a stolen key of the promoter can only choose among the commits of the main branch.
The fleet's own rollbacks are the exception. Each is computed again: its tree has to be exactly the one that a
rollback makes of the commit below it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import is_commit, short
from zkdeployment.base.errors import SourceError, ZkdeploymentError
from zkdeployment.base.source_files import DOCUMENT_SUFFIXES, SourceFile
from zkdeployment.documents.reading import read_documents
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER, BranchSnapshot
from zkdeployment.publishing.acts.rollback import restored_files
from zkdeployment.publishing.rules.quarantines import QUARANTINE
from zkdeployment.publishing.sources.git.act_commits import TopEntry, last_verified, top_entries, write_tree
from zkdeployment.publishing.sources.git.command import GitTimeoutError
from zkdeployment.publishing.sources.git.objects import GitObjects, read_usable_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.publishing.sources.git.source import GitSource

#: The most rollbacks on top of each other.
_MOST_ROLLBACKS = 100

_PLAIN_FILE = b"100644"
_DOCUMENTS = tuple(suffix.encode() for suffix in DOCUMENT_SUFFIXES)


class OutsideError(ZkdeploymentError):
    """A commit is neither in the branch that has to contain it, nor a rollback; the text states why."""


class Containment:
    """Judges the commits of ``source``, which mirrors every branch, by the branch with the name ``within``."""

    def __init__(self, source: GitSource, within: str) -> None:
        self._source = source
        self._within = within
        #: The commits below rollbacks that were found to be right.
        self._below: dict[str, str] = {}

    def refusal(self, tip: str) -> str | None:
        """Return why a fetched tip must not be published, else ``None``; raises ``SourceError``."""
        try:
            self._base(tip)
        except OutsideError as error:
            return (
                f"{tip} is not published: {error}; expected a commit of {self._within} (contained-in), or a"
                " rollback of this fleet; move the branch to such a commit"
            )
        return None

    def returns(self, tip: str, before: str) -> bool:
        """Whether ``tip`` leads back to the branch from the rollbacks of the fleet, the last of them ``before``.

        An operator resets the branch of a fleet that has rolled back to a later commit of the main branch. Nothing
        leads back from a commit that the mirror lacks, or whose signature does not count.
        """
        try:
            base = self._base(before)
            is_later = base not in {before, tip} and self._source.descends(tip, base)
            return is_later and self._contains(tip)
        except GitTimeoutError:
            raise
        except (OutsideError, SourceError):
            return False

    def _base(self, commit: str) -> str:
        """Return the commit of the branch below rollbacks; raises ``OutsideError`` with the reason without one."""
        for _ in range(_MOST_ROLLBACKS):
            if self._contains(commit):
                return commit
            if commit not in self._below:
                self._below[commit] = self._below_rollback(commit)
            commit = self._below[commit]
        raise OutsideError(f"there are more than {_MOST_ROLLBACKS} rollbacks on top of each other")

    def _contains(self, commit: str) -> bool:
        found = self._source.mirror.run(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{self._within}^{{commit}}"
        )
        if found.status:
            raise OutsideError(f"the repository has no branch {self._within}")
        return self._source.descends(found.text, commit)

    def _below_rollback(self, commit: str) -> str:
        """Return the commit below a rollback; raises ``OutsideError`` for any other commit."""
        form = f"--format=%P%n%(trailers:key={ROLLBACK_TRAILER},valueonly,only,unfold)"
        log = ("log", "-1", "--no-show-signature", form, "--end-of-options", commit, "--")
        answer = self._source.mirror.run(*log)
        parents, _, past = answer.check().text.partition("\n")
        past = past.strip()
        if not is_commit(past) or not is_commit(parents):
            raise OutsideError(f"{short(commit)} is not in {self._within}, and is no rollback")
        self._source.verify(commit)
        if not self._source.descends(parents, past):
            raise OutsideError(
                f"{short(commit)} rolls back to {short(past)}, which its branch did not have before"
            )
        self._base(past)
        if (difference := self._difference(commit, parents, past)) is not None:
            raise OutsideError(f"{short(commit)} is no exact rollback to {short(past)}: {difference} differs")
        return parents

    def _difference(self, commit: str, parent: str, past: str) -> str | None:
        """Return the name of a file that a rollback does not have as it should, else ``None``."""
        git = self._source.mirror
        base = last_verified(self._source, past, parent)
        files, unusable = read_usable_files(GitObjects(git), f"{base}^{{tree}}")
        past_files = [file for file in self._source.files(past) if not file.is_nested]
        branch = BranchSnapshot(parent, files, unusable, past=past, past_files=past_files)
        known = {entry.blob for tree in (base, past) for entry in top_entries(git, tree)}
        differences = []
        # An operator chooses the strategy; in each form all content is that of the branch.
        for former_strategy, keeps_nodes in product((False, True), (True, False)):
            restored = restored_files(branch, former_strategy=former_strategy, keeps_nodes=keeps_nodes)
            expected = top_entries(git, write_tree(git, base, restored, known, unusable))
            differences.append(self._first_difference(expected, commit))
        return None if None in differences else differences[0]

    def _first_difference(self, expected: Sequence[TopEntry], commit: str) -> str | None:
        """Return the name of an entry of a commit that is not as expected, quarantines apart; else ``None``."""
        found = {entry.name: entry for entry in top_entries(self._source.mirror, commit)}
        for entry in expected:
            if found.pop(entry.name, None) != entry:
                return repr(entry.name.decode("utf-8", "replace"))
        others = (entry for entry in found.values() if not self._is_quarantine(entry))
        return next((repr(entry.name.decode("utf-8", "replace")) for entry in others), None)

    def _is_quarantine(self, entry: TopEntry) -> bool:
        """Whether a file holds nothing but quarantines, which a rollback may add."""
        if entry.mode != _PLAIN_FILE or not entry.name.endswith(_DOCUMENTS):
            return False
        (content,) = GitObjects(self._source.mirror).contents([entry.blob.decode("ascii")])
        found = read_documents([SourceFile(entry.name.decode("utf-8", "replace"), content)])
        return not found.errors and {kind for kind, _ in found.entries} == {QUARANTINE.name}
