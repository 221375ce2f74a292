"""``zkdeployment providers``: the instances of a service that its consumers may use."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING

import click
from rich.console import Group

from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.cli.shared.majority_option import majority_option
from zkdeployment.cli.shared.options import emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import LinkError, UnreachableError
from zkdeployment.output_schema import with_schema
from zkdeployment.providers.selection import provider_version, select_providers
from zkdeployment.wiring.providers import open_providers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from fractions import Fraction

    from rich.console import RenderableType

    from zkdeployment.adapters.zookeeper.filters.provider_reader import ZooKeeperProviderReader
    from zkdeployment.model.servers import Servers
    from zkdeployment.providers.selection import ProviderSelection

_SCHEMA = "providers"

#: Seconds between two reads of ``--watch``: at most, without a change, and at least.
_MOST_SECONDS = 15.0
_LEAST_SECONDS = 0.1

#: Seconds until the next attempt after a failed one.
_RETRY = 1.0


@click.command(name="providers")
@click.argument("path", callback=node_path)
@majority_option
@click.option("--watch", is_flag=True, help="Show each change until Ctrl-C; with -o json, an object in each line.")
@output_option
@zookeeper_options
def command(connection: Servers, path: str, majority: Fraction, *, watch: bool, output: str) -> None:
    """Show the instances in service at PATH: those of one version, which consumers may use together.

    Without --watch, the version in service is the one with most instances. With --watch, it stays until another
    version has the majority. If PATH is the list that a filter keeps, the filter decides.

    \b
    Example:
      zkdeployment providers /shop/web/providers
      zkdeployment providers /in-service/web --watch -o json
    """
    if watch and output == "yaml":
        raise click.UsageError("expected a table or JSON with --watch; use -o yaml without it")
    changed = threading.Event()
    with open_providers(connection, changed.set) as reader:
        if watch:
            _watch(reader, path, majority, changed, as_json=output == "json")
            return
        selection = select_providers(reader.read(path), None, majority)
    if output == "table":
        console_for(stderr=False).print(_render(selection), soft_wrap=True)
    else:
        emit(selection.to_json(), output, schema=_SCHEMA)


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
