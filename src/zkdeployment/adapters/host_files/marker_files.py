"""Reads, writes and removes the files of markers in ``/etc``. Their format belongs into ``markers``."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.file_owners import foreign_part, is_ours
from zkdeployment.adapters.host_files import markers
from zkdeployment.adapters.host_files.paths import checked_name, converting_errors, package_directories
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.names import NameKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from zkdeployment.model.deployment import Deployment
    from zkdeployment.model.inventory import Marker


_FOREIGN = (
    "expected JSON written by this agent, or the .deployed file of an application whose package or script is on"
    " the host, found neither; the file belongs to another program and is not changed"
)

_UNSAFE = (
    "expected a file that only root can change, in directories that only root can change or written by this agent;"
    " other users may have made it: if the deployment is real, make root the owner of the file and its directory"
)


class MarkerFiles:
    """The markers in the directory ``etc``. Raises ``HostFilesError``.

    ``records`` has an empty file ``APPLICATION/NAME`` for each marker. In a directory that other users may change,
    only recorded markers count: their owner may have renamed others. zc.zkdeployment had no records: without the
    directory ``records``, all present markers count, and the first write records them.
    """

    def __init__(self, etc: Path, records: Path) -> None:
        self._etc = etc
        self._records = records
        self._reported: set[str] = set()

    def read(self, software: markers.Software) -> Iterator[Marker]:
        """Yield the markers of all applications; log each ignored file with a marker's name once."""
        for application in package_directories(self._etc):
            yield from self._read(application, software)

    def _read(self, application: str, software: markers.Software) -> Iterator[Marker]:
        directory = self._etc / application
        with converting_errors("read", directory):
            names, unsafe = _files(directory)
            if not names and not unsafe:
                return
            is_safe = foreign_part(directory, self._etc.parent) is None
            if not is_safe and self._records.is_dir():
                unsafe += [name for name in names if not (self._records / application / name).exists()]
                names = [name for name in names if name not in unsafe]
            ours, foreign = markers.read(directory, names, software if is_safe else None)
        self._report(directory, foreign if is_safe else (), _FOREIGN)
        self._report(directory, unsafe if is_safe else [*unsafe, *foreign], _UNSAFE)
        yield from ours

    def write(self, marker: Marker) -> None:
        """Write the ``.deployed`` file of a deployment, then remove the other ``files`` of the marker."""
        name = marker.deployment.marker_name
        file = self._file(marker.application, name)
        with converting_errors("write", file):
            self._record(marker.application, name)
            durable.replace(file, markers.encode(marker))
        self._remove_files(marker.application, [stale for stale in marker.files if stale != name])

    def _record(self, application: str, name: str) -> None:
        if not self._records.is_dir():
            self._record_present_markers()
        record = self._records / application / name
        record.parent.mkdir(parents=True, exist_ok=True)
        if not record.exists():
            durable.replace(record, b"")

    def _record_present_markers(self) -> None:
        new = self._records.with_name(f".{self._records.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for marker in self.read(markers.Software.of((), ())):
            (new / marker.application).mkdir(exist_ok=True)
            for name in marker.files:
                (new / marker.application / name).touch()
        new.rename(self._records)

    def remove(self, application: str, deployment: Deployment, files: Collection[str]) -> None:
        """Remove the ``.deployed`` file of a deployment and its ``files``, as far as the script left them."""
        if (self._etc / checked_name(NameKind.PACKAGE, application)).is_dir():
            self._remove_files(application, {deployment.marker_name, *files})

    def _remove_files(self, application: str, names: Collection[str]) -> None:
        # The .script files go first: without its .deployed file, a .script file is no marker and would stay for
        # ever.
        for name in sorted(names, key=lambda name: (not name.endswith(".script"), name)):
            file = self._file(application, name)
            with converting_errors("remove", file):
                durable.remove(file)
                (self._records / application / name).unlink(missing_ok=True)

    def _file(self, application: str, name: str) -> Path:
        if markers.deployment_of(name) is None:
            raise HostFilesError(f"{name!a} is not the name of a marker file")
        return self._etc / checked_name(NameKind.PACKAGE, application) / name

    def _report(self, directory: Path, names: Iterable[str], reason: str) -> None:
        for file in (str(directory / name) for name in names if markers.deployment_of(name) is not None):
            if file not in self._reported:
                self._reported.add(file)
                get_logger().warning("marker-ignored", file=file, reason=reason)


def _files(directory: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files in a directory, and of those that other users may change; none without it."""
    names: tuple[list[str], list[str]] = ([], [])
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                names[not is_ours(entry.stat(follow_symlinks=False))].append(entry.name)
    return names
