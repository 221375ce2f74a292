"""``zkdeployment status``: the state of the fleet, once, live, or until a revision is reached."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import click
from rich.live import Live

from zkdeployment.cli.fleet.table import render
from zkdeployment.cli.fleet.watch import watch as watch_fleet
from zkdeployment.cli.shared.console import console_for
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.seconds import SECONDS
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.status import FleetStatus, fleet_status
from zkdeployment.fleet.waiting import WaitVerdict, wait_verdict
from zkdeployment.model.cluster import short
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.servers import Servers

#: The value of ``--wait`` without a revision, which stands for the wanted version.
_WANTED = ""
_INTERVAL = 0.5
_NOT_CONVERGED = 4
_EXIT = {WaitVerdict.REACHED: 0, WaitVerdict.STOPPED: 3, WaitVerdict.WAITING: 5}


@click.command(name="status")
@click.argument("hosts", metavar="[HOST]...", nargs=-1)
@click.option("--watch", is_flag=True, help="Show the fleet live until Ctrl-C.")
@click.option(
    "--wait",
    metavar="[REV]",
    is_flag=False,
    flag_value=_WANTED,
    help="Wait until the fleet, or these hosts, reached REV (default: the version wanted).",
)
@click.option("--timeout", metavar="S", type=SECONDS, help="End --wait or --watch after S seconds.")
@output_option
@zookeeper_options
def command(
    connection: Servers, hosts: tuple[str, ...], watch: bool, wait: str | None, timeout: float | None, output: str
) -> None:
    """Show the fleet: version wanted, version had, state, step, error, since when.

    HOST is a host's id or name; without HOST, all hosts are shown. The exit code is 0 when the hosts are
    converged, else 4. With --wait, the exit code is 0 when the hosts reached the revision, 3 when the fleet is
    stopped, 5 at the timeout. Right after a push, the version wanted is still the previous one: name the revision
    then. With --watch, the display is live until Ctrl-C; without a terminal, a line is printed for each change.

    \b
    Example:
      zkdeployment status
      zkdeployment status --watch
      zkdeployment status --wait $(git rev-parse HEAD) --timeout 600
      zkdeployment status app1.example.com -o json
    """
    _check_options(watch=watch, wait=wait, timeout=timeout, output=output)
    with open_operator(connection) as operator:
        changed = threading.Event()

        def look() -> FleetStatus:
            return fleet_status(operator.fleet.snapshot(), names=hosts)

        if watch:
            operator.fleet.watch(changed.set)
            watch_fleet(look, changed, timeout)
            return
        if wait is None:
            status = look()
            code = 0 if status.converged else _NOT_CONVERGED
        else:
            revision = wait if wait != _WANTED else None
            if revision is not None and not revision.isdigit():
                _check_revision(revision, look())
            read = _announcing(look) if revision is None else look
            status = _follow(read, lambda status: _is_over(status, revision, hosts), timeout)
            verdict = wait_verdict(status, revision, hosts)
            code = _EXIT[verdict]
            if verdict is WaitVerdict.WAITING:
                awaited = short(status.wanted) if revision is None and status.wanted is not None else revision
                echo(f"timed out: {awaited or 'a published revision'} was not reached in {timeout:g} s", err=True)
    _show(status, output)
    raise click.exceptions.Exit(code)


def _check_options(*, watch: bool, wait: str | None, timeout: float | None, output: str) -> None:
    """Raise ``UsageError`` for options that exclude each other."""
    if watch and wait is not None:
        raise click.UsageError("expected --watch or --wait, found both")
    if watch and output != "table":
        raise click.UsageError("expected a table with --watch; use -o json and -o yaml alone or with --wait")
    if timeout is not None and not watch and wait is None:
        raise click.UsageError("expected --wait or --watch with --timeout")


def _check_revision(revision: str, status: FleetStatus) -> None:
    """Raise ``UsageError`` for a revision that is the name of a host: such a wait would never end."""
    if any(revision in {host.id, host.name} for host in status.hosts):
        raise click.UsageError(
            f"expected a revision after --wait, found the host {revision};"
            f" put hosts first: status {revision} --wait"
        )


def _is_over(status: FleetStatus, revision: str | None, hosts: Sequence[str]) -> bool:
    return wait_verdict(status, revision, hosts) is not WaitVerdict.WAITING


def _announcing(look: Callable[[], FleetStatus]) -> Callable[[], FleetStatus]:
    """Return ``look`` with an announcement of the wanted revision, at first and after each change."""
    announced: list[Revision | None] = []

    def look_and_announce() -> FleetStatus:
        status = look()
        if announced[-1:] != [status.wanted]:
            announced.append(status.wanted)
            wanted = "the first publication" if status.wanted is None else f"{short(status.wanted)}, as published"
            echo(
                f"waiting for {wanted}; to wait for a push that is not published yet, name its revision", err=True
            )
        return status

    return look_and_announce


def _follow(
    look: Callable[[], FleetStatus], is_over: Callable[[FleetStatus], bool], timeout: float | None
) -> FleetStatus:
    """Read the status until the wait is over or timed out; on a terminal, show the fleet during the wait."""
    deadline = None if timeout is None else time.monotonic() + timeout
    console = console_for(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            status = look()
            if is_over(status) or (deadline is not None and time.monotonic() >= deadline):
                return status
            if console.is_terminal:
                live.update(render(status), refresh=True)
            time.sleep(_INTERVAL)


def _show(status: FleetStatus, output: str) -> None:
    if output != "table":
        emit(status.to_json(), output, schema="status")
        return
    console_for(stderr=False).print(render(status), soft_wrap=True)
