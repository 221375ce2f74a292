"""The options that verbs share: ``--zookeeper``, ``--config``, ``--output``, and numbers of seconds."""

from __future__ import annotations

import functools
import json
import math
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from zkdeployment.base.durations import duration_seconds
from zkdeployment.base.errors import ConfigurationError, UnreachableError
from zkdeployment.base.json_values import with_schema
from zkdeployment.base.names import check_node_path
from zkdeployment.cli.terminal import echo_lines
from zkdeployment.config.forms import LONGEST_WAIT, SectionSettings
from zkdeployment.config.settings import (
    DEFAULT_CONNECTION,
    Settings,
    chosen_settings,
    find_servers,
    fleet_settings,
)
from zkdeployment.publishing.settings import SyncSettings
from zkdeployment.zookeeper.servers import Servers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.base.cluster import Revision
    from zkdeployment.base.source_files import SourceFile


class _Seconds(click.FloatRange):
    """A number of seconds from 0 to a year; ``nan`` is refused."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST_WAIT)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or fail with the expected form."""
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"expected a number of seconds, found {value!r}", param, ctx)
        return seconds


SECONDS = _Seconds()

R = TypeVar("R")
S = TypeVar("S", bound=SectionSettings)


def _inherited(context: click.Context, parameter: click.Parameter, given: R) -> R:
    """Return an option of the verb's command line, else of its group's command line; a callback of click."""
    name, group = str(parameter.name), context.parent
    if group is None or context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        return given
    inherited: R = group.params.get(name, given)
    return inherited if group.get_parameter_source(name) is ParameterSource.COMMANDLINE else given


def zookeeper_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-z/--zookeeper`` and ``--config``; the verb receives ``connection``, the servers of ZooKeeper.

    A verb of a group inherits both from the command line of the group.
    """

    @click.option(
        "-z",
        "--zookeeper",
        metavar="CONNECTION",
        callback=_inherited,
        help="The ZooKeeper servers, as HOST:PORT[,…][/CHROOT].",
    )
    @click.option(
        "--config",
        metavar="FILE",
        callback=_inherited,
        envvar="ZKDEPLOYMENT_CONFIG",
        type=click.Path(path_type=Path),
        help="A configuration file with the ZooKeeper servers.  [env: ZKDEPLOYMENT_CONFIG]",
    )
    @functools.wraps(function)
    def wrapped(*args: object, zookeeper: str | None, config: Path | None, **options: object) -> R:
        connection = find_servers(zookeeper, config)
        try:
            return function(*args, connection=connection, **options)
        except UnreachableError as error:
            if connection != Servers(DEFAULT_CONNECTION):
                raise
            raise UnreachableError(
                f"{error}; this is the default address: give another one with -z or --config"
            ) from error

    return wrapped


def configured(table: type[S]) -> S:
    """Return the settings of a section from the file of the running verb's ``--config``, else from the system's.

    The section has defaults for all keys; they are the result if there is no file or no section.
    """
    settings = fleet_settings(click.get_current_context().params["config"])
    return table() if settings is None else settings.require(table)


def repository_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--config``; the verb receives ``config``, a file that names the tree's repository, or ``None``."""
    return click.option(
        "--config",
        metavar="FILE",
        envvar="ZKDEPLOYMENT_CONFIG",
        type=click.Path(path_type=Path),
        help="A configuration file with the tree's repository.  [env: ZKDEPLOYMENT_CONFIG]",
    )(function)


def configured_revision(
    config: Path | None, name: Revision | None = None
) -> tuple[Revision, Sequence[SourceFile]]:
    """Return a revision of the configured repository and its files.

    ``name`` is a branch or a commit, ``None`` the tip of the configured branch. ``config`` defaults to the
    system's configuration. Raises ``ConfigurationError`` and ``SourceError``.
    """
    settings = configured_repository(config)
    from zkdeployment.publishing.sources.opening import read_revision  # noqa: PLC0415  the other verbs start faster without it

    return read_revision(settings.require(SyncSettings), name)


def configured_repository(config: Path | None) -> Settings:
    """Return the settings of a configuration that names the tree's repository; raises ``ConfigurationError``."""
    settings = chosen_settings(config)
    settings.require(SyncSettings)
    return settings


def node_path(_context: click.Context, parameter: click.Parameter, given: R) -> R:
    """Return the given paths of nodes: one, a tuple, or an optional path that was not given; a callback of click.

    Raises ``BadParameter`` for a path that does not begin with a slash.
    """
    for path in given if isinstance(given, tuple) else (given,):
        if path or parameter.required:
            require_path(str(path))
    return given


def require_path(text: str) -> str:
    """Return the path of a node; raises ``BadParameter`` unless it begins with a slash."""
    try:
        check_node_path(text)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error
    return text


def past_time(_context: click.Context, _parameter: click.Parameter, given: str | None) -> float | None:
    """Return a date, or the time a duration before now, in seconds since the epoch; a callback of click."""
    if given is None:
        return None
    seconds = duration_seconds(given)
    try:
        return datetime.fromisoformat(given).timestamp() if seconds is None else time.time() - seconds
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"expected a duration such as 7d, or a date such as 2027-01-31, found {given!a}"
        ) from error


def period_options(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--since`` and ``--until``; the verb receives both in seconds since the epoch, or ``None``."""
    when = "a date (2027-01-31T18:00), or a duration before now (7d)"
    since = click.option("--since", metavar="WHEN", callback=past_time, help=f"Only from then on: {when}.")
    until = click.option("--until", metavar="WHEN", callback=past_time, help=f"Only before then: {when}.")
    return since(until(function))


def output_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``-o/--output``; the verb receives ``output``: ``table``, ``json`` or ``yaml``.

    A verb of a group inherits it from the command line of the group.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        callback=_inherited,
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
    text = yaml_text(value) if output == "yaml" else json.dumps(value, indent=2)
    echo_lines(text.rstrip("\n"))


def yaml_text(value: object) -> str:
    """Return plain data as a YAML document; the keys keep their order, and there are no anchors and aliases."""
    import yaml  # noqa: PLC0415  the other formats are faster without

    class PlainDumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  no object gets an alias
            return True

    return yaml.dump(value, Dumper=PlainDumper, sort_keys=False)
