"""The trees that are open in an editor: the files of a directory, with the texts of the editor over them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.source_files import DOCUMENT_SUFFIXES, TREE_SUFFIXES, Problem, SourceFile, is_tree_file
from zkdeployment.base.values import dataclass
from zkdeployment.cli.files import read_files, read_trees
from zkdeployment.documents.kinds import mentions_documents
from zkdeployment.publishing.rules.review import Review, lint_problems, review

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


#: The files that may belong to a tree, as a pattern of the Language Server Protocol.
SOURCE_PATTERN = f"**/*{{{','.join(TREE_SUFFIXES + DOCUMENT_SUFFIXES)}}}"


@dataclass(frozen=True, slots=True)
class LintOptions:
    """The options of ``lint`` that an editor uses, too: strict checks, and paths whose services need an intent."""

    strict: bool = False
    governed: tuple[str, ...] = ()


def is_source(path: str) -> bool:
    """Whether a file may belong to a tree: a tree file, or a file that may contain documents."""
    return path.endswith(TREE_SUFFIXES + DOCUMENT_SUFFIXES)


def tree_directory(path: Path, folders: Sequence[Path]) -> Path:
    """Return the directory of the tree that a file belongs to.

    A tree file belongs to its own directory. Documents belong to the nearest directory above that has tree files,
    within the ``folders`` that are open; without one, to the folder, or to their own directory.
    """
    if is_tree_file(path.name):
        return path.parent
    folder = next((folder for folder in folders if folder in path.parents), None)
    for above in path.parents if folder is not None else ():
        if _has_tree(above):
            return above
        if above == folder:
            break
    return folder or path.parent


def _has_tree(directory: Path) -> bool:
    try:
        return any(is_tree_file(entry.name) for entry in directory.iterdir())
    except OSError:
        return False


#: Nanoseconds by which the times of files may be coarse: a file that changed so shortly before it was read may
#: change again without another time.
_TICK = 20_000_000


class OpenTree:
    """The tree in one directory; the files on disk are read again after ``forget``.

    ``unreadable`` is the reason why the files on disk could not be read.
    """

    def __init__(self, directory: Path, options: LintOptions) -> None:
        self.directory = directory
        self._options = options
        self._on_disk: Sequence[SourceFile] | None = None
        self._stamps: Mapping[Path, tuple[int, ...]] | None = None
        self._last: Review | None = None
        self.unreadable: Problem | None = None

    def forget(self) -> None:
        """Read the files on disk again at the next review."""
        self._on_disk = None

    def refresh(self) -> bool:
        """Forget the files if one of them, or the list in one of their directories, changed; return whether."""
        if self._on_disk is None or self._stamps == self._stamped():
            return False
        self.forget()
        return True

    def review(self, texts: Mapping[str, str]) -> Review:
        """Return the review of the tree with the open ``texts``, by the path of their file."""
        if self._on_disk is None:
            self._read()
        self._last = review(self._files(texts), self._last)
        return self._last

    def problems(self, reviewed: Review) -> list[Problem]:
        """Return the problems that ``lint`` reports for this review."""
        found = lint_problems(reviewed, governed=self._options.governed)
        unreadable = [] if self.unreadable is None else [self.unreadable]
        return [*unreadable, *found, *(reviewed.documents.advice if self._options.strict else ())]

    def lines(self, file: str, texts: Mapping[str, str]) -> list[str]:
        """Return the lines of a file of the tree: of its open text, else of the file on disk."""
        text = texts.get(file)
        if text is None:
            content = next((one.content for one in self._on_disk or () if one.name == file), b"")
            text = content.decode("utf-8-sig", "replace")
        return [line.removesuffix("\r") for line in text.split("\n")]

    def _read(self) -> None:
        """Read the files on disk; those that were read before stay if one of them cannot be read."""
        # Any directory may have a YAML file of another program, and millions of files below.
        read = read_trees if _has_tree(self.directory) else read_files
        begin = time.time_ns()
        try:
            self._on_disk, self.unreadable = read([str(self.directory)]), None
        except ConfigurationError as error:
            self._on_disk, self.unreadable = self._on_disk or (), Problem(str(error))
        stamps = self._stamped()
        is_certain = all(max(times) < begin - _TICK for *times, _, _ in stamps.values())
        self._stamps = stamps if is_certain else None

    def _stamped(self) -> dict[Path, tuple[int, ...]]:
        """Return the times, the inode and the size of each file that was read, and of the directories of these."""
        files = [Path(file.name) for file in self._on_disk or ()]
        stamps: dict[Path, tuple[int, ...]] = {}
        for path in {self.directory, *files, *(file.parent for file in files)}:
            try:
                found = path.stat()
            except OSError:
                continue
            stamps[path] = found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size
        return stamps

    def _files(self, texts: Mapping[str, str]) -> list[SourceFile]:
        files = {file.name: file for file in self._on_disk or ()}
        for path, text in texts.items():
            content = text.encode("utf-8", "surrogatepass")
            if is_tree_file(path) or mentions_documents(content):
                files[path] = SourceFile(path, content, is_nested=Path(path).parent != self.directory)
            else:
                files.pop(path, None)
        return [files[name] for name in sorted(files)]
