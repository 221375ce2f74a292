"""Files with verified properties of services, which scripts read instead of ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import HostFilesError
from zkdeployment.base.machine import files
from zkdeployment.base.machine.files import converting_errors
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.json_values import Properties, Value


#: ZooKeeper's nodes are not larger than 1 MiB; values of links are repeated.
_LARGEST = 64 << 20


@dataclass(frozen=True)
class VerifiedPropertiesFiles:
    """One file for each service in ``directory``: its properties as a JSON object. Only root may read it."""

    directory: Path

    def replace(self, properties: Mapping[str, Properties]) -> None:
        """Write the properties of these services, by path, and remove the files of other services.

        Raises ``HostFilesError``.
        """
        with converting_errors("write", self.directory):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
            for path in sorted(properties):
                self._write(path, properties[path])
            kept = {_name(path) for path in properties}
            for file in self.directory.iterdir():
                if file.name not in kept:  # also temporary files that a crash left
                    files.remove(file)

    def file(self, path: str) -> str:
        """Return the file for the properties of a service; it exists only if they were written."""
        return str(self.directory / _name(path))

    def _write(self, path: str, properties: Properties) -> None:
        file = self.directory / _name(path)
        content = json.dumps(properties).encode("ascii")
        if files.read(file, _LARGEST) != content:
            # A crash of the machine may lose the content: the next deployment writes the file again.
            files.replace(file, content, mode=0o600, sync=False)


def read_verified_properties(file: Path, path: str) -> dict[str, Value] | None:
    """Return the verified properties of the service at ``path``; ``None`` if the file belongs to another service.

    Raises ``HostFilesError`` if the file does not exist, cannot be read or holds something else.
    """
    if file.name != _name(path):
        return None
    try:
        content = files.read(file, _LARGEST)
    except OSError as error:
        reason = f"cannot read the verified properties of {path} in {file}: {error.strerror}"
        if isinstance(error, PermissionError):
            reason += "; only root may read them: run 'zkdeployment tree get' before the script changes its user"
        raise HostFilesError(reason) from error
    if content is None:
        raise HostFilesError(
            f"the properties of {path} are not verified: expected a signed publication in which this host runs the"
            " service, found none; a script that undeploys a service must not read its properties"
        )
    try:
        properties = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HostFilesError(f"{file} does not hold verified properties: {error}") from error
    if not isinstance(properties, dict):
        raise HostFilesError(f"{file} does not hold verified properties: expected a JSON object")
    return properties


def _name(path: str) -> str:
    """Return the name of a service's file; only names of roles contain colons."""
    return f"{path[1:].replace(':', '%3A').replace('/', ':')}.json"


def verified_properties(file: str, path: str) -> dict[str, Value] | None:
    """Return the verified properties of a service from a script's file; ``None`` if it is another service's.

    Raises ``HostFilesError`` if the file does not exist.
    """
    return read_verified_properties(Path(file), path)
