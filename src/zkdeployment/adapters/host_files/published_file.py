"""The file that records the last known publication (implements ``ports.PublicationMemory``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.cluster import is_revision
from zkdeployment.model.publication import Published, is_sequence

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 4096


class PublishedFile:
    """A file with one JSON object, ``{"revision", "sequence"}``, replaced atomically.

    An existing file that cannot be read is an error if it is ``required``; else it counts as missing.
    """

    def __init__(self, file: Path, *, required: bool = False) -> None:
        self._file = file
        self._required = required

    def read_published(self) -> Published:
        try:
            content = durable.read(self._file, _LARGEST)
            value = {} if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            return self._unknown(error.strerror if isinstance(error, OSError) else "not JSON")
        if content is None:
            return Published()  # a new host has no file
        if not isinstance(value, dict) or not is_sequence(value.get("sequence")):
            return self._unknown("not a publication")
        revision = value.get("revision")
        return Published(revision=revision if is_revision(revision) else None, sequence=value["sequence"])

    def write_published(self, published: Published) -> None:
        content = json.dumps({"revision": published.revision, "sequence": published.sequence}).encode()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> Published:
        if self._required:
            raise HostFilesError(
                f"cannot read the last verified publication {self._file}: expected JSON with a sequence, found:"
                f" {reason}; check the publication in ZooKeeper with 'zkdeployment verify', then remove the file"
            )
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return Published()
