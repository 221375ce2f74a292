"""Options that several verbs share, and output for programs."""

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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.source_files import SourceFile

R = TypeVar("R")

#: Where a host has its configuration.
SYSTEM_CONFIGURATION = Path("/etc/zkdeployment/zkdeployment.cfg")

_DEFAULT_CONNECTION = "zookeeper:2181"


def zookeeper_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-z/--zookeeper`` and ``--config``; the verb is passed ``connection``, where ZooKeeper is.

    A verb below another one takes what was given there, unless it is given its own.
    """

    @click.option("-z", "--zookeeper", metavar="CONNECTION", help="ZooKeeper, as HOST:PORT[,…][/CHROOT].")
    @click.option(
        "--config",
        metavar="FILE",
        envvar="ZKDEPLOYMENT_CONFIG",
        type=click.Path(path_type=Path),
        help="Configuration that says where ZooKeeper is.  [env: ZKDEPLOYMENT_CONFIG]",
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
            raise UnreachableError(f"{error}; nobody said where it is: see -z and --config") from error

    return wrapped


def find_connection(zookeeper: str | None, config: Path | None) -> Servers:
    """Say where ZooKeeper is, and how it lets us in.

    What was given as an option, else what the named configuration says, else ``ZC_ZK_CONNECTION_STRING``, else
    what the system's configuration says, else ``zookeeper:2181``. How it lets us in is what the configuration says
    in any case: the named one, else the system's. Raises ``ConfigurationError``.
    """
    inherited = None if config is not None else os.environ.get("ZC_ZK_CONNECTION_STRING")
    named = checked_connection(zookeeper, "--zookeeper")
    given = named or checked_connection(inherited, "ZC_ZK_CONNECTION_STRING")
    if (config is None or given) and not _is_there(config or SYSTEM_CONFIGURATION, wanted=not given):
        return Servers(given or _DEFAULT_CONNECTION)
    configured = load(config or SYSTEM_CONFIGURATION, host=False).servers
    return replace(configured, connection=given) if given else configured


def checked_connection(connection: str | None, where: str) -> str | None:
    """Return a connection string as it was given; raises ``ConfigurationError`` for what cannot be one."""
    problem = connection_problem(connection) if connection else None
    if problem is not None:
        raise ConfigurationError(f"{where}: {problem}")
    return connection


def named_configuration() -> Path | None:
    """Return the configuration that ``ZKDEPLOYMENT_CONFIG`` names, for verbs without ``--config``."""
    named = os.environ.get("ZKDEPLOYMENT_CONFIG")
    return Path(named) if named else None


def configured_revision(
    config: Path | None, name: Revision | None = None
) -> tuple[Revision, Sequence[SourceFile]]:
    """Read a revision of the configured repository (a branch or a commit; none: the branch's tip) and its files.

    The configuration is the one given, or the system's. Raises ``ConfigurationError`` and ``SourceError``.
    """
    settings = load(config or SYSTEM_CONFIGURATION, host=False)
    settings.require_sync()
    from zkdeployment.wiring.syncer import read_revision  # noqa: PLC0415  the other verbs start faster without it

    return read_revision(settings, name)


def output_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-o/--output``; the verb is passed ``output``: ``table``, ``json`` or ``yaml``."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help="For people, or for programs.",
    )(function)


def emit(value: object, output: str, *, schema: str | None = None) -> None:
    """Print plain data as ``json`` or ``yaml`` on standard output.

    ``schema`` names the shape of an object; it is printed in it as ``zkdeployment/SCHEMA/v1``.
    """
    if schema is not None and isinstance(value, dict):
        value = {"schema": f"zkdeployment/{schema}/v1", **value}
    if output == "yaml":
        import yaml  # noqa: PLC0415  the other outputs come faster without it

        text = yaml.safe_dump(value, sort_keys=False)
    else:
        text = json.dumps(value, indent=2)
    echo_lines(text.rstrip("\n"))


def _is_there(config: Path, *, wanted: bool) -> bool:
    """Whether there is a configuration; one that we may not read counts where it is ``wanted``, to be told."""
    if not wanted:
        return os.access(config, os.R_OK)
    try:
        return config.exists()
    except PermissionError:  # its directory is closed to us
        return True
