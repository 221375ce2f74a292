"""The options ``--zookeeper``, ``--config`` and ``--output``, and output as JSON or YAML."""

from __future__ import annotations

import functools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from zkdeployment.cli.shared.terminal import echo_lines
from zkdeployment.config.connection import connection_problem
from zkdeployment.config.load import load
from zkdeployment.errors import ConfigurationError, UnreachableError
from zkdeployment.model.servers import Servers
from zkdeployment.output_schema import with_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.config.settings import Settings
    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.source_files import SourceFile

R = TypeVar("R")

#: The configuration of a host.
SYSTEM_CONFIGURATION = Path("/etc/zkdeployment/zkdeployment.cfg")

_DEFAULT_CONNECTION = "zookeeper:2181"


def zookeeper_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-z/--zookeeper`` and ``--config``; the verb receives ``connection``, the servers of ZooKeeper.

    A verb of a group inherits the option ``--zookeeper`` of the group.
    """

    @click.option(
        "-z", "--zookeeper", metavar="CONNECTION", help="The ZooKeeper servers, as HOST:PORT[,…][/CHROOT]."
    )
    @click.option(
        "--config",
        metavar="FILE",
        envvar="ZKDEPLOYMENT_CONFIG",
        type=click.Path(path_type=Path),
        help="A configuration file with the ZooKeeper servers.  [env: ZKDEPLOYMENT_CONFIG]",
    )
    @functools.wraps(function)
    def wrapped(*args: object, zookeeper: str | None, config: Path | None, **options: object) -> R:
        above = click.get_current_context().parent
        if zookeeper is None and above is not None:
            zookeeper = above.params.get("zookeeper")
        connection = find_connection(zookeeper, config)
        try:
            return function(*args, connection=connection, **options)
        except UnreachableError as error:
            if connection != Servers(_DEFAULT_CONNECTION):
                raise
            raise UnreachableError(
                f"{error}; this is the default address: give another one with -z or --config"
            ) from error

    return wrapped


def find_connection(zookeeper: str | None, config: Path | None) -> Servers:
    """Return the ZooKeeper servers and the settings for access to them.

    The connection string is the first of: the option, the named configuration, ``ZC_ZK_CONNECTION_STRING``, the
    system's configuration, ``zookeeper:2181``. The settings for access are always from the configuration: the
    named one, else the system's. Raises ``ConfigurationError``.
    """
    inherited = None if config is not None else os.environ.get("ZC_ZK_CONNECTION_STRING")
    named = checked_connection(zookeeper, "--zookeeper")
    given = named or checked_connection(inherited, "ZC_ZK_CONNECTION_STRING")
    if (config is None or given) and not _exists(config or SYSTEM_CONFIGURATION, required=not given):
        return Servers(given or _DEFAULT_CONNECTION)
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
    """Return the path in ``ZKDEPLOYMENT_CONFIG``, for verbs without ``--config``."""
    named = os.environ.get("ZKDEPLOYMENT_CONFIG")
    return Path(named) if named else None


def configured_revision(
    config: Path | None, name: Revision | None = None
) -> tuple[Revision, Sequence[SourceFile]]:
    """Return a revision of the configured repository and its files.

    ``name`` is a branch or a commit, ``None`` the tip of the configured branch. ``config`` defaults to the
    system's configuration. Raises ``ConfigurationError`` and ``SourceError``.
    """
    settings = configured_repository(config)
    from zkdeployment.wiring.syncer import read_revision  # noqa: PLC0415  the other verbs start faster without it

    return read_revision(settings, name)


def configured_repository(config: Path | None) -> Settings:
    """Return the settings of a configuration that names the tree's repository; raises ``ConfigurationError``."""
    settings = load(config or SYSTEM_CONFIGURATION, host=False)
    settings.require_sync()
    return settings


def output_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-o/--output``; the verb receives ``output``: ``table``, ``json`` or ``yaml``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="The format: a table for people, JSON or YAML for programs.",
    )(function)


def emit(value: object, output: str, *, schema: str | None = None) -> None:
    """Print data as ``json`` or ``yaml`` on standard output.

    ``schema`` names the format of an object, which then has the key ``schema``: ``zkdeployment/SCHEMA/v1``.
    """
    if schema is not None and isinstance(value, dict):
        value = with_schema(schema, value)
    if output == "yaml":
        from zkdeployment.cli.shared.yaml_output import yaml_text  # noqa: PLC0415  the others are faster without

        text = yaml_text(value)
    else:
        text = json.dumps(value, indent=2)
    echo_lines(text.rstrip("\n"))


def _exists(config: Path, *, required: bool) -> bool:
    """Return whether a configuration exists; an unreadable one counts only if it is ``required``."""
    if not required:
        return os.access(config, os.R_OK)
    try:
        return config.exists()
    except PermissionError:  # the directory is not accessible: reading the file reports that
        return True
