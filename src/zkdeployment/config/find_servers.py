"""The ZooKeeper servers that commands and consumers use: from an option, the environment or a configuration."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from zkdeployment.config.connection import connection_problem
from zkdeployment.config.load import load
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.servers import Servers

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
