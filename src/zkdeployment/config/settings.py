"""The validated, frozen settings of a configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError
from zkdeployment.model.servers import Access, Servers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.model.host import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """Where the tree comes from; ``branch`` ``None`` is the remote's default branch, ``interval`` in seconds.

    ``history`` is how many publications are kept in the history, ``metrics`` the file for those of the syncer.
    """

    url: str
    tree_directory: Path
    branch: str | None = None
    interval: float | None = None
    allowed_signers: Path | None = None
    history: int = 500
    metrics: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    """What a coordinator alone needs: ``metrics`` is the file for its own."""

    metrics: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One file's settings; what only some verbs need may be missing until they ask for it.

    ``script_timeout``, ``lock_delay`` and ``stop_timeout`` are in seconds, 0 for none. ``root`` is the directory
    that stands for ``/``. ``checkout_sources`` are the beginnings of the repositories that may be checked out;
    ``None``: any. ``metrics`` is the file for those of the agent. ``named``: the host's name is from the file, not
    the machine's own.
    """

    source: Path
    zookeeper: str = "zookeeper:2181"
    access: Access = field(default_factory=Access)
    root: Path = Path("/")
    identity: Identity | None = None
    named: bool = False
    run_directory: Path | None = None
    after: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str | None = None
    mailto: str | None = None
    smtp: str = "localhost:25"
    script_timeout: float = 0
    lock_delay: float = 60
    stop_timeout: float = 30
    packages: str = "dnf"
    repositories: tuple[str, ...] = ()
    checkout_sources: tuple[str, ...] | None = None
    metrics: Path | None = None
    sync: SyncSettings | None = None
    coordinate: CoordinateSettings = field(default_factory=CoordinateSettings)

    @property
    def servers(self) -> Servers:
        """ZooKeeper's servers."""
        return Servers(self.zookeeper, self.access)

    def require_identity(self) -> Identity:
        """Return who this host is; raises ``ConfigurationError`` if the file does not say."""
        if self.identity is None:
            raise ConfigurationError(f"{self.source}: host-id not specified")
        return self.identity

    def require_run_directory(self) -> Path:
        """Return the run directory; raises ``ConfigurationError`` if the file does not say."""
        if self.run_directory is None:
            raise ConfigurationError(f"{self.source}: run-directory not specified")
        return self.run_directory

    def require_sync(self) -> SyncSettings:
        """Return where the tree comes from; raises ``ConfigurationError`` if the file does not say."""
        if self.sync is None:
            raise ConfigurationError(f"{self.source}: url and tree-directory not specified in [sync]")
        return self.sync
