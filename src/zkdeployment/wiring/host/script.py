"""Values for the scripts of a host with publishers, which do not read ZooKeeper. Loads nothing of the agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.adapters.host_files.verified_properties import read_verified_properties

if TYPE_CHECKING:
    from zkdeployment.model.tree import Value


def verified_properties(file: str, path: str) -> dict[str, Value] | None:
    """Return the verified properties of a service from a script's file; ``None`` if it is that of another service.

    Raises ``HostFilesError`` if the file does not exist.
    """
    return read_verified_properties(Path(file), path)
