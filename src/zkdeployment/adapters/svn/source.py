"""The tree in a directory of a Subversion repository, read from the server (a ``TreeSource``)."""

from __future__ import annotations

import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.retrying import persist
from zkdeployment.adapters.svn.command import Svn, SvnError
from zkdeployment.adapters.tree_files import ATTEMPTS, check_limits, shorten
from zkdeployment.errors import SourceError, without_passwords
from zkdeployment.model.origin import Origin
from zkdeployment.model.source_files import SourceFile, is_tree_file, may_hold_documents
from zkdeployment.rollout.document_faults import mentions_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    from zkdeployment.model.cluster import Revision

    T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SvnSource:
    """The directory at ``url``; its revision is the number of its last change. Nothing is kept on disk.

    Each run of svn is limited to ``timeout`` seconds. An unreachable server is retried three times, every ``gap``
    seconds.
    """

    url: str
    timeout: float = field(default=300, kw_only=True)
    gap: float = field(default=3, kw_only=True)

    def fetch(self) -> int:

        def ask() -> int:
            found = self._svn.run("info", "--show-item", "last-changed-revision", f"{self.url}@HEAD").strip()
            if not found.isdigit():
                raise SourceError(f"{self._shown}: expected a revision of svn info, found {found[:80]!r}")
            return int(found)

        return self._persist(ask)

    def files(self, revision: Revision) -> tuple[SourceFile, ...]:
        """Read the tree files and documents of a revision in the order in which svn lists them."""
        return self._persist(lambda: self._files(self._number(revision)))

    def origin(self, revision: Revision) -> Origin:
        place = self._place(self._number(revision))
        log = self._persist(lambda: self._svn.run("log", "--xml", "--limit", "1", place))
        entry = _parse(log).find("logentry")
        if entry is None:
            raise SourceError(f"{self._shown} has no revision {revision}")
        return Origin(
            author=shorten(entry.findtext("author") or "nobody"),
            subject=shorten((entry.findtext("msg") or "").strip().partition("\n")[0]),
            time=_seconds(entry.findtext("date")),
        )

    def descends(self, revision: Revision, ancestor: Revision) -> bool:
        """Whether ``revision`` is ``ancestor`` or comes after it."""
        return isinstance(ancestor, int) and self._number(revision) >= ancestor

    @property
    def _shown(self) -> str:
        return without_passwords(self.url)

    @property
    def _svn(self) -> Svn:
        return Svn(self.timeout)

    def _persist(self, act: Callable[[], T]) -> T:
        def attempt() -> T:
            try:
                return act()
            except SvnError as error:
                failure = SourceError(f"cannot read {self._shown}: {error}")
                failure.retry_helps = error.retry_helps
                raise failure from error

        return persist(attempt, attempts=ATTEMPTS, gap=self.gap)

    def _number(self, revision: Revision) -> int:
        if isinstance(revision, int) or revision.isdecimal():
            return int(revision)
        raise SourceError(f"{self._shown} has no revision {revision}: Subversion's are numbers")

    def _place(self, revision: int) -> str:
        return f"{self.url}@{revision}"

    def _files(self, revision: int) -> tuple[SourceFile, ...]:
        listing = _parse(self._svn.run("list", "--xml", self._place(revision)))
        sizes: dict[str, int] = {}
        for entry in listing.iter("entry"):
            name, size, is_file = entry.findtext("name") or "", entry.findtext("size"), entry.get("kind") == "file"
            if is_tree_file(name) and not is_file:
                raise SourceError(
                    f"{name} of revision {revision} is a directory; a tree file has to be a plain file"
                )
            sizes |= {name: int(size or 0)} if is_file else {}
        check_limits({name: size for name, size in sizes.items() if is_tree_file(name)}, str(revision))
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            top = Path(scratch) / "tree"
            words = (
                "--quiet",
                "--ignore-externals",
                "--ignore-keywords",
                "--native-eol",
                "LF",
                "--depth",
                "files",
            )
            self._svn.run("export", *words, self._place(revision), str(top))
            files = tuple(_files(top, sizes, revision))
        check_limits({file.name: len(file.content) for file in files}, str(revision))
        return files


def _files(top: Path, sizes: Mapping[str, int], revision: int) -> Iterator[SourceFile]:
    """Read what was exported to ``top``: tree files, and the YAML files that are about rollouts."""
    for name, size in sizes.items():
        if is_tree_file(name):
            yield SourceFile(name, _content(top / name, revision))
        elif may_hold_documents(name, size) and not (top / name).is_symlink():
            content = _content(top / name, revision)
            if mentions_documents(content):
                yield SourceFile(name, content)


def _content(file: Path, revision: int) -> bytes:
    if file.is_symlink():
        raise SourceError(
            f"{file.name} of revision {revision} is a symbolic link; a tree file has to be a plain file"
        )
    try:
        return file.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read {file.name} of revision {revision}: {error.strerror}") from error


def _parse(text: str) -> ET.Element:
    try:
        return ET.fromstring(text)  # noqa: S314  see above
    except ET.ParseError as error:
        raise SourceError(f"svn wrote what cannot be read: {error}") from error


def _seconds(date: str | None) -> float:
    """Read svn's date, ``2026-11-21T10:35:20.207502Z``; whoever has taken it away committed at the epoch."""
    return datetime.fromisoformat(date).timestamp() if date else 0.0
