"""The file in which a syncer records what it accepted of intents (implements ``ports.memory.ApprovalMemory``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.errors import HostFilesError
from zkdeployment.intents.approvals import NOTHING_ACCEPTED
from zkdeployment.log import get_logger

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.intents.approvals import AcceptedApprovals

_LARGEST = 64 << 20


class AcceptedFile:
    """A file with one JSON object, fingerprints by subject, replaced atomically."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read_accepted(self) -> AcceptedApprovals | None:
        try:
            content = durable.read(self._file, _LARGEST)
            value = None if content is None else json.loads(content)
        except (OSError, ValueError, RecursionError) as error:
            return self._unknown(error.strerror if isinstance(error, OSError) else "not JSON")
        if value is None and content is None:
            return None
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            return self._unknown("not a record of approvals")
        return value

    def write_accepted(self, accepted: AcceptedApprovals) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            durable.replace(self._file, json.dumps(dict(accepted), sort_keys=True).encode())
        except OSError as error:
            raise HostFilesError(f"cannot write {self._file}: {error.strerror}") from error

    def _unknown(self, reason: str | None) -> AcceptedApprovals:
        get_logger().warning("host-file-unreadable", file=str(self._file), reason=reason)
        return NOTHING_ACCEPTED
