"""The validated, frozen settings of a configuration file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.errors import ConfigurationError
from zkdeployment.model.servers import Access, Servers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.config.external_logins import OpenIdSettings
    from zkdeployment.config.nagios import NagiosSettings
    from zkdeployment.config.webhooks import WebhookSettings
    from zkdeployment.model.host import Identity
    from zkdeployment.model.logins.trusted_proxy import TrustedProxies
    from zkdeployment.model.servers import AclEntry


@dataclass(frozen=True, kw_only=True)
class SyncSettings:
    """The settings of the syncer; ``branch`` ``None`` is the remote's default branch, ``interval`` is in seconds.

    ``history`` is the number of publications that the history keeps, ``metrics`` the file for the syncer's
    metrics. Acts that are commits are pushed to ``push_url`` (``None``: ``url``) with the SSH key ``push_key``,
    and signed with ``signing_key``. Publications are signed with the SSH key ``publish_key``. ``approvers`` are
    the keys that may approve intents; without them, approvals need no signature. ``repositories`` are those that
    hosts install packages from; without any, the packages of a publication are not checked.
    """

    url: str
    tree_directory: Path
    branch: str | None = None
    interval: float | None = None
    allowed_signers: Path | None = None
    approvers: Path | None = None
    push_url: str | None = None
    push_key: Path | None = None
    signing_key: Path | None = None
    publish_key: Path | None = None
    repositories: tuple[str, ...] = ()
    history: int = 500
    metrics: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinateSettings:
    """The settings of the coordinator; ``metrics`` is the file for its metrics."""

    metrics: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """The settings of the checks; ``interval`` is the number of seconds between two turns of their life cycle."""

    interval: float = 20.0


@dataclass(frozen=True, kw_only=True)
class PoolsSettings:
    """The settings of the worker of host pools.

    It looks at the pools every ``interval`` seconds. ``ssh_key`` is the private key that nodes admit,
    ``ssh_config`` a configuration of ssh, and ``authorized_keys`` the file on nodes that gets the keys of tenants.
    Leases are signed with the SSH key ``lease_key``.
    """

    interval: float = 300.0
    ssh_key: Path | None = None
    ssh_config: Path | None = None
    authorized_keys: str = "/root/.ssh/authorized_keys"
    lease_key: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of the service: the address ``host`` and ``port`` that it listens on, and its encryption.

    ``plain_text`` permits connections from other machines without encryption. ``base_url`` is the address that
    people use if it differs, for example that of a proxy. ``users_acl`` is the access list of the nodes that hold
    users and logins. ``openid`` and ``proxies`` are where people may log in instead, if there are any.
    ``webhooks`` are the receivers of events.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    certificate: Path | None = None
    key: Path | None = None
    plain_text: bool = False
    base_url: str | None = None
    users_acl: tuple[AclEntry, ...] = ()
    openid: OpenIdSettings | None = None
    proxies: TrustedProxies | None = None
    webhooks: WebhookSettings | None = None

    @property
    def listen(self) -> str:
        """The address with its port, as the configuration contains it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address of the service for browsers on this machine, or the address that people use."""
        return self.base_url or f"{'http' if self.certificate is None else 'https'}://{self.listen}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a configuration file; the ``require`` methods check values that only some verbs need.

    ``script_timeout``, ``lock_delay`` and ``stop_timeout`` are in seconds; 0 means none. ``root`` is the directory
    that stands for ``/``. ``address`` is the address that the host publishes; ``None`` means the local one of its
    connection to ZooKeeper. ``checkout_sources`` are the prefixes of repositories that may be checked out; with
    ``None`` any may. ``publishers`` are the keys whose publications the host deploys; with ``None`` publications
    need no signature. ``metrics`` is the file for the agent's metrics. ``named`` means that the host's name is
    from the file and not the machine's own. ``leasable`` means that leases decide the role of the host; the role
    in its identity is then the one that it has while it is not leased.
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
    metrics: Path | None = None
    sync: SyncSettings | None = None
    coordinate: CoordinateSettings = field(default_factory=CoordinateSettings)
    checks: CheckSettings = field(default_factory=CheckSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    nagios: NagiosSettings | None = None
    pools: PoolsSettings = field(default_factory=PoolsSettings)

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

    def require_nagios(self) -> NagiosSettings:
        """Return the settings of the Nagios bridge; raises ``ConfigurationError`` without the section."""
        if self.nagios is None:
            raise ConfigurationError(f"{self.source}: the section [nagios] not specified")
        return self.nagios
