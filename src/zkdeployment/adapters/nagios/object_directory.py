"""The directory of Nagios' object definitions that belongs to the bridge."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import NagiosError
from zkdeployment.nagios.object_files import (
    NagiosObjectFile,
    instance_of_file,
    is_object_file,
    is_shared_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_LARGEST = 4 << 20

#: Arguments may be secret: only the owner and the group have access.
_PROGRAM = 0o750
_DEFINITION = 0o640

#: The temporary files of a bridge that was killed.
_LEFTOVER = re.compile(r"\.(?:check|host)-.*")


class NagiosObjectDirectory:
    """The files in ``directory`` whose names are those of the bridge; other files are left alone.

    All methods raise ``NagiosError``.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, NagiosObjectFile] = {}

    def names(self) -> frozenset[str]:
        """Return the names of the files."""
        with self._errors("read"):
            self._directory.mkdir(mode=0o750, exist_ok=True)
            return frozenset(file.name for file in self._directory.iterdir() if is_object_file(file.name))

    def read(self) -> Mapping[str, NagiosObjectFile]:
        """Return the files by name."""
        known = {}
        for name in self.names():
            with self._errors("read"):
                file = self._directory / name
                content = durable.read(file, _LARGEST)
                if content is not None:
                    executable = file.stat().st_mode & 0o777 == _PROGRAM
                    known[name] = NagiosObjectFile(content.decode("utf-8", errors="replace"), executable)
        self._known = known
        return dict(known)

    def write(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Make ``files`` the definitions in the directory, each replaced atomically.

        Scripts that are no longer used stay until ``clean``, because Nagios may still run them.
        """
        # Scripts are written before definitions, and hosts and contacts before services; all are removed in the
        # reverse order. So Nagios accepts what a bridge leaves that is killed in between.
        for name in sorted(files, key=lambda name: (not files[name].executable, not is_shared_file(name), name)):
            if self._known.get(name) != files[name]:
                self._replace(name, files[name])
        for name in sorted(self._known.keys() - files.keys(), key=lambda name: (is_shared_file(name), name)):
            if not name.endswith(".sh"):
                self._remove(name)

    def written(self) -> Mapping[str, float]:
        """Return when the definition of each check was written, by instance, in seconds since the epoch."""
        with self._errors("read"):
            times = {file.name: file.stat().st_mtime for file in self._directory.glob("check-*.cfg")}
        instances = {name: instance_of_file(name) for name in times}
        return {instance: times[name] for name, instance in instances.items() if instance is not None}

    def clean(self, files: Mapping[str, NagiosObjectFile]) -> None:
        """Remove everything of the bridge but ``files``, also what a killed bridge has left."""
        for name in sorted(self.names() - files.keys()):
            self._remove(name)
        with self._errors("read"):
            leftovers = [file.name for file in self._directory.iterdir() if _LEFTOVER.fullmatch(file.name)]
        for name in leftovers:
            self._remove(name)

    def _replace(self, name: str, file: NagiosObjectFile) -> None:
        mode = _PROGRAM if file.executable else _DEFINITION
        # A crash of the machine may lose files without harm: the bridge writes what is missing.
        with self._errors("write"):
            durable.replace(self._directory / name, file.text.encode(), mode=mode, sync=False)
            if name in self._known:
                # Nagios keeps the result of the former definition, and records only the second of a result.
                later = time.time() + 1.0
                os.utime(self._directory / name, (later, later))
        self._known[name] = file

    def _remove(self, name: str) -> None:
        with self._errors("remove files in"):
            (self._directory / name).unlink(missing_ok=True)
        self._known.pop(name, None)

    @contextlib.contextmanager
    def _errors(self, act: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self._directory
            raise NagiosError(f"cannot {act} {place}: {error.strerror}; see objects in [nagios]") from error
