"""The traces that tenants leave on this host; they are recorded in files in the agent's run directory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.adapters import durable
from zkdeployment.adapters.host_files.host_facts import host_facts
from zkdeployment.adapters.host_files.ssh_directory import SshDirectory
from zkdeployment.errors import HostFilesError
from zkdeployment.pools.hosts.host_baseline import HostBaseline

if TYPE_CHECKING:
    from pathlib import Path

_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True)
class HostTraces:
    """The traces on the host with the directory ``root``, which stands for ``/``.

    ``verifies`` is whether the host has packages of rpm, whose files are compared. The methods raise
    ``HostFilesError``.
    """

    root: Path
    run_directory: Path
    verifies: bool

    @property
    def file(self) -> Path:
        """The file with the baseline."""
        return self.run_directory / "lease-baseline"

    def keep_access(self) -> None:
        """Record ``.ssh`` of root, unless it is recorded already."""
        self._ssh.keep()

    def restore_access(self) -> None:
        """Restore the recorded state of root's ``.ssh``, and forget the record; does nothing without a record."""
        self._ssh.restore()

    def facts(self) -> frozenset[str]:
        """Return accounts, changed files of packages, listeners and units, each as a line; may take minutes."""
        return host_facts(self.root, verifies=self.verifies)

    def read_baseline(self) -> HostBaseline | None:
        """Return the facts from before the present lease; ``None`` without any."""
        try:
            content = durable.read(self.file, _LARGEST)
            return None if content is None else HostBaseline.from_json(json.loads(content))
        except (OSError, ValueError) as error:
            raise HostFilesError(
                f"{self.file} is damaged: expected the state of this host before its lease; remove it to accept"
                " the present state of the host"
            ) from error

    def write_baseline(self, baseline: HostBaseline | None) -> None:
        """Record the facts from before a lease; ``None`` removes them."""
        try:
            if baseline is None:
                durable.remove(self.file)
            else:
                durable.replace(self.file, json.dumps(baseline.to_json()).encode(), mode=0o600)
        except OSError as error:
            raise HostFilesError(f"cannot write {self.file}: {error.strerror}") from error

    @property
    def _ssh(self) -> SshDirectory:
        return SshDirectory(self.root, self.run_directory / "ssh-before-lease")
