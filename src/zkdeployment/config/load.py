"""Loading a configuration file to validated settings, and finding ZooKeeper servers for commands.

The syntax and the forms of single values belong to ``section``.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Identity, idle_role
from zkdeployment.base.names import NameKind, name_problem
from zkdeployment.base.publication import is_sequence
from zkdeployment.config import section as ini
from zkdeployment.config import section as keys
from zkdeployment.config import zookeeper as access
from zkdeployment.config.section import Section
from zkdeployment.config.settings import Settings
from zkdeployment.config.zookeeper import connection_problem
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from zkdeployment.config.nagios import NagiosSettings
    from zkdeployment.config.pools import PoolsSettings
    from zkdeployment.config.server import ServerSettings
    from zkdeployment.config.sync import SyncSettings


KEYS = {
    "zkdeployment": (
        "host-id",
        "host-name",
        "role",
        "address",
        "run-directory",
        "after",
        "after-failure",
        "zookeeper",
        *access.KEYS,
        "root",
        "tags",
        "labels",
        "rack",
        "mailto",
        "smtp",
        "script-timeout",
        "stop-timeout",
        "lock-delay",
        "packages",
        "repositories",
        "checkout-sources",
        "publishers",
        "minimum-sequence",
        "metrics",
    ),
    "sync": (
        "url",
        "branch",
        "tree-directory",
        "interval",
        "allowed-signers",
        "approvers",
        "approval-rules",
        "governed-paths",
        "push-url",
        "push-key",
        "signing-key",
        "publish-key",
        "repositories",
        "history",
        "metrics",
    ),
    "coordinate": ("metrics",),
    "checks": ("interval",),
    "server": ini.SERVER,
    "nagios": ini.NAGIOS,
    "pools": ini.POOLS,
}

_PACKAGES = ("dnf", "none")
_DIGITS = re.compile(r"[0-9]{1,16}")
_MAIL_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(:[0-9]{1,5})?")
_MAIL_ADDRESS = re.compile(r"[^\s,@]+(@[^\s,@]+)?(\s*,\s*[^\s,@]+(@[^\s,@]+)?)*")


def load(path: Path, *, host: bool = True, sync: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a configuration file; raises ``ConfigurationError`` with all problems.

    ``host=False`` omits ``identity``, for commands that concern only the fleet: the files and addresses that
    contain the host's id and role are not read. ``sync`` are values of ``[sync]`` that override the file.
    """
    values, problems = keys.parse(keys.read(path), KEYS)
    main = Section("zkdeployment", values.get("zkdeployment", {}), problems)
    zookeeper_access = access.read_access(main)
    identity, leasable = _identity(main) if host else (None, False)
    settings = Settings(
        source=path,
        zookeeper=main.checked("zookeeper", connection_problem) or "zookeeper:2181",
        access=zookeeper_access,
        root=main.path("root") or Path("/"),
        identity=identity,
        leasable=leasable,
        named=main.text("host-name") is not None,
        address=main.checked("address", _address_problem),
        run_directory=main.path("run-directory"),
        after=main.command("after"),
        after_failure=main.command("after-failure"),
        tags=main.items("tags"),
        labels=main.pairs("labels"),
        rack=main.text("rack"),
        mailto=main.checked("mailto", _matching(_MAIL_ADDRESS, "a mail address")),
        smtp=main.checked("smtp", _matching(_MAIL_SERVER, "HOST:PORT")) or "localhost:25",
        script_timeout=main.seconds("script-timeout", 0),
        lock_delay=main.seconds("lock-delay", 60),
        stop_timeout=main.seconds("stop-timeout", 30),
        packages=main.checked("packages", _package_manager_problem) or "dnf",
        repositories=tuple((main.text("repositories") or "").split()),
        checkout_sources=_checkout_sources(main),
        publishers=main.path("publishers"),
        minimum_sequence=int(main.checked("minimum-sequence", _sequence_problem) or 0),
        metrics=main.metrics_file(),
        sync=_sync(Section("sync", values.get("sync", {}) | dict(sync or {}), problems)),
        coordinator_metrics=Section("coordinate", values.get("coordinate", {}), problems).metrics_file(),
        checks_interval=Section("checks", values.get("checks", {}), problems).number("interval", positive=True)
        or 20.0,
        server=_server(
            Section("server", values.get("server", {}), problems), authenticated=zookeeper_access.authenticated
        ),
        nagios=_nagios(Section("nagios", values.get("nagios", {}), problems)),
        pools=_pools(Section("pools", values.get("pools", {}), problems)),
    )
    problems += _shared_metrics(settings)
    if problems:
        raise ConfigurationError(
            "\n  ".join([f"{path}:", *problems]) if problems[1:] else f"{path}: {problems[0]}"
        )
    return settings


def machine_name() -> str:
    """Return the machine's own name, with the domain if DNS or ``/etc/hosts`` knows it."""
    return socket.getfqdn()


def _identity(section: Section) -> tuple[Identity | None, bool]:
    """Return the identity of the host, with the idle role of one that can be leased, and whether it can be."""
    host_id = section.external_name("host-id", NameKind.HOST_ID)
    role, leasable = _role(section)
    name = section.checked("host-name", lambda value: name_problem(NameKind.HOST_NAME, value))
    if host_id is None:
        return None, False
    if name is None and section.text("host-name") is None:
        name = machine_name()
        problem = name_problem(NameKind.HOST_NAME, name)
        if problem is not None:
            section.report("host-name", f"not specified, and the machine's own name is not usable: {problem}")
    return Identity(id=host_id, name=name or host_id, role=role), leasable


def _role(section: Section) -> tuple[str | None, bool]:
    """Return the role, and whether it is ``lease:ROLE``: the role of a host while it is not leased."""
    text = section.external_text("role")
    idle = None if text is None else idle_role(text)
    role = text if idle is None else idle
    problem = None if role is None else name_problem(NameKind.ROLE, role)
    if problem is None:
        return role, idle is not None
    expected = "" if idle is None else "after lease:, expected the role of the host while it is not leased: "
    section.report("role", f"{expected}{problem}")
    return None, False


def _sequence_problem(value: str) -> str | None:
    if _DIGITS.fullmatch(value) and is_sequence(int(value)):
        return None
    return f"expected the sequence of a publication, a positive number, found {value!r}"


def _address_problem(value: str) -> str | None:
    try:
        ip_address(value)
    except ValueError:
        return f"expected an IP address, found {value!r}"
    return None


def _checkout_sources(section: Section) -> tuple[str, ...] | None:
    """Return the prefixes of repositories that may be checked out; ``None`` for ``any``."""
    match (section.text("checkout-sources") or "any").split():
        case ["any"]:
            return None
        case ["none"]:
            return ()
        case prefixes:
            for prefix in prefixes:
                if "/" not in prefix and ":" not in prefix:
                    section.report(
                        "checkout-sources",
                        f"expected any, none or prefixes of URLs and paths, found {prefix!r}",
                    )
            return tuple(prefixes)


def _shared_metrics(settings: Settings) -> Iterator[str]:
    """Yield a problem for each metrics file that several daemons would write."""
    files = [settings.metrics, settings.sync and settings.sync.metrics, settings.coordinator_metrics]
    for file in {file for file in files if file is not None and files.count(file) > 1}:
        yield f"metrics: expected separate files for the agent, the syncer and the coordinator, found {file} twice"


def _sync(section: Section) -> SyncSettings | None:
    if not section.values:
        return None
    from zkdeployment.config.sync import read_sync  # noqa: PLC0415  agents and monitors start faster without it

    return read_sync(section)


def _server(section: Section, *, authenticated: bool) -> ServerSettings | None:
    if not section.values:
        return None
    from zkdeployment.config.server import read_server  # noqa: PLC0415  as for the syncer

    return read_server(section, authenticated=authenticated)


def _nagios(section: Section) -> NagiosSettings | None:
    if not section.values:
        return None
    from zkdeployment.config.nagios import read_nagios  # noqa: PLC0415  as for the syncer

    return read_nagios(section)


def _pools(section: Section) -> PoolsSettings | None:
    if not section.values:
        return None
    from zkdeployment.config.pools import read_pools  # noqa: PLC0415  as for the syncer

    return read_pools(section)


def _package_manager_problem(value: str) -> str | None:
    return None if value in _PACKAGES else f"expected {' or '.join(_PACKAGES)}, found {value!r}"


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[str], str | None]:
    return lambda value: None if pattern.fullmatch(value) else f"expected {expected}, found {value!r}"


#: The configuration of a host.
SYSTEM_CONFIGURATION = Path("/etc/zkdeployment/zkdeployment.cfg")

DEFAULT_CONNECTION = "zookeeper:2181"


def find_servers(zookeeper: str | None, config: Path | None) -> Servers:
    """Return the ZooKeeper servers and the settings for access to them.

    The connection string is the first of: the option, the named configuration, ``ZC_ZK_CONNECTION_STRING``, the
    system's configuration, ``zookeeper:2181``. The settings for access are always from the configuration: the
    named one, else the system's. Raises ``ConfigurationError``.
    """
    inherited = None if config is not None else os.environ.get("ZC_ZK_CONNECTION_STRING")
    named = checked_connection(zookeeper, "--zookeeper")
    if named == "":  # perhaps an unset variable of a script: a default could be another fleet
        raise ConfigurationError("--zookeeper: expected HOST:PORT[,HOST:PORT…][/CHROOT], found nothing")
    given = named or checked_connection(inherited, "ZC_ZK_CONNECTION_STRING")
    if (config is None or given) and not _exists(config or SYSTEM_CONFIGURATION, required=not given):
        return Servers(given or DEFAULT_CONNECTION)
    configured = load(config or SYSTEM_CONFIGURATION, host=False).servers
    return replace(configured, connection=given) if given else configured


def checked_connection(connection: str | None, where: str) -> str | None:
    """Return a connection string unchanged; raises ``ConfigurationError`` if it is malformed.

    ``where`` names the origin of the connection string in the error.
    """
    problem = connection_problem(connection) if connection else None
    if problem is not None:
        raise ConfigurationError(f"{where}: {problem}")
    return connection


def named_configuration() -> Path | None:
    """Return the path in ``ZKDEPLOYMENT_CONFIG``, ``None`` without it."""
    named = os.environ.get("ZKDEPLOYMENT_CONFIG")
    return Path(named) if named else None


def _exists(config: Path, *, required: bool) -> bool:
    """Return whether a configuration exists; an unreadable one counts only if it is ``required``."""
    if not required:
        return os.access(config, os.R_OK)
    try:
        return config.exists()
    except PermissionError:  # the directory is not accessible: reading the file reports that
        return True
