"""The branches of fleets at the git server: a mirror with their tips, and pushes that move them.

One push moves the branches of a whole group. Each branch has its own lease, the commit at which it was last seen,
and its own result, so a race for one branch does not block the others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from zkdeployment.base.act import sanitize
from zkdeployment.base.cluster import is_commit, short
from zkdeployment.base.errors import SourceError, without_passwords
from zkdeployment.promotion.records import (
    PROMOTION_ROLLBACK_TRAILER,
    BranchMove,
    BranchTip,
    MainCommit,
    MainCommits,
    MoveOutcome,
    MoveResult,
)
from zkdeployment.publishing.acts.commits import ROLLBACK_TRAILER, BranchSnapshot
from zkdeployment.publishing.acts.rollback import is_rollback
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.publishing.sources.git.command import (
    DENIED,
    GitOutput,
    GitTimeoutError,
    failure_cause,
    ssh_variables,
)
from zkdeployment.publishing.sources.git.objects import (
    GitObjects,
    ask,
    read,
    read_document_files,
    read_range,
    read_usable_files,
)
from zkdeployment.publishing.sources.git.source import GitSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.base.source_files import SourceFile

V = TypeVar("V")

_HEADS = "refs/heads/"

#: Seconds for one run of git, and between two attempts to reach the server.
_TIMEOUT = 60.0
_GAP = 1.0

#: The most facts about the ancestry of commits that are kept; such a fact never changes.
_MOST_FACTS = 10_000

#: The most commits that are searched for rollbacks.
_MOST_COMMITS = 1000

_PUSH = ("--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no")

#: The line of a branch in the output of a push: a flag, the two names, and what happened.
_LINE = re.compile(r"(?P<flag>[ +\-*!=])\t[^\t]*:refs/heads/(?P<branch>[^\t]+)\t(?P<summary>.*)")

#: What git prints if another push changed a branch first, or if the server cannot accept any push at present.
_RACED = re.compile(
    r"\[rejected\]|stale info|fetch first|non-fast-forward|cannot lock|failed to update ref|incorrect old value"
    r"|unable to (create temporary object directory|migrate objects)|Internal Server Error|failed to report status"
)

#: The words of a server that cannot write to its disk; the result of the branch is only an unpacker error.
_FULL = re.compile("No space left|quota exceeded|Read-only file system|Input/output error", re.IGNORECASE)
_REMOTE = "remote:"


class FleetBranches:
    """The repository of the tree with the main branch and the branches of fleets; used by one thread at a time.

    Methods raise ``SourceError`` if the repository cannot be read or the result of a push is unknown; the mirror
    then still has the commits of the last fetch.
    """

    def __init__(self, source: GitSource) -> None:
        self._source = source
        self._main = ""
        self._ancestry: dict[tuple[str, str], bool] = {}
        self._behind: dict[tuple[str, str], int] = {}

    @classmethod
    def opened(cls, url: str, directory: Path, *, main: str, identity: Path | None = None) -> FleetBranches:
        """Return the branches of a repository, with a mirror in a directory; the network is not used yet.

        ``identity`` is the SSH key of the promoter, by default those of the user.
        """
        return cls(
            GitSource(
                url,
                directory,
                branch=main,
                timeout=_TIMEOUT,
                gap=_GAP,
                variables=ssh_variables(identity),
                every_branch=True,
            )
        )

    def fetch(self) -> str:
        """Update the mirror and return the tip of the main branch.

        Raises ``UnknownRevisionError`` if the repository has no main branch.
        """
        self._main = str(self._source.fetch())
        return self._main

    def tips(self, branches: Collection[str]) -> Mapping[str, BranchTip]:
        """Return the tips of branches as the last fetch found them."""
        found, merged = dict(self._listed()), dict(self._listed(f"--merged={self._main}"))
        return {
            branch: BranchTip(found.get(branch), branch in merged, self._commits_behind(found.get(branch)))
            for branch in branches
        }

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether ``commit`` is ``ancestor`` or descends from it; false if the mirror lacks one of them."""
        if commit == ancestor:
            return True
        known = self._ancestry.get((commit, ancestor))
        if known is not None:
            return known
        if not is_commit(commit) or not is_commit(ancestor):
            return False
        answer = self._source.mirror.run("merge-base", "--is-ancestor", ancestor, commit)
        if answer.status not in {0, 1}:
            if self._has(commit) and self._has(ancestor):
                answer.check()
            return False
        _remember(self._ancestry, (commit, ancestor), value=not answer.status)
        return not answer.status

    def summary(self, commit: str) -> CommitSummary:
        """Return the author, the subject and the time of a commit in the mirror."""
        found = read(ask(self._source.mirror, commit))
        return CommitSummary(found.id, found.author, found.subject, found.time)

    def recent(self, most: int) -> MainCommits:
        """Return the last commits of the main branch, at ``most`` this many."""
        found = read_range(self._source.mirror, self._main, most=most)
        return MainCommits(
            tuple(
                MainCommit(CommitSummary(each.id, each.author, each.subject, each.time), each.parents)
                for each in found
            )
        )

    def documents(self, commit: str) -> Sequence[SourceFile]:
        """Return the files with documents at the top of a commit in the mirror, sorted by name."""
        return read_document_files(GitObjects(self._source.mirror), f"{commit}^{{tree}}")

    def trailer(self, commit: str, key: str) -> str | None:
        """Return a trailer of the message of a commit in the mirror; ``None`` without such a trailer."""
        form = f"--format=%(trailers:key={key},valueonly,only,unfold)"
        log = ("log", "-1", "--no-show-signature", form, "--end-of-options", commit, "--")
        return self._source.mirror.run(*log).check().text or None

    def undone(self, commit: str) -> str:
        """Return the revision that a commit in the mirror rolls back; empty if it rolls back none.

        Anybody can write trailers, and merges copy them. The commit must have the tree files that a rollback to
        the earlier revision that it names makes, and that one must not contain the revision that is rolled back.
        """
        bad, past = (self.trailer(commit, key) or "" for key in (PROMOTION_ROLLBACK_TRAILER, ROLLBACK_TRAILER))
        if not (is_commit(bad) and self.contains(commit, past)) or self.contains(past, bad):
            return ""
        return bad if self._restores(commit, past) else ""

    def _restores(self, commit: str, past: str) -> bool:
        """Whether a commit has the tree files of a rollback of its parent to ``past``."""
        objects = GitObjects(self._source.mirror)
        (present, unusable), (past_files, _), (found, _) = (
            read_usable_files(objects, f"{each}^{{tree}}") for each in (f"{commit}^", past, commit)
        )
        return is_rollback(BranchSnapshot(commit, present, unusable, past=past, past_files=past_files), found)

    def rollbacks(self, since: str | None) -> Sequence[tuple[str, str]]:
        """Return the commits of the main branch after ``since`` that roll back a promotion, the newest first.

        Each is a commit and the revision that it rolls back. Without ``since``, or if the main branch lacks it,
        the last 1,000 commits count.
        """
        span = f"{since}..{self._main}" if since is not None and self.contains(self._main, since) else self._main
        key = f"%(trailers:key={PROMOTION_ROLLBACK_TRAILER},valueonly,only,unfold,separator=%x20)"
        options = ("-z", f"--max-count={_MOST_COMMITS}", "--no-show-signature", f"--format=%H%n{key}")
        log = self._source.mirror.run("log", *options, "--end-of-options", span, "--").check()
        commits = (text.partition("\n") for text in log.output.decode("utf-8", "replace").split("\0"))
        return [(commit, bad.strip()) for commit, _, bad in commits if bad.strip()]

    def move(
        self, moves: Sequence[BranchMove], before_push: Callable[[], None] = lambda: None
    ) -> Mapping[str, MoveResult]:
        """Move branches forward to commits of the main branch, in one push; return the results by branch.

        A move that would not lead forward, or not to the main branch, is refused without a push. ``before_push``
        is called immediately before the push begins; if it raises an error, nothing is pushed.
        """
        refused = {move.branch: refusal for move in moves if (refusal := self._objection(move)) is not None}
        return refused | self._push([move for move in moves if move.branch not in refused], before_push)

    def reset(self, move: BranchMove) -> MoveResult:
        """Set a branch to another commit, also if that is not forward; it must not have changed since ``old``."""
        return self._push([move])[move.branch]

    def own_commits(self, tip: str) -> Sequence[str]:
        """Return the commits of a tip that the main branch lacks, newest first, each with subject and author."""
        log = ("log", f"--max-count={_MOST_COMMITS}", "--no-show-signature", "--format=%h %s (%an)")
        span = ("--end-of-options", f"{self._main}..{tip}", "--")
        text = self._source.mirror.run(*log, *span).check().text
        return [sanitize(line) for line in text.splitlines()]

    def _objection(self, move: BranchMove) -> MoveResult | None:
        """Return why a promoter must not make a move, else ``None``."""
        words = ""
        if move.branch == self._source.branch:
            words = f"{move.branch} is the main branch, which only people move"
        elif not self.contains(self._main, move.new):
            words = f"{short(move.new)} is not in {self._source.branch}: only its commits are promoted"
        elif move.old is not None and not self.contains(move.new, move.old):
            words = f"{short(move.new)} does not descend from {short(move.old)}: branches only move forward"
        return MoveResult(MoveOutcome.REFUSED, words) if words else None

    def _push(
        self, moves: Sequence[BranchMove], before_push: Callable[[], None] = lambda: None
    ) -> dict[str, MoveResult]:
        if not moves:
            return {}
        leases = (f"--force-with-lease={_HEADS}{move.branch}:{move.old or ''}" for move in moves)
        refs = (f"{move.new}:{_HEADS}{move.branch}" for move in moves)
        before_push()
        try:
            answer = self._source.remote.run("push", *_PUSH, *leases, "--end-of-options", "origin", *refs)
        except GitTimeoutError as error:
            return self._found(moves, str(error))
        results = dict(_results(answer))
        if missing := [move for move in moves if move.branch not in results]:
            if any(sign in answer.messages for sign in DENIED):
                raise SourceError(
                    f"cannot push to {self._shown}: {failure_cause(answer.messages)}; set identity in [promote] to"
                    " a key that may push to the branches of fleets"
                )
            results |= self._found(missing, failure_cause(answer.messages))
        return results

    def _found(self, moves: Sequence[BranchMove], reason: str) -> dict[str, MoveResult]:
        """Return the results of a push without an answer, from the branches themselves."""
        try:
            self.fetch()
        except SourceError as error:
            raise SourceError(f"it is not known whether the push to {self._shown} arrived: {reason}") from error
        tips = self.tips([move.branch for move in moves])
        if any(tips[move.branch].commit == move.old != move.new for move in moves):
            failure = SourceError(f"the push to {self._shown} did not arrive: {reason}")
            failure.retry_helps = True
            raise failure
        return {
            move.branch: MoveResult(
                MoveOutcome.MOVED if tips[move.branch].commit == move.new else MoveOutcome.RACED
            )
            for move in moves
        }

    def _listed(self, *options: str) -> Iterator[tuple[str, str]]:
        """Yield the branches of the mirror with their tips."""
        listing = ("for-each-ref", *options, "--format=%(objectname) %(refname)", _HEADS)
        for line in self._source.mirror.run(*listing).check().text.splitlines():
            tip, _, name = line.partition(" ")
            yield name.removeprefix(_HEADS), tip

    def _commits_behind(self, tip: str | None) -> int:
        """Return the number of commits of the main branch that another tip lacks; all of them without a tip."""
        key = (tip or "", self._main)
        if key not in self._behind:
            lacking = self._main if tip is None else f"{tip}..{self._main}"
            count = self._source.mirror.run("rev-list", "--count", "--end-of-options", lacking)
            _remember(self._behind, key, value=int(count.check().text))
        return self._behind[key]

    def _has(self, commit: str) -> bool:
        answer = self._source.mirror.run("cat-file", "-e", commit)
        return answer.status != 1 and bool(answer.check())

    @property
    def _shown(self) -> str:
        return without_passwords(self._source.url)


def _remember(facts: dict[tuple[str, str], V], key: tuple[str, str], *, value: V) -> None:
    while len(facts) >= _MOST_FACTS:
        del facts[next(iter(facts))]
    facts[key] = value


def _results(answer: GitOutput) -> Iterable[tuple[str, MoveResult]]:
    """Yield the branches in the answer to a push, with their results."""
    for line in answer.output.decode("utf-8", "replace").splitlines():
        if (match := _LINE.fullmatch(line)) is None:
            continue
        branch, summary = match["branch"], match["summary"]
        words = _words(answer.messages, branch)
        if match["flag"] != "!":
            yield branch, MoveResult(MoveOutcome.MOVED)
        elif _RACED.search(summary) or _FULL.search(words):
            yield branch, MoveResult(MoveOutcome.RACED, words or sanitize(summary))
        else:
            yield branch, MoveResult(MoveOutcome.REFUSED, words or sanitize(summary.partition("] ")[2]))


def _words(messages: str, branch: str) -> str:
    """Return the server's words about a branch: its lines that name the branch, or all of them."""
    remote = (line.removeprefix(_REMOTE) for line in messages.splitlines() if line.startswith(_REMOTE))
    lines = [line for line in map(sanitize, remote) if line and not line.startswith("error: hook declined")]
    named = [line for line in lines if re.search(rf"(^|[\s/]){re.escape(branch)}([\s:,.']|$)", line)]
    return "; ".join(named or lines)
