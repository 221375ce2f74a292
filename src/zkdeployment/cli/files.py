"""Tree files named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError
from zkdeployment.model.publication import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterable

_SUFFIXES = (".zk", ".zkx")


def read_files(paths: Iterable[str]) -> list[SourceFile]:
    """Read files, and the ``*.zk`` and ``*.zkx`` files of directories; raises ``ConfigurationError``."""
    return [file for path in paths for file in _read(Path(path))]


def _read(path: Path) -> list[SourceFile]:
    try:
        if path.is_dir():
            names = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES)
        elif path.suffix in _SUFFIXES or not path.exists():
            names = [path]
        else:
            raise ConfigurationError(f"{path} is not a tree file: expected *.zk, *.zkx or a directory of these")
        return [SourceFile(str(name), name.read_bytes()) for name in names]
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename or path}: {error.strerror}") from error
