"""The file that keeps a host's failure until the failure is reported to ZooKeeper."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.log import get_logger
from zkdeployment.rollout.failure import Failure

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 * 1024


class FailureFile:
    """A file with one JSON object, replaced atomically and durably. Writes raise ``HostFilesError``."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Failure | None:
        """Return the unreported failure; ``None`` without one, and with a warning for a damaged file."""
        try:
            content = durable.read(self._file, _LARGEST)
            return None if content is None else Failure.from_json(json.loads(content))
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a failure"
            get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
            return None

    def write(self, failure: Failure) -> None:
        """Record a failure, so that it survives a restart."""
        try:
            durable.replace(self._file, json.dumps(failure.to_json()).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def clear(self) -> None:
        """Remove a failure that was reported."""
        try:
            durable.remove(self._file)
        except OSError as error:
            raise HostFilesError(f"cannot remove {self._file}: {error.strerror}") from error
