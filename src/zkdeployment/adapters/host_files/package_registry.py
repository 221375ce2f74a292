"""A registry of packages in ``/var/lib/zkdeployment``: a JSON object with one entry for each package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.host_files.paths import checked_name, converting_errors
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.names import NameKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_LARGEST = 16 * 1024 * 1024


class PackageRegistry:
    """The registry in ``file``, whose values are names of ``kind``. Raises ``HostFilesError``."""

    def __init__(self, file: Path, kind: NameKind) -> None:
        self._file = file
        self._kind = kind

    def read(self) -> dict[str, str]:
        """Return the entries by package name; none for a missing or damaged file."""
        with converting_errors("read", self._file):
            content = durable.read(self._file, _LARGEST)
        if content is None:
            return {}
        try:
            return {
                checked_name(NameKind.PACKAGE, name): checked_name(self._kind, value)
                for name, value in json.loads(content).items()
            }
        except (ValueError, RecursionError, AttributeError, TypeError, HostFilesError):
            # An empty registry is safe: only software with an entry, a marker or a deploy script is ever removed.
            get_logger().warning("host-file-unreadable", file=str(self._file), reason="damaged")
            return {}

    def add(self, entries: Mapping[str, str]) -> None:
        """Add or replace entries."""
        self._write(self.read() | dict(entries))

    def remove(self, packages: Collection[str]) -> None:
        """Remove the entries of these packages, as far as they exist."""
        self._write({name: value for name, value in self.read().items() if name not in packages})

    def _write(self, entries: Mapping[str, str]) -> None:
        with converting_errors("write", self._file):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, (json.dumps(entries, indent=2, sort_keys=True) + "\n").encode("ascii"))
