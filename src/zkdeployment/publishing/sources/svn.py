"""Reads the tree in a directory of a Subversion repository from the server (a ``TreeSource``), with svn."""

from __future__ import annotations

import os
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from zkdeployment.base.errors import ProgramError, SourceError, without_passwords
from zkdeployment.base.machine import process
from zkdeployment.base.machine.retrying import retry
from zkdeployment.base.publication import Origin
from zkdeployment.base.source_files import SourceFile, is_tree_file, may_hold_documents
from zkdeployment.base.values import dataclass
from zkdeployment.documents.kinds import mentions_documents
from zkdeployment.publishing.ports import ATTEMPTS, check_entry, check_limits, shorten
from zkdeployment.publishing.records import CommitSummary
from zkdeployment.publishing.sources.directory import read_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.base.cluster import Revision

    T = TypeVar("T")

#: Error codes of svn after which a retry does not help, because the repository responded.
_ANSWERED = ("E160006", "E160013", "E170000", "E170001", "E180001", "E200009", "E205000", "E215004")

_INHERITED = ("HOME", "PATH", "SSH_AUTH_SOCK")

#: ssh without prompts, with time limits for silent servers.
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15"


class SvnError(SourceError):
    """A failure of svn, with the output of svn."""


@dataclass(frozen=True)
class Svn:
    """Runs svn with a time limit in seconds."""

    timeout: float = 60

    def run(self, verb: str, *arguments: str) -> str:
        """Return the output of svn; raises ``SvnError`` if svn fails."""
        # svn needs these variables to find its programs, the user's keys and its settings.
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment = {**inherited, "LANG": "C.UTF-8", "SVN_SSH": os.environ.get("SVN_SSH", _SSH)}
        try:
            argv = ["svn", verb, "--non-interactive", *arguments]
            done = process.run(argv, env=environment, timeout=self.timeout)
        except ProgramError as error:
            raise SvnError(without_passwords(str(error))) from error
        if done.status:
            failure = SvnError(f"svn {verb} failed: {_error_messages(done.stderr)}")
            failure.retry_helps = not any(code in done.stderr for code in _ANSWERED)
            raise failure
        return done.stdout


def _error_messages(output: str) -> str:
    """Return svn's errors without prefix and number, such as those of ``svn: E170000: URL '…' doesn't exist``."""
    errors = [line.removeprefix("svn: ") for line in output.splitlines() if line.startswith("svn: ")]
    lines = [line.removeprefix("warning: ") for line in errors]
    messages = [line.partition(": ")[2] or line for line in lines if line.startswith(("E", "W"))]
    return without_passwords("; ".join(messages or lines) or "no output")


#: The most files in subdirectories that are searched for documents, which are not in force.
_MOST_NESTED = 100


@dataclass(frozen=True, slots=True)
class SvnSource:
    """The tree in the directory at ``url``; its revision is the number of the last change. No mirror is kept.

    Each run of svn is limited to ``timeout`` seconds. An unreachable server is tried four times, with ``gap``
    seconds in between.
    """

    url: str
    timeout: float = field(default=300, kw_only=True)
    gap: float = field(default=3, kw_only=True)

    def fetch(self) -> int:

        def read_revision() -> int:
            output = self._svn.run("info", "--show-item", "last-changed-revision", f"{self.url}@HEAD").strip()
            if not output.isdigit():
                raise SourceError(f"{self._shown}: expected a revision from svn info, found {output[:80]!r}")
            return int(output)

        return self._retry(read_revision)

    def files(self, revision: Revision) -> tuple[SourceFile, ...]:
        """The files are in the order in which svn lists them."""
        return self._retry(lambda: self._files(self._number(revision)))

    def origin(self, revision: Revision) -> Origin:
        commit = next(iter(self._log(revision, 1)), None)
        if commit is None:
            raise SourceError(f"{self._shown} has no revision {revision}")
        return Origin(commit.author, commit.subject, commit.time)

    def newer(self, revision: Revision, than: Revision, most: int) -> Sequence[CommitSummary]:
        if not isinstance(than, int):  # no revision of Subversion: only the tip is known to be newer
            return [*self._log(revision, 1)]
        return [commit for commit in self._log(revision, most) if int(commit.id) > than]

    def _log(self, revision: Revision, most: int) -> Iterator[CommitSummary]:
        """Yield the newest commits up to a revision, newest first."""
        place = self._place(self._number(revision))
        log = self._retry(lambda: self._svn.run("log", "--xml", "--limit", str(most), place))
        for entry in _parse(log).iter("logentry"):
            subject = (entry.findtext("msg") or "").strip().partition("\n")[0]
            author, date = entry.findtext("author") or "nobody", entry.findtext("date")
            yield CommitSummary(entry.get("revision", ""), shorten(author), shorten(subject), _seconds(date))

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        return isinstance(ancestor, int) and self._number(revision) >= ancestor

    @property
    def _shown(self) -> str:
        return without_passwords(self.url)

    @property
    def _svn(self) -> Svn:
        return Svn(self.timeout)

    def _retry(self, act: Callable[[], T]) -> T:
        def attempt() -> T:
            try:
                return act()
            except SvnError as error:
                failure = SourceError(f"cannot read {self._shown}: {error}")
                failure.retry_helps = error.retry_helps
                raise failure from error

        return retry(attempt, attempts=ATTEMPTS, gap=self.gap)

    def _number(self, revision: Revision) -> int:
        if isinstance(revision, int) or revision.isdecimal():
            return int(revision)
        raise SourceError(f"{self._shown} has no revision {revision}: expected a number")

    def _place(self, revision: int) -> str:
        return f"{self.url}@{revision}"

    def _files(self, revision: int) -> tuple[SourceFile, ...]:
        listing = _parse(self._svn.run("list", "--xml", self._place(revision)))
        sizes: dict[str, int] = {}
        has_directories = False
        for entry in listing.iter("entry"):
            name, size, is_file = entry.findtext("name") or "", entry.findtext("size"), entry.get("kind") == "file"
            if is_tree_file(name):
                check_entry(name, f"revision {revision}", "" if is_file else "a directory")
            sizes |= {name: int(size or 0)} if is_file else {}
            has_directories = has_directories or not is_file
        check_limits({name: size for name, size in sizes.items() if is_tree_file(name)}, str(revision))
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            top = Path(scratch) / "tree"
            options = (
                "--quiet",
                "--ignore-externals",
                "--ignore-keywords",
                "--native-eol",
                "LF",
                "--depth",
                "files",
            )
            self._svn.run("export", *options, self._place(revision), str(top))
            files = tuple(read_directory(top, f"revision {revision}"))
        check_limits({file.name: len(file.content) for file in files}, str(revision))
        return (*files, *self._nested_files(revision)) if has_directories else files

    def _nested_files(self, revision: int) -> Iterator[SourceFile]:
        """Yield the files with documents in subdirectories; only the first are read, with a request for each."""
        listing = _parse(self._svn.run("list", "--xml", "--depth", "infinity", self._place(revision)))
        found = (
            (entry.findtext("name") or "", int(entry.findtext("size") or 0))
            for entry in listing.iter("entry")
            if entry.get("kind") == "file"
        )
        names = [name for name, size in found if "/" in name and may_hold_documents(name, size)]
        for name in sorted(names)[:_MOST_NESTED]:
            place = f"{self.url}/{quote(name)}@{revision}"
            content = self._svn.run("cat", "--ignore-keywords", place).encode()
            if mentions_documents(content):
                yield SourceFile(name, content, is_nested=True)


def _parse(text: str) -> ET.Element:
    try:
        return ET.fromstring(text)  # noqa: S314  svn itself wrote the text
    except ET.ParseError as error:
        raise SourceError(f"cannot parse the output of svn as XML: {error}") from error


def _seconds(date: str | None) -> float:
    """Return svn's date, such as ``2026-11-21T10:35:20.207502Z``, in seconds; 0 for a removed date."""
    return datetime.fromisoformat(date).timestamp() if date else 0.0
