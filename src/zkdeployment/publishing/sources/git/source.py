"""The tree in a git repository: a bare mirror of one branch (a ``TreeSource``)."""

from __future__ import annotations

import difflib
import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import Revision, is_commit
from zkdeployment.base.errors import SourceError, UnknownBranchError, UnknownRevisionError, without_passwords
from zkdeployment.base.machine.retrying import retry
from zkdeployment.base.publication import Origin
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.ports import ATTEMPTS
from zkdeployment.publishing.records import BranchSummary, CommitSummary
from zkdeployment.publishing.sources.git.command import (
    DENIED,
    NOT_THERE,
    Git,
    GitError,
    GitTimeoutError,
    failure_cause,
)
from zkdeployment.publishing.sources.git.objects import (
    Commit,
    GitObjects,
    LastingReader,
    ask,
    read,
    read_files,
    read_range,
    revision_files,
)
from zkdeployment.publishing.sources.git.signatures import check_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from zkdeployment.base.source_files import SourceFile

__all__ = ["GitSource", "revision_files"]

_TIP = "refs/zkdeployment/tip"

#: The branches of the repository, in a mirror of one branch.
_BRANCHES = "refs/zkdeployment/branches/"

#: The limit of commits in memory: every cycle needs the published one and the tip, and the service all that were
#: published.
_REMEMBERED = 500

#: The file that marks a mirror as ours and names its repository.
_MARK = "zkdeployment-mirror"


@dataclass(frozen=True, slots=True)
class GitSource:
    """One branch (``None``: the remote's default branch) of the repository at ``url``, mirrored in a directory.

    ``allowed_signers`` is a file of SSH or OpenPGP keys; with it, only commits signed by one of them are read.
    ``variables`` are added to git's environment when it contacts the repository. With ``every_branch``, the mirror
    has all other branches, too, and their commits can be read.
    Each run of git is limited to ``timeout`` seconds. An unreachable remote is retried three times, every ``gap``
    seconds.
    """

    url: str
    tree_directory: Path
    branch: str | None = field(default=None, kw_only=True)
    allowed_signers: Path | None = field(default=None, kw_only=True)
    timeout: float = field(default=300, kw_only=True)
    gap: float = field(default=3, kw_only=True)
    variables: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    every_branch: bool = field(default=False, kw_only=True)
    now: Callable[[], float] = field(default=time.time, kw_only=True)
    #: Commits of the mirror by id; each is read once.
    _known: dict[str, Commit] = field(default_factory=dict, init=False, repr=False, compare=False)
    _reader_of_files: LastingReader = field(default_factory=LastingReader, init=False, repr=False, compare=False)

    def fetch(self) -> Revision:
        return retry(self._fetch, attempts=ATTEMPTS, gap=self.gap)

    def files(self, revision: Revision) -> tuple[SourceFile, ...]:
        """Read the tree files of a revision that was fetched; a broken mirror is made anew."""
        git, commit = self._find(revision)
        self._verify(git, commit.id)
        tree = f"{commit.id}^{{tree}}"
        try:
            with self._reader_of_files.opened(git, self._directory) as objects:
                return read_files(objects, tree, commit.id, nested=True)
        except GitTimeoutError:
            raise
        except GitError:
            pass  # a new run of git shows whether the running git failed, or the mirror
        try:
            return read_files(GitObjects(git), tree, commit.id, nested=True)
        except GitTimeoutError:
            raise
        except GitError:
            self._remake()
            return read_files(GitObjects(git), tree, commit.id, nested=True)

    def origin(self, revision: Revision) -> Origin:
        """Return the author, subject, time and signer of a fetched revision.

        The signer is missing if the signature is not valid, or if signatures are not required.
        """
        git, commit = self._find(revision)
        try:
            signer = self._verify(git, commit.id)
        except SourceError:
            signer = None  # the reader of the files reports the reason
        return Origin(commit.author, commit.subject, commit.time, signer)

    def newer(self, revision: Revision, than: Revision, most: int) -> Sequence[CommitSummary]:
        git, tip = self._find(revision)
        known = is_commit(str(than)) and self._read(git, str(than)) is not None
        commits = read_range(git, f"{than}..{tip.id}", most=most) if known else [tip]
        return [commit.summary for commit in commits]

    def branches(self, past: Revision | None, most: int) -> Sequence[BranchSummary]:
        """Fetch all branches, and return the newest ``most`` whose tips ``past`` neither is nor contains.

        The newest comes first. Unlike the mirror itself, these branches are not read before someone asks.
        """
        self._fetch_into(self._directory, f"+refs/heads/*:{_BRANCHES}*")
        git = self._mirror(self._directory, alone=True)
        is_known = past is not None and self.has(past)
        options = ("--sort=-committerdate", f"--count={most}", *((f"--no-merged={past}",) if is_known else ()))
        listing = git.run("for-each-ref", *options, "--format=%(objectname) %(refname)", _BRANCHES).check()
        lines = (line.split(" ", 1) for line in listing.text.splitlines())
        return [BranchSummary(name.removeprefix(_BRANCHES), self._find(tip)[1].summary) for tip, name in lines]

    def has(self, *revisions: Revision) -> bool:
        """Whether all these revisions are commits that were fetched."""
        return all(is_commit(str(each)) and self._read(self.mirror, str(each)) is not None for each in revisions)

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision``, which was fetched, is ``ancestor`` or comes after it.

        A commit that the repository does not contain is not an ancestor of any commit.
        """
        git, commit = self._find(revision)
        if ancestor in (commit.id, *commit.parents):
            return True  # the usual case
        if not self.has(ancestor):
            return False
        answer = git.run("merge-base", "--is-ancestor", str(ancestor), commit.id)
        return answer.status != 1 and bool(answer.check())

    @property
    def mirror(self) -> Git:
        """A git in the mirror that ignores the configuration of the system and the user."""
        return self._mirror(self._directory, alone=True)

    @property
    def remote(self) -> Git:
        """A git in the mirror that contacts the repository, as ``origin``."""
        return self._mirror(self._directory)

    @property
    def reader(self) -> Git:
        """A git that reads the mirror, and ignores the configuration of the system and the user."""
        return self._mirror(self._directory, alone=True)

    def verify(self, commit: str) -> None:
        """Raise ``SourceError`` if signatures are required and a fetched commit has no valid signature."""
        self._verify(self.mirror, commit)

    def _find(self, revision: Revision) -> tuple[Git, Commit]:
        """Return the mirror and a commit in it; raises ``SourceError`` if the mirror does not have it."""
        git = self._mirror(self._directory, alone=True)
        commit = self._read(git, str(revision))
        if commit is None:
            raise UnknownRevisionError(f"{self._shown} has no revision {revision}, as far as it was fetched")
        return git, commit

    def _read(self, git: Git, name: str) -> Commit | None:
        """Return the commit of this id; ``None`` if the mirror does not have it."""
        known = self._known.get(name)
        if known is None:
            answer = ask(git, name)
            if answer.status:
                return None
            known = read(answer)
            self._remember(known)
        return known if known.id == name else None

    def _remember(self, commit: Commit) -> None:
        for old in list(self._known)[: 1 - _REMEMBERED]:
            self._known.pop(old, None)  # other threads read commits, too
        self._known[commit.id] = commit

    def _verify(self, git: Git, commit: str) -> str | None:
        """Return a commit's signer if signatures are required; raises ``SourceError`` for any other signer."""
        if self.allowed_signers is None:
            return None
        return check_signature(git, commit, self.allowed_signers, now=self.now())

    @property
    def _shown(self) -> str:
        return without_passwords(self.url)

    @property
    def _directory(self) -> Path:
        return self.tree_directory.resolve()

    @property
    def _reference(self) -> str:
        return "HEAD" if self.branch is None else f"refs/heads/{self.branch}"

    def _fetch(self) -> Revision:
        if self._is_ours():
            try:
                return self._update(self._directory)
            except GitTimeoutError:
                raise
            except GitError:
                pass  # The remote's answer below shows whether the remote or the mirror failed.
        return self._remake()

    def _update(self, directory: Path) -> Revision:
        others = ("+refs/heads/*:refs/heads/*",) if self.every_branch else ()
        self._fetch_into(directory, f"+{self._reference}:{_TIP}", *others)
        tip = read(ask(self._mirror(directory, alone=True), _TIP))
        self._remember(tip)
        return tip.id

    def _fetch_into(self, directory: Path, *wanted: str) -> None:
        # Without --update-shallow git silently does not update a branch of a shallow repository.
        options = ("--force", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--update-shallow")
        fetch = ("fetch", "--quiet", "--prune", *options, "--end-of-options", "origin", *wanted)
        self._mirror(directory).run(*fetch).check()

    def _remake(self) -> Revision:
        """Create a new mirror beside the old one, then replace the old one; a failure loses nothing."""
        tip = self._remote_tip()
        self._known.clear()
        new = self._directory.with_name(f".{self._directory.name}.new")
        old = self._directory.with_name(f".{self._directory.name}.old")
        with self._writing():
            for rest in (new, old):
                if rest.exists():
                    shutil.rmtree(rest)
            new.mkdir(mode=0o700, parents=True)
            try:
                form = "sha256" if len(tip) == 64 else "sha1"
                init = ("init", "--quiet", "--bare", "--template=", f"--object-format={form}")
                Git(alone=True).run(*init, "--end-of-options", str(new)).check()
                revision = self._update(new)
                (new / _MARK).write_text(f"{self._shown}\n", encoding="utf-8")
                if self._directory.exists():
                    self._directory.rename(old)
                new.rename(self._directory)
            finally:
                shutil.rmtree(new, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
        return revision

    def _is_ours(self) -> bool:
        """Whether the directory holds a mirror of this url; raises ``SourceError`` if it holds something else."""
        with self._writing():
            if not self._directory.exists():
                return False
            mark = self._directory / _MARK
            if mark.exists():
                return mark.read_text(encoding="utf-8", errors="replace").strip() == self._shown
            if any(self._directory.iterdir()):
                raise SourceError(
                    f"{self._directory} is there, but no mirror that this program made; configure a directory that"
                    " does not exist yet"
                )
        return False

    def _remote_tip(self) -> str:
        """Return the branch's tip at the remote; raises ``SourceError`` with the reason if it does not exist."""
        git = Git(
            timeout=self.timeout,
            settings={"remote.origin.url": _absolute(self.url)},
            variables=self.variables,
        )
        answer = git.run("ls-remote", "--quiet", "--end-of-options", "origin", "HEAD", "refs/heads/*")
        if answer.status:
            raise self._refusal(answer.messages)
        lines = (line.split("\t") for line in answer.text.splitlines())
        tips = {name: tip for tip, name in lines if name == "HEAD" or name.startswith("refs/heads/")}
        if self._reference in tips:
            return tips[self._reference]
        branches = sorted(name.removeprefix("refs/heads/") for name in tips if name != "HEAD")
        if not branches:
            raise SourceError(f"the repository {self._shown} is empty; push a commit first")
        if self.branch is None:
            existing = ", ".join(branches[:5])
            raise SourceError(
                f"the repository {self._shown} has no default branch; set branch (there is {existing})"
            )
        near = difflib.get_close_matches(self.branch, branches, n=1) or branches[:1]
        raise UnknownBranchError(
            f"the repository {self._shown} has no branch {self.branch}; did you mean {near[0]}?", branches
        )

    def _refusal(self, messages: str) -> SourceError:
        reason = failure_cause(messages)
        if any(sign in messages for sign in DENIED):
            return SourceError(f"no access to the repository {self._shown}: {reason}")
        if any(sign in messages for sign in NOT_THERE):
            return SourceError(f"there is no git repository at {self._shown}: {reason}")
        error = SourceError(f"cannot reach the repository {self._shown}: {reason}")
        error.retry_helps = True
        return error

    def _mirror(self, directory: Path, *, alone: bool = False) -> Git:
        return Git(
            options=(f"--git-dir={directory}",),
            timeout=self.timeout,
            settings={"remote.origin.url": _absolute(self.url)},
            variables=self.variables,
            alone=alone,
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SourceError(
                f"cannot keep a mirror in {self._directory}: {error.strerror}: {error.filename}; the user of this"
                " program must be able to write there"
            ) from error


def _absolute(url: str) -> str:
    """Return a url with an absolute path for a local repository, as git runs in another directory."""
    if ":" in url.partition("/")[0]:
        return url
    return os.path.abspath(Path(url).expanduser())  # noqa: PTH100  a path that need not exist, links kept
