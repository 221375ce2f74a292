"""Reads, writes and removes the files of markers in ``/etc``. Their format belongs into ``markers``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.host_files import markers
from zkdeployment.adapters.host_files.paths import checked_name, converting_errors, package_directories
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.names import NameKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from zkdeployment.model.deployment import Deployment
    from zkdeployment.model.inventory import Marker


class MarkerFiles:
    """The markers in the directory ``etc``. Raises ``HostFilesError``."""

    def __init__(self, etc: Path) -> None:
        self._etc = etc
        self._reported: set[str] = set()

    def read(self, software: markers.Software) -> Iterator[Marker]:
        """Yield the markers of all applications; log each file of another program with a marker's name once."""
        for application in package_directories(self._etc):
            directory = self._etc / application
            with converting_errors("read", directory):
                ours, foreign = markers.read(directory, _files(directory), software)
            for name in foreign:
                self._report_foreign(str(directory / name))
            yield from ours

    def write(self, marker: Marker) -> None:
        """Write the ``.deployed`` file of a deployment, then remove the other ``files`` of the marker."""
        name = marker.deployment.marker_name
        file = self._file(marker.application, name)
        with converting_errors("write", file):
            durable.replace(file, markers.encode(marker))
        self._remove_files(marker.application, [stale for stale in marker.files if stale != name])

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

    def _file(self, application: str, name: str) -> Path:
        if markers.deployment_of(name) is None:
            raise HostFilesError(f"{name!a} is not the name of a marker file")
        return self._etc / checked_name(NameKind.PACKAGE, application) / name

    def _report_foreign(self, file: str) -> None:
        if file not in self._reported:
            self._reported.add(file)
            get_logger().warning(
                "marker-ignored",
                file=file,
                reason="expected JSON written by this agent, or the .deployed file of an application whose package"
                " or script is on the host, found neither; the file belongs to another program and is not changed",
            )


def _files(directory: Path) -> list[str]:
    """Return the names of the files in a directory; none if the directory does not exist."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
