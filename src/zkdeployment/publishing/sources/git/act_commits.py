"""Acts as commits in a git repository: written without a work tree, signed, and pushed without force.

All programs are named, and neither the user's configuration nor the user's key ring is used. Acts change only
files at the top of the repository, so a new tree is the listing of the old one with changed lines, at a cost that
does not depend on subdirectories. An act is computed on the branch's tip in a mirror of its own, committed there
without a work tree, and pushed without force. If other users pushed first, the act is computed again on the new
tip. If the answer to a push is lost, the branch itself shows whether the push arrived.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import tempfile
import time
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.base.act import sanitize
from zkdeployment.base.cluster import Revision, is_commit
from zkdeployment.base.errors import (
    ConfigurationError,
    ConflictError,
    ProgramError,
    RefusedError,
    SourceError,
    TreeError,
    without_passwords,
)
from zkdeployment.base.machine import process
from zkdeployment.base.machine.calls import SharedCall, call_within
from zkdeployment.base.source_files import Severity, SourceFile
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.publishing.acts.commits import Author, BranchSnapshot, CommitOrder, CommitOutcome, FileChanges
from zkdeployment.publishing.records import BranchSummary, CommitSummary
from zkdeployment.publishing.section import CommitObjection
from zkdeployment.publishing.sources.git.command import DENIED, Git, GitError, GitTimeoutError, failure_cause
from zkdeployment.publishing.sources.git.objects import (
    GitObjects,
    ask,
    read,
    read_files,
    read_range,
    read_usable_files,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from zkdeployment.publishing.section import ApprovalVerifier
    from zkdeployment.publishing.sources.git.source import GitSource


def configured_author(directory: Path) -> Author | None:
    """Return ``user.name`` and ``user.email`` of git in a directory; ``None`` unless both are set."""
    git = Git(directory=directory, timeout=10)
    try:
        name, email = (git.run("config", "--get", f"user.{key}").text for key in ("name", "email"))
    except GitError:
        return None
    return Author.of(name, email) if name and email else None


@contextlib.contextmanager
def signing(git: Git, key: Path | None) -> Iterator[tuple[Git, tuple[str, ...]]]:
    """Yield a git and the options with which it signs commits; without a ``key``, commits are not signed.

    Raises ``ConfigurationError`` if the key cannot be used.
    """
    if key is None:
        yield git, ("--no-gpg-sign",)
        return
    try:
        text = key.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"signing-key: cannot read {key}: {error.strerror}") from error
    with _openpgp(git, key) if _is_openpgp(text) else _ssh(git, key) as ready:
        yield ready, ("-S",)


def _is_openpgp(key: bytes) -> bool:
    return key.lstrip().startswith(b"-----BEGIN PGP ") or bool(key[:1] and key[0] & 0x80)


@contextlib.contextmanager
def _ssh(git: Git, key: Path) -> Iterator[Git]:
    settings = {"gpg.format": "ssh", "gpg.ssh.program": "ssh-keygen", "user.signingKey": str(key)}
    yield replace(git, settings={**git.settings, **settings})


@contextlib.contextmanager
def _openpgp(git: Git, key: Path) -> Iterator[Git]:
    """Yield a git that signs with a key ring of its own, which holds this key alone."""
    with tempfile.TemporaryDirectory(prefix="zkd-") as home:
        gpg = ["gpg", "--homedir", home, "--batch", "--no-tty", "--quiet"]
        try:
            process.run([*gpg, "--import", "--", str(key)], timeout=git.timeout).check()
            listing = (
                process.run([*gpg, "--with-colons", "--list-secret-keys"], timeout=git.timeout).check().stdout
            )
            prints = [line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:")]
            if not prints:
                raise ConfigurationError(f"signing-key: {key} holds no secret OpenPGP key")
            settings = {
                "gpg.format": "openpgp",
                "gpg.program": "gpg",
                "gpg.openpgp.program": "gpg",
                "user.signingKey": prints[0],
            }
            variables = {**git.variables, "GNUPGHOME": home}
            yield replace(git, settings={**git.settings, **settings}, variables=variables)
        except ProgramError as error:
            raise ConfigurationError(f"signing-key: cannot use the OpenPGP key {key}: {error}") from error
        finally:
            with contextlib.suppress(ProgramError):  # there may be no agent to end
                process.run(["gpgconf", "--homedir", home, "--kill", "all"], timeout=10)


_FILE = b"100644"
_FILE_MODES = frozenset({b"100644", b"100755", b"100664"})
_NOT_NAMES = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class TopEntry:
    """An entry in the top directory of a commit; the name is as git stores it."""

    mode: bytes
    kind: bytes
    blob: bytes
    name: bytes


def top_entries(git: Git, tree: str) -> list[TopEntry]:
    """Return the entries in the top directory of ``tree`` (anything that names a git tree)."""
    listing = git.run("ls-tree", "-z", "--full-tree", "--end-of-options", tree).check().output
    entries = []
    for line in filter(None, listing.split(b"\0")):
        facts, _, name = line.partition(b"\t")
        mode, kind, blob = facts.split()
        entries.append(TopEntry(mode, kind, blob, name))
    return entries


def write_tree(
    git: Git, base: str, changes: Mapping[str, bytes | None], known: Collection[bytes], replaced: Collection[str]
) -> str:
    """Return a new tree: that of ``base`` with other contents of files at its top (``None`` removes a file).

    ``known`` are the ids of blobs in the repository. Entries that are not files stay, except for those in
    ``replaced``. Raises ``RefusedError`` if a name cannot be the name of a file.
    """
    entries = {}
    for entry in top_entries(git, base):
        name = shown(entry.name.decode("utf-8", "surrogateescape"))
        if name in entries and name in changes:
            raise RefusedError(f"cannot change {name!a}: the repository has two files whose names look like that")
        entries[name if name not in entries else f"{name}\0"] = entry
    for name, content in changes.items():
        old = entries.pop(name, None)
        if old is not None and old.mode not in _FILE_MODES and name not in replaced:
            raise RefusedError(
                f"cannot write {name}: expected a file at the top of the repository, found another"
                " kind of entry; remove it or rename it"
            )
        if content is not None:
            _check_name(name)
            mode = old.mode if old is not None and old.mode in _FILE_MODES else _FILE
            raw = name.encode() if old is None else old.name
            entries[name] = TopEntry(mode, b"blob", _blob(git, content, known), raw)
    lines = b"".join(b"%b %b %b\t%b\0" % (e.mode, e.kind, e.blob, e.name) for e in entries.values())
    return _with_input(git, lines, "mktree", "-z")


def write_commit(git: Git, tree: str, parent: str, message: str, *options: str) -> str:
    """Return a new commit of a tree."""
    text = message.encode("utf-8", "replace").replace(b"\0", b"")
    return _with_input(git, text, "commit-tree", *options, "-p", parent, "-F", "-", tree)


def _check_name(name: str) -> None:
    if name in _NOT_NAMES or "/" in name or not name.isprintable() or name.lower() == ".git" or len(name) > 250:
        raise RefusedError(f"cannot write {name!a}: expected the name of a file at the top of the repository")


def _blob(git: Git, content: bytes, known: Collection[bytes]) -> bytes:
    """Return the id of a blob, which is written unless it is ``known``."""
    form = "sha256" if len(next(iter(known), b"")) == 64 else "sha1"
    digest = hashlib.new(form, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest().encode()
    if digest in known:
        return digest
    return _with_input(git, content, "hash-object", "-w", "--stdin").encode()


def _with_input(git: Git, text: bytes, *arguments: str) -> str:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        return git.run(*arguments, stdin=file).check().text


#: The number of newest commits among which the last one with a valid signature is searched.
_SEARCHED = 200


def last_verified(source: GitSource, past: str, tip: str) -> str:
    """Return the last commit up to ``tip`` with a valid signature; ``past`` if all since then lack one."""
    if _is_verified(source, tip):
        return tip
    span = ("rev-list", "--first-parent", f"--max-count={_SEARCHED}", "--end-of-options", f"{past}..{tip}")
    candidates = source.mirror.run(*span).check().text.split()
    return next((commit for commit in candidates if _is_verified(source, commit)), past)


def _is_verified(source: GitSource, commit: str) -> bool:
    try:
        source.verify(commit)
    except SourceError:
        return False
    return True


class PushResult(Enum):
    """The result of a push, according to the server's answer, which may be lost."""

    ACCEPTED = "accepted"
    OVERTAKEN = "overtaken"  # another push changed the branch at the same time
    REFUSED = "refused"  # by the repository: a hook, a protected branch
    DENIED = "denied"  # no rights to push
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """The result of a push, and its reason from git and from the repository's hooks."""

    result: PushResult
    reason: str = ""


#: Parts of messages from a repository that the user may only read.
_READ_ONLY = (
    *DENIED,
    "insufficient permission",
    "unable to create temporary object directory",
    "service not enabled",
    "not allowed",
    "read-only",
    "read only",
    "Read-only",
    "does not appear to be a git repository",
    "denied to",
    "not authorized",
)
_OVERTAKEN = re.compile(
    r"\[rejected\]|fetch first|non-fast-forward|cannot lock ref|failed to update ref|incorrect old value"
)
_REMOTE = "remote:"


def push(git: Git, commit: str, branch: str) -> PushAnswer:
    """Push a commit to a branch of ``origin``, unless another push has changed the branch."""
    options = ("--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no")
    try:
        answer = git.run("push", *options, "--end-of-options", "origin", f"{commit}:refs/heads/{branch}")
    except GitTimeoutError as error:
        return PushAnswer(PushResult.UNKNOWN, str(error))
    if not answer.status:
        return PushAnswer(PushResult.ACCEPTED)
    status = next((line for line in answer.text.splitlines() if line.startswith("!")), "")
    messages = f"{status}\n{answer.messages}"
    if _OVERTAKEN.search(status):
        return PushAnswer(PushResult.OVERTAKEN)
    if any(part in messages for part in _READ_ONLY) and "hook declined" not in messages:
        return PushAnswer(PushResult.DENIED, failure_cause(answer.messages))
    if "[remote rejected]" in status:
        return PushAnswer(PushResult.REFUSED, _refusal(answer.messages) or sanitize(status.partition("] ")[2]))
    return PushAnswer(PushResult.UNKNOWN, failure_cause(answer.messages))


def _refusal(messages: str) -> str:
    """Return the messages of the repository's hooks, one printable line for each of their lines."""
    lines = (line.removeprefix(_REMOTE) for line in messages.splitlines() if line.startswith(_REMOTE))
    return "\n  ".join(filter(None, map(sanitize, lines)))


#: Attempts to commit an act while other users push to the branch.
ATTEMPTS = 5

#: Seconds for which a fetched tip is recent enough to search for a commit.
_RECENT = 5.0

#: Seconds for which a fetched tip is recent enough to contain all published revisions: a syncer needs longer to
#: publish a revision.
_JUST_NOW = 1.0

#: Seconds until a revision that the repository did not have is searched again.
_UNKNOWN_AGE = 60.0

#: The number of pairs of commits for which it is known whether one descends from the other.
_REMEMBERED = 10_000

#: Seconds that a thread waits for the tip that another thread fetches.
_PATIENCE = 5.0

#: The most branches that are listed, and the seconds for which the list is recent enough.
_MOST_BRANCHES = 10
_BRANCHES_AGE = 10.0

#: The most seconds that a caller waits for the list of branches.
_MOMENT = 1.0

_COMMIT_NAME = re.compile(r"[0-9a-f]{4,64}")


class KnownDescents:
    """Remembers which commits descend from which other commits; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[bool, float]] = {}

    def find(self, source: GitSource, revision: str, ancestor: str, fetch: Callable[[], object]) -> bool:
        """Whether ``revision`` descends from ``ancestor``; ``fetch`` renews the mirror if either is missing there.

        ``False`` if either is still missing.
        """
        pair, now = (revision, ancestor), time.monotonic()
        answer, expiry = self._known.get(pair, (False, now))
        if now < expiry:
            return answer
        if not source.has(*pair):
            fetch()
        are_known = source.has(*pair)
        answer = are_known and source.descends(*pair)
        for old in list(self._known)[: 1 - _REMEMBERED]:
            self._known.pop(old, None)
        self._known[pair] = answer, math.inf if are_known else now + _UNKNOWN_AGE
        return answer


class RecentBranches:
    """Remembers the newest branches of a repository for a short time; all methods may be called from any thread.

    ``late`` returns the error for a repository that has not answered in time.
    """

    def __init__(self, late: Callable[[float], SourceError]) -> None:
        self._late = late
        self._shared: SharedCall[Sequence[BranchSummary]] = SharedCall(patience=_MOMENT, late=late)

    def read(
        self, source: GitSource, past: Revision | None, fetch: Callable[[], object]
    ) -> Sequence[BranchSummary]:
        """Return the branches of ``source`` that are not part of ``past``, as of a few seconds ago.

        ``fetch`` makes sure that there is a mirror. Raises ``SourceError`` if the repository cannot be read, or if
        it has not answered within ``_MOMENT`` seconds: a later call then gets the answer.
        """

        def ask() -> Sequence[BranchSummary]:
            fetch()
            return source.branches(past, _MOST_BRANCHES)

        try:
            return call_within(_MOMENT, lambda: self._shared.get(ask, _BRANCHES_AGE), "branches")
        except TimeoutError:
            raise self._late(_MOMENT) from None


@dataclass(frozen=True, slots=True)
class TreeCommits:
    """Commits to the branch of ``source``, to whose repository commits are pushed; several threads may commit.

    ``SourceError``: the repository cannot be read, or the outcome of a push is not known. ``RefusedError``: the
    repository or the configuration does not allow the act; the message names the missing condition.

    ``signing_key`` is the file of the key that signs commits. ``committer`` is this program on this machine.
    ``approvals`` verifies approvals in the mirror of ``source``, if they need a signature; use it in ``compute``
    of an order, during which the tip does not change. ``within`` is the branch that has to contain all published
    commits except rollbacks. ``reach`` is called at the points at which a test may kill this process.
    """

    source: GitSource
    committer: Author
    signing_key: Path | None = None
    approvals: ApprovalVerifier | None = None
    within: str | None = None
    reach: Callable[[str], None] = field(default=lambda _: None)
    #: The tip of the branch. Threads share a fetch; apart from that, they do not wait for each other.
    _tips: SharedCall[Revision] = field(init=False, repr=False, compare=False)
    _branches: RecentBranches = field(init=False, repr=False, compare=False)
    _descents: KnownDescents = field(default_factory=KnownDescents, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Share the fetches."""
        object.__setattr__(self, "_tips", SharedCall(patience=_PATIENCE, late=self._late))
        object.__setattr__(self, "_branches", RecentBranches(self._late))

    def author(self, user: str) -> Author:
        """Return the author of the acts of a user of this machine or of this service: ``USER <USER@HOST>``."""
        return Author.of(user, f"{user}@{self.committer.email.rpartition('@')[2]}")

    def commit(self, order: CommitOrder, *, dry_run: bool = False) -> CommitOutcome:
        """Commit an act to the branch and return when the repository accepted it; ``dry_run`` pushes nothing.

        Raises ``TreeError`` with all errors if the result is not a valid tree, and ``ConflictError`` if other
        users pushed at each attempt.
        """
        order.require_publishable(self.within)
        if not dry_run:
            self._require_key()
        for _ in range(ATTEMPTS):
            outcome = self._attempt(order, dry_run=dry_run)
            if outcome is not None:
                return outcome
        raise ConflictError(
            f"the act was not committed: others pushed to {self._shown} during each of {ATTEMPTS} attempts;"
            " try again"
        )

    def at_tip(self) -> tuple[Revision, Sequence[SourceFile]]:
        """Return the tip of the branch with its tree files and documents, whose signature is not verified."""
        tip = self._tip()
        return tip, self.source.files(tip)

    def revision(self, name: str) -> str:
        """Return the whole id of a commit of the branch; ``RefusedError`` if the branch does not contain it."""
        try:
            return self._resolve(name, self._tip(_RECENT))
        except RefusedError:
            return self._resolve(name, self._tip())  # the commit may have been pushed a moment ago

    def summary(self, commit: str) -> CommitSummary | None:
        """Return the author, the subject and the time of a commit; ``None`` if the mirror does not have it."""
        try:
            found = self.source.origin(commit)
        except SourceError:
            return None
        return CommitSummary(commit, found.author, found.subject, found.time)

    def branches(self, past: Revision | None) -> Sequence[BranchSummary]:
        """Return the newest branches whose tips the revision ``past`` does not contain, the newest first."""
        return self._branches.read(self.source, past, lambda: self._tip(_BRANCHES_AGE))

    def files(self, revision: Revision) -> Sequence[SourceFile]:
        """Return the tree files and documents of a revision of the branch; raises ``SourceError``."""
        return [file for file in self.source.files(revision) if not file.is_nested]

    def contains(self, revision: Revision, commit: str) -> bool:
        """Whether ``revision`` is ``commit`` or descends from it; ``False`` if either is unknown."""
        if str(revision) == commit:
            return True
        return self._descents.find(self.source, str(revision), commit, lambda: self._tip(_JUST_NOW))

    def trailer(self, revision: Revision, key: str) -> str | None:
        """Return a trailer of a commit's message; ``None`` without such a trailer or commit."""
        if not is_commit(str(revision)):
            return None
        self._tip()
        form = f"--format=%(trailers:key={key},valueonly,only,unfold)"
        log = ("log", "-1", "--no-show-signature", form, "--end-of-options", str(revision))
        answer = self.source.mirror.run(*log, "--")
        return answer.text or None if answer.status == 0 else None

    def _attempt(self, order: CommitOrder, *, dry_run: bool) -> CommitOutcome | None:
        """Return the outcome of an act on the present tip; ``None`` if another push came first."""
        tip = self._tip()
        past = None if order.back_to is None else self._resolve(order.back_to, tip)
        made = self._made(order, past, tip)
        if made is not None:
            return CommitOutcome(made, changed=True, made=True, past=past)
        base = self._verified_base(tip, past)
        branch = self._snapshot(order, tip, base, past)
        changes = order.compute(branch)
        known = {entry.blob for tree in filter(None, (base, past)) for entry in top_entries(self._git, tree)}
        tree = write_tree(self._git, base, changes.files, known, branch.unusable)
        present = self._git.run("rev-parse", "--verify", "--end-of-options", f"{tip}^{{tree}}").check().text
        if tree == present and base == tip:
            self._check(order, branch, changes, tip)
            return CommitOutcome(tip, changed=False, past=past, files=branch.files)
        commit = self._write(order, tree, tip, changes, signs=not dry_run)
        self._check(order, branch, changes, commit)
        outcome = CommitOutcome(
            None,
            changed=True,
            diff=self._diff(tip, tree),
            past=past,
            undone=branch.newer,
            files=changes.apply(branch.files),
        )
        if dry_run:
            return outcome
        self.reach("before:push")
        if not self._push(commit, tip):
            return None
        self.reach("after:push")
        return replace(outcome, commit=commit, made=True)

    def _tip(self, max_age: float = 0.0) -> str:
        """Return the tip, fetched after this call began or at most ``max_age`` seconds ago."""
        return str(self._tips.get(self.source.fetch, max_age))

    def _late(self, seconds: float) -> SourceError:
        return SourceError(f"the repository {self._shown} has not answered for {seconds:g} s; try again")

    @property
    def _git(self) -> Git:
        return self.source.mirror

    @property
    def _shown(self) -> str:
        return without_passwords(self.source.url)

    def _require_key(self) -> None:
        if self.source.allowed_signers is not None and self.signing_key is None:
            raise RefusedError(
                "cannot commit the act: allowed-signers requires signed commits, and [sync] names no signing-key;"
                " set signing-key to the file of a key in allowed-signers"
            )

    def _resolve(self, name: str, tip: str) -> str:
        """Return the id of a commit of the branch that is given by its id, whole or shortened."""
        if not _COMMIT_NAME.fullmatch(name):
            raise RefusedError(f"expected the id of a commit, found {name!a}; 'zkdeployment history' lists them")
        found = self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if found.status or not self.source.descends(tip, found.text):
            raise RefusedError(
                f"{name} is not a revision of the branch: expected a commit that {tip} descends from;"
                " 'zkdeployment history' lists those that were published"
            )
        return found.text

    def _made(self, order: CommitOrder, past: str | None, tip: str) -> str | None:
        """Return the commit that an earlier run of this act made, if there is one."""
        if order.once is None:
            return None
        key, value = order.once
        form = f"--format=%H%x00%(trailers:key={key},valueonly,only,unfold,separator=%x00)"
        span = tip if past is None else f"{past}..{tip}"
        log = ("log", "-z", "--no-show-signature", "--reverse", form, "--end-of-options", span, "--")
        fields = self._git.run(*log).check().output.decode("utf-8", "replace").split("\0")
        commit = ""
        for text in fields:
            if is_commit(text):
                commit = text
            elif text.strip() == value and _is_verified(self.source, commit):
                return commit
        return None

    def _verified_base(self, tip: str, past: str | None) -> str:
        """Return the commit whose files an act changes: the tip, or the last verified commit under a rollback.

        The content of an unverified commit must not become part of a signed one.
        """
        try:
            self.source.verify(tip)
        except SourceError as error:
            if past is None:
                raise RefusedError(
                    f"cannot commit the act on the tip of the branch: {error}; push a signed commit, or"
                    " leave the tip with 'zkdeployment rollback'"
                ) from error
        else:
            return tip
        return last_verified(self.source, past, tip)

    def _snapshot(self, order: CommitOrder, tip: str, base: str, past: str | None) -> BranchSnapshot:
        if past is None:
            return BranchSnapshot(tip, read_files(GitObjects(self._git), f"{base}^{{tree}}", tip))
        files, unusable = read_usable_files(GitObjects(self._git), f"{base}^{{tree}}")
        newer = tuple(self._newer(past, tip))
        return BranchSnapshot(
            tip,
            files,
            unusable,
            past=past,
            past_files=self.files(past),
            newer=newer,
            newer_files=self._newer_files(newer) if order.reads_newer else (),
        )

    def _newer_files(self, newer: Sequence[CommitSummary]) -> Iterator[Sequence[SourceFile]]:
        """Yield the files of verified commits, oldest first."""
        for commit in reversed(newer):
            if _is_verified(self.source, commit.id):
                yield read_usable_files(GitObjects(self._git), f"{commit.id}^{{tree}}")[0]

    def _newer(self, past: str, tip: str) -> Iterator[CommitSummary]:
        for commit in read_range(self._git, f"{past}..{tip}", most=_SEARCHED):
            yield commit.summary

    def _check(self, order: CommitOrder, branch: BranchSnapshot, changes: FileChanges, commit: str) -> None:
        """Raise ``TreeError`` with the errors of a commit that is not pushed yet."""
        objection = None if self.approvals is None else CommitObjection(self.approvals, commit)
        problems = order.check(branch.files, changes.apply(branch.files), objection)
        errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
        if errors:
            message = f"the act was not committed, for {counted(len(errors), 'error')} in its result:"
            raise TreeError("\n  ".join([message, *errors]))

    def _diff(self, tip: str, tree: str) -> str:
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
        diff = self._git.run("diff", *options, "--end-of-options", f"{tip}^{{tree}}", tree).check()
        return diff.output.decode("utf-8", "replace")

    def _write(self, order: CommitOrder, tree: str, tip: str, changes: FileChanges, *, signs: bool) -> str:
        """Return the new commit in the mirror; ``signs`` is false for a commit that is never pushed.

        With ``signs``, the commit is signed if a key is configured. Raises ``RefusedError`` if a syncer would
        refuse it.
        """
        # A commit that is dated before its parent is refused where signatures are required.
        date = max(int(time.time()), int(read(ask(self._git, tip)).time))
        people = {
            "GIT_AUTHOR_NAME": order.author.name,
            "GIT_AUTHOR_EMAIL": order.author.email,
            "GIT_AUTHOR_DATE": f"@{date} +0000",
            "GIT_COMMITTER_NAME": self.committer.name,
            "GIT_COMMITTER_EMAIL": self.committer.email,
            "GIT_COMMITTER_DATE": f"@{date} +0000",
        }
        git = replace(self._git, variables={**self._git.variables, **people})
        if not signs:
            return write_commit(git, tree, tip, changes.message)
        with signing(git, self.signing_key) as (signer, options):
            try:
                commit = write_commit(signer, tree, tip, changes.message, *options)
            except SourceError as error:
                if self.signing_key is None:
                    raise
                raise RefusedError(
                    f"cannot sign the commit with signing-key {self.signing_key}: {error}"
                ) from error
        try:
            self.source.verify(commit)
        except SourceError as error:
            raise RefusedError(
                f"the act was not pushed, because no syncer would publish it: {error}; set signing-key to the"
                " file of a key in allowed-signers"
            ) from error
        return commit

    def _push(self, commit: str, tip: str) -> bool:
        """Push a commit; return ``False`` if another push changed the branch first.

        Raises ``RefusedError`` if the repository refuses the commit.
        """
        answer = push(self.source.remote, commit, self._branch())
        if answer.result is PushResult.ACCEPTED:
            return True
        # The branch decides, not the answer: an answer may be lost, or belong to a second delivery.
        try:
            current = self._tip()
        except SourceError as error:
            raise SourceError(
                f"it is not known whether {commit} was pushed to {self._shown}: {answer.reason or error}; see"
                " whether the branch contains it, then repeat the act"
            ) from error
        if self.source.descends(current, commit):
            return True
        if answer.result is PushResult.REFUSED:
            raise RefusedError(f"the repository {self._shown} refused the commit:\n  {answer.reason}")
        if answer.result is PushResult.DENIED:
            raise RefusedError(
                f"cannot push to {self._shown}: {answer.reason}; set push-url and push-key in [sync] to a"
                " repository and a key that may push to it"
            )
        if answer.result is PushResult.OVERTAKEN or current != tip:
            return False
        failure = SourceError(f"the act was not pushed to {self._shown}: {answer.reason}; try again")
        failure.retry_helps = True
        raise failure

    def _branch(self) -> str:
        """Return the name of the configured branch, else of the repository's default branch."""
        if self.source.branch is not None:
            return self.source.branch
        answer = self.source.remote.run("ls-remote", "--symref", "--end-of-options", "origin", "HEAD").check()
        for line in answer.text.splitlines():
            if line.startswith("ref: refs/heads/"):
                return line.split()[1].removeprefix("refs/heads/")
        raise SourceError(f"the repository {self._shown} has no default branch; set branch in [sync]")
