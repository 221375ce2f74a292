"""The file that records a host's id, full name and role."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.model.host import Identity

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 * 1024


class IdentityFile:
    """A file with one JSON object, ``{"id", "name", "role"}``, replaced atomically and durably."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Identity | None:
        """Return the identity; ``None`` without one, and with a warning if the file cannot be read."""
        try:
            content = durable.read(self._file, _LARGEST)
            value = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not JSON"
            get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
            return None
        match value:
            case {"id": str(host_id), "name": str(name), "role": str() | None as role}:
                return Identity(host_id, name, role)
            case _:
                return None

    def write(self, identity: Identity) -> None:
        """Replace the file unless it already holds ``identity``; raises ``HostFilesError``."""
        if self.read() == identity:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, json.dumps(asdict(identity)).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error
