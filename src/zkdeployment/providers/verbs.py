"""``zkdeployment provide`` and ``providers``: registers an instance, and lists the instances of a service."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from rich.console import Group, RenderableType

from zkdeployment.base import log
from zkdeployment.base.errors import ConfigurationError, HostFilesError, LinkError, UnreachableError
from zkdeployment.base.json_values import with_schema
from zkdeployment.cli.options import SECONDS, configured, emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, live_display, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.providers.instance import build_instance
from zkdeployment.providers.reader import ZooKeeperProviderReader, open_providers
from zkdeployment.providers.selection import (
    DEFAULT_MAJORITY,
    ProviderSelection,
    parse_majority,
    provider_version,
    select_providers,
)
from zkdeployment.tree.literal import read_assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from fractions import Fraction

    from zkdeployment.base.json_values import Value
    from zkdeployment.providers.settings import DiscoverySettings
    from zkdeployment.zookeeper.servers import Servers


R = TypeVar("R")


def majority_option(function: Callable[..., R]) -> Callable[..., R]:
    """Add ``--majority``; the verb receives ``majority``, a percentage over 50."""
    return click.option(
        "--majority",
        metavar="PERCENT",
        default=DEFAULT_MAJORITY,
        show_default=True,
        callback=_parse,
        help="The share of the instances that another version needs.",
    )(function)


def _parse(_context: click.Context, _parameter: click.Parameter, given: str) -> Fraction:
    try:
        return parse_majority(given)
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


_VERSION = "version"

#: The properties of an instance that are known from the environment of a deploy script.
_SCRIPT_VARIABLES = {
    "host": "ZKDEPLOYMENT_HOST_ID",
    "deployment": "ZKDEPLOYMENT_DEPLOYMENT",
    _VERSION: "ZKDEPLOYMENT_VERSION",
}


def _properties(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Value]:
    """Read properties; a version that reads as a number is text."""
    properties: dict[str, Value] = {}
    for text in given:
        try:
            name, value = read_assignment(text)
        except ValueError as error:
            problem = f"; {error}" if str(error) else ""
            raise click.BadParameter(f"{text!r} is not a property: expected KEY=VALUE{problem}") from error
        is_number = name == _VERSION and isinstance(value, int | float)
        properties[name] = text.partition("=")[2] if is_number else value  # 1.1 and 1.10 are two versions
    return properties


@click.command(name="provide")
@click.argument("path", callback=node_path)
@click.argument("address")
@click.argument("argv", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-p",
    "--property",
    "properties",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_properties,
    help="A property of the node; VALUE is a literal (a number, true, a list…) or text. May be repeated.",
)
@click.option(
    "--drain",
    metavar="SECONDS",
    type=SECONDS,
    default=0.0,
    help="On SIGTERM, remove the node first, and pass the signal on to COMMAND after so many seconds. In a unit of"
    " systemd, set KillMode=mixed, and TimeoutStopSec to a longer time.",
)
@zookeeper_options
def provide(
    connection: Servers,
    path: str,
    address: str,
    argv: tuple[str, ...],
    properties: dict[str, Value],
    drain: float,
) -> None:
    """Register an instance at ADDRESS as an ephemeral node under PATH while COMMAND, or this process, runs.

    Links in PATH are resolved; PATH must exist. The node has the property pid and the properties given with -p.
    Started by a deploy script, it also has the properties host, deployment and version, unless -p gives them.
    SIGTERM is passed on to COMMAND; with --drain, after consumers had time to stop using the instance. The exit
    code is that of COMMAND.

    \b
    Example:
      zkdeployment provide /shop/web/providers app1:8080 -p zone=a -- /opt/web/bin/serve --port 8080
    """
    log.configure()
    with build_instance(connection, path, address, argv, drain=drain) as instance:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: instance.end(number))
        raise click.exceptions.Exit(instance.provide({**_script_properties(os.environ), **properties}))


def _script_properties(environment: Mapping[str, str]) -> dict[str, Value]:
    """Return the instance that the environment of a deploy script describes."""
    return {name: value for name, variable in _SCRIPT_VARIABLES.items() if (value := environment.get(variable))}


_SCHEMA = "providers"

#: Seconds between two reads of ``--watch``: at most, without a change, and at least.
_MOST_SECONDS = 15.0
_LEAST_SECONDS = 0.1

#: Seconds until the next attempt after a failed one.
_RETRY = 1.0


def _json_file(_context: click.Context, _parameter: click.Parameter, given: Path | None) -> Path | None:
    if given is not None and given.suffix != ".json":
        raise click.BadParameter(
            f"expected a name that ends with .json, as Prometheus requires, found {given.name!a}"
        )
    return given


@click.command(name="providers")
@click.argument("path", callback=node_path)
@majority_option
@click.option("--watch", is_flag=True, help="Show each change until Ctrl-C; with -o json, an object in each line.")
@click.option(
    "--format",
    "program",
    type=click.Choice(["prometheus"]),
    help="Write all registered instances as the targets of another program.",
)
@click.option(
    "--port", metavar="KEY", help="With --format: the property of instances with the port of their metrics."
)
@click.option(
    "--file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_json_file,
    help="With --format: the file to write, as a whole, instead of the terminal; with --watch, after each change.",
)
@output_option
@zookeeper_options
def providers(
    connection: Servers,
    path: str,
    majority: Fraction,
    program: str | None,
    port: str | None,
    file: Path | None,
    *,
    watch: bool,
    output: str,
) -> None:
    """Show the instances in service at PATH: those of one version, which consumers may use together.

    Without --watch, the version in service is the one with most instances. With --watch, it stays until another
    version has the majority. If PATH is the list that a filter keeps, the filter decides.

    With --format prometheus, write all registered instances as a file for the discovery of Prometheus. PATH may be
    a service then. The section [discovery] of the configuration chooses properties of instances as labels.

    \b
    Example:
      zkdeployment providers /shop/web/providers
      zkdeployment providers /in-service/web --watch -o json
      zkdeployment providers /shop/web --format prometheus --watch --file /etc/prometheus/targets/web.json
    """
    if watch and output == "yaml":
        raise click.UsageError("expected a table or JSON with --watch; use -o yaml without it")
    if program is None and (port is not None or file is not None):
        raise click.UsageError("expected --format with --port and --file, found none; add --format prometheus")
    if program is not None and (output != "table" or (watch and file is None)):
        raise click.UsageError("expected --format without -o, and with --file if there is --watch")
    changed = threading.Event()
    with open_providers(connection, changed.set) as reader:
        if program is not None:
            from zkdeployment.providers.settings import DiscoverySettings  # noqa: PLC0415  as in _write_targets

            settings = configured(DiscoverySettings)
            write = partial(_write_targets, reader, path, port, file, settings, follows=watch)
            _keep_targets(write, changed) if watch else _print_problems(write())
            return
        if watch:
            _watch(reader, path, majority, changed, as_json=output == "json")
            return
        selection = select_providers(reader.read(path), None, majority)
    if output == "table":
        console_for(stderr=False).print(_render(selection), soft_wrap=True)
    else:
        emit(selection.to_json(), output, schema=_SCHEMA)


def _write_targets(
    reader: ZooKeeperProviderReader,
    path: str,
    port: str | None,
    file: Path | None,
    settings: DiscoverySettings,
    *,
    follows: bool,
) -> tuple[str, ...]:
    """Write the targets for Prometheus, and return the problems of omitted instances."""
    found = reader.discover(path, port, settings, follows=follows)
    groups = [group.to_json() for group in found.groups]
    content = f"{json.dumps(groups, indent=2)}\n".encode()
    if file is None:
        emit(groups, "json")
    elif not file.exists() or file.read_bytes() != content:
        from zkdeployment.base.machine import files  # noqa: PLC0415  registered instances need less memory

        try:
            files.replace(file, content)
        except OSError as error:
            raise HostFilesError(f"cannot write {file}: {error.strerror}; make its directory writable") from error
    return found.problems


def _keep_targets(write: Callable[[], tuple[str, ...]], changed: threading.Event) -> None:
    """Write targets after each change until Ctrl-C; the file stays while ZooKeeper or the node is away."""
    told: tuple[str, ...] = ()
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                problems, pause = write(), _MOST_SECONDS
            except (UnreachableError, LinkError, ConfigurationError) as error:
                problems, pause = (str(error),), _RETRY
            if problems != told:
                _print_problems(problems)
            told = problems
            changed.wait(pause)
            time.sleep(_LEAST_SECONDS)
            changed.clear()


def _print_problems(problems: tuple[str, ...]) -> None:
    for problem in problems:
        echo(problem, err=True)


def _watch(
    reader: ZooKeeperProviderReader, path: str, majority: Fraction, changed: threading.Event, *, as_json: bool
) -> None:
    """Show each change until Ctrl-C; the last selection stays while ZooKeeper or the node is away."""
    with contextlib.suppress(KeyboardInterrupt), _display(as_json=as_json) as show:
        selection, problem = _read(reader, path, None, majority), ""
        while True:
            show(selection, problem)
            changed.wait(_RETRY if problem else _MOST_SECONDS)
            time.sleep(_LEAST_SECONDS)
            changed.clear()
            try:
                selection, problem = _read(reader, path, selection.version, majority), ""
            except (UnreachableError, LinkError) as error:
                problem = str(error)


def _read(reader: ZooKeeperProviderReader, path: str, last: str | None, majority: Fraction) -> ProviderSelection:
    reader.follow(path)
    return select_providers(reader.read(path), last, majority)


@contextlib.contextmanager
def _display(*, as_json: bool) -> Iterator[Callable[[ProviderSelection, str], None]]:
    """Yield a function that shows a selection, and the problem of the last attempt to read one (empty: none)."""
    if not as_json:
        with live_display(console_for(stderr=False), _changes, _render) as show:
            yield show
        return
    shown: ProviderSelection | None = None
    last_problem = ""

    def print_object(selection: ProviderSelection, problem: str) -> None:
        nonlocal shown, last_problem
        if problem and problem != last_problem:
            echo(problem, err=True)
        last_problem = problem
        if selection != shown:
            echo(json.dumps(with_schema(_SCHEMA, selection.to_json())))
        shown = selection

    yield print_object


def _changes(before: ProviderSelection | None, after: ProviderSelection) -> Iterator[str]:
    if before is None or before.summary != after.summary:
        yield after.summary


def _render(selection: ProviderSelection, problem: str = "") -> RenderableType:
    parts: list[RenderableType] = [styled(problem, "red")] if problem else []
    parts.append(styled(selection.counts, "bold"))
    if selection.providers or selection.others:
        rows = [
            (address, provider_version(properties), "yes" if address in selection.providers else "no")
            for address, properties in sorted({**selection.providers, **selection.others}.items())
        ]
        parts.append(ResponsiveTable(("ADDRESS", "VERSION", "IN SERVICE"), rows, whole=("ADDRESS", "IN SERVICE")))
    return Group(*parts)
