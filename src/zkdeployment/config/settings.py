"""The validated, frozen settings of a configuration file.

The settings of a section that few programs need belong to the section's own module, which is imported only for
files with the section, and by the programs themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.zookeeper.servers import Access, Servers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.host import Identity
    from zkdeployment.config.nagios import NagiosSettings
    from zkdeployment.config.pools import PoolsSettings
    from zkdeployment.config.server import ServerSettings
    from zkdeployment.config.sync import SyncSettings


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a configuration file; the ``require`` methods check values that only some verbs need.

    ``script_timeout``, ``lock_delay`` and ``stop_timeout`` are in seconds; 0 means none. ``root`` is the directory
    that stands for ``/``. ``address`` is the address that the host publishes; ``None`` means the local one of its
    connection to ZooKeeper. ``checkout_sources`` are the prefixes of repositories that may be checked out; with
    ``None`` any may. ``publishers`` are the keys whose publications the host deploys; with ``None`` publications
    need no signature. ``minimum_sequence`` is that of the oldest of them that the host deploys; 0 means
    any. ``metrics`` is the file for the agent's metrics. ``named`` means that the host's name is
    from the file and not the machine's own. ``leasable`` means that leases decide the role of the host; the role
    in its identity is then the one that it has while it is not leased. ``coordinator_metrics`` is the file for the
    coordinator's metrics, ``checks_interval`` the seconds between two turns of the life cycle of checks.

    The other sections of the file are ``None`` if the file does not have them.
    """

    source: Path
    zookeeper: str = "zookeeper:2181"
    access: Access = field(default_factory=Access)
    root: Path = Path("/")
    identity: Identity | None = None
    named: bool = False
    leasable: bool = False
    address: str | None = None
    run_directory: Path | None = None
    after: tuple[str, ...] = ()
    after_failure: tuple[str, ...] = ()
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
    publishers: Path | None = None
    minimum_sequence: int = 0
    metrics: Path | None = None
    sync: SyncSettings | None = None
    coordinator_metrics: Path | None = None
    checks_interval: float = 20.0
    server: ServerSettings | None = None
    nagios: NagiosSettings | None = None
    pools: PoolsSettings | None = None

    @property
    def servers(self) -> Servers:
        """The ZooKeeper servers, with the access to them."""
        return Servers(self.zookeeper, self.access)

    def require_identity(self) -> Identity:
        """Return the identity of this host; raises ``ConfigurationError`` if the file does not specify it."""
        if self.identity is None:
            raise ConfigurationError(f"{self.source}: host-id not specified")
        return self.identity

    def require_run_directory(self) -> Path:
        """Return the run directory; raises ``ConfigurationError`` if the file does not specify it."""
        if self.run_directory is None:
            raise ConfigurationError(f"{self.source}: run-directory not specified")
        return self.run_directory

    def require_sync(self) -> SyncSettings:
        """Return the settings of the syncer; raises ``ConfigurationError`` if the file does not specify them."""
        if self.sync is None:
            raise ConfigurationError(f"{self.source}: url and tree-directory not specified in [sync]")
        return self.sync

    def require_server(self) -> ServerSettings:
        """Return the settings of the service; without the section, these are the defaults."""
        from zkdeployment.config.server import default_server  # noqa: PLC0415  only for the service

        return default_server(self.access) if self.server is None else self.server

    def require_pools(self) -> PoolsSettings:
        """Return the settings of the worker of host pools; without the section, these are the defaults."""
        from zkdeployment.config.pools import PoolsSettings  # noqa: PLC0415  only for the worker

        return PoolsSettings() if self.pools is None else self.pools

    def require_nagios(self) -> NagiosSettings:
        """Return the settings of the Nagios bridge; raises ``ConfigurationError`` without the section."""
        if self.nagios is None:
            raise ConfigurationError(f"{self.source}: the section [nagios] not specified")
        return self.nagios
