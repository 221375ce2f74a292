"""``zkdeployment status`` and ``inventory``: the state of the fleet for people, and its hosts for Ansible."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from zkdeployment.base.act import describe_decision
from zkdeployment.base.cluster import Revision, is_commit, is_named, short
from zkdeployment.base.durations import age
from zkdeployment.base.errors import UnreachableError
from zkdeployment.cli.options import SECONDS, configured, emit, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, live_display, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.config.inventory import InventorySettings
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.fleet.views.ansible_inventory import InventoryNames, ansible_inventory
from zkdeployment.fleet.views.columns import ON_TERMINAL, STATE, Column
from zkdeployment.fleet.views.requests import describe_unknown, describe_wanted
from zkdeployment.fleet.views.snapshot import describe_stops
from zkdeployment.fleet.views.status import (
    FleetStatus,
    HostState,
    HostStatus,
    describe_late_syncer,
    describe_problems,
    fleet_status,
    most_important_hosts,
    status_changes,
)
from zkdeployment.fleet.views.waits import WaitVerdict, wait_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.text import Text

    from zkdeployment.publishing.records import PublicationRecord
    from zkdeployment.zookeeper.servers import Servers

COLOURS = {
    HostState.CONVERGED: "green",
    HostState.BEHIND: "yellow",
    HostState.DEPLOYING: "cyan",
    HostState.FAILED: "red",
    HostState.ABSENT: "magenta",
    HostState.REBOOTING: "cyan",
    HostState.MAINTENANCE: "blue",
    HostState.EXCLUDED: "dim",
    HostState.UNKNOWN: "magenta",
}


def render_table(status: FleetStatus) -> RenderableType:
    """Return a table of the hosts, a line for each error, and the summary."""
    now = time.time()
    reasons = " ".join(stop.reason for stop in status.stops)
    stops = describe_stops(status.stops, now)
    errors = [f"{host.name}: {host.error}" for host in status.hosts if host.error and host.error not in reasons]
    lines = (styled(line, style="red") for line in (*stops, *errors, *describe_problems(status, now)))
    rollout = [styled(f"warning: {warning}", style="yellow") for warning in status.warnings]
    rollout += [] if status.rollout is None else [styled(status.rollout)]
    rollout += [styled(describe_decision(each, now), style="yellow") for each in status.decisions]
    # Long cells are shortened, so that each host takes one line.
    hosts = ResponsiveTable(
        [column.heading for column in ON_TERMINAL],
        ([_cell(column, host) for column in ON_TERMINAL] for host in status.hosts),
        whole=[column.heading for column in ON_TERMINAL if column.whole],
        dispensable=[column.heading for column in ON_TERMINAL if column.dispensable],
        cut=True,
    )
    wanted = [styled(sentence) for sentence in _wanted(status, now)]
    late = [styled(sentence, style="yellow") for sentence in describe_late_syncer(status, now)]
    return Group(hosts, *lines, *rollout, *wanted, styled(status.summary), *late)


def _wanted(status: FleetStatus, now: float) -> list[str]:
    return describe_wanted(status.publication, status.change, status.since, now)


def _cell(column: Column, host: HostStatus) -> Text | str:
    text = column.text(host)
    return styled(text, style=COLOURS[host.state]) if column is STATE else text


#: Seconds between two reads while hosts deploy, and while the fleet is converged.
_BUSY = 1.0
_IDLE = 5.0

#: Lines besides the hosts: the summary, the counts of omitted hosts, the cursor.
_FRAME = 3
_MOST_STOPS = _MOST_PROBLEMS = 5

#: The least width for bars and ages, and the widths of columns.
_WIDE = 70
_STATE, _BAR, _AGE = 9, 12, 8


def watch_fleet(look: Callable[[], FleetStatus], changed: threading.Event, timeout: float | None) -> None:
    """Show the fleet until Ctrl-C, or for ``timeout`` seconds.

    ``changed`` is set when the cluster version may have changed. While ZooKeeper is unreachable, the display shows
    the error.
    """
    console = console_for(stderr=False)
    deadline = math.inf if timeout is None else time.monotonic() + timeout

    def draw(status: FleetStatus, problem: str) -> RenderableType:
        return render_screen(status, console.height, console.width, time.time(), problem)

    def changes(before: FleetStatus | None, after: FleetStatus) -> Iterator[str]:
        return status_changes(before, after, time.time())

    with contextlib.suppress(KeyboardInterrupt), live_display(console, changes, draw) as show:
        status = look()
        while True:
            show(status, "")
            if time.monotonic() >= deadline:
                return
            time.sleep(min(_BUSY, max(0.0, deadline - time.monotonic())))
            if status.converged and deadline == math.inf:
                changed.wait(_IDLE - _BUSY)
            changed.clear()
            began = time.monotonic()
            try:
                status = look()
            except UnreachableError as error:
                show(status, str(error))
            # Pause as long as the read of a large fleet took, to spare the server and this machine.
            time.sleep(time.monotonic() - began)


def render_screen(status: FleetStatus, height: int, width: int, now: float, problem: str = "") -> RenderableType:
    """Return a fleet in ``height`` lines of ``width``: stops, problems, the most important hosts, the summary."""
    lines = [_line(reason, "red") for reason in describe_stops(status.stops, now)[:_MOST_STOPS]]
    if problem:
        lines.insert(0, _line(problem, "red"))
    lines += [_line(sentence, "red") for sentence in describe_problems(status, now)[:_MOST_PROBLEMS]]
    if status.rollout is not None:
        lines.append(_line(status.rollout, "bold"))
    lines += [_line(describe_decision(each, now), "yellow") for each in status.decisions]
    lines += [_line(sentence, "") for sentence in _wanted(status, now)]
    lines += [_line(sentence, "yellow") for sentence in describe_late_syncer(status, now)]
    rows, rest = most_important_hosts(status, max(1, height - _FRAME - len(lines)))
    names = min(max((len(host.name) for host in rows), default=0), width // 3)
    bars, ages = (_BAR, _AGE) if width >= _WIDE else (0, 0)
    table = Table.grid(padding=(0, 2))
    for column_width in (names, _STATE, bars, ages, max(1, width - names - _STATE - bars - ages - 8)):
        table.add_column(no_wrap=True, overflow="ellipsis", width=column_width)
    for host in rows:
        done, total = host.steps or (0, 0)
        table.add_row(
            styled(host.name),
            styled(host.state.value, COLOURS[host.state]),
            ProgressBar(total=total, completed=done) if total and bars else styled(""),
            styled("" if host.since is None or not ages else age(now - host.since), "dim"),
            styled(host.error or host.step or ("" if host.version is None else short(host.version))),
        )
    return Group(*lines, table, _line(rest, "dim"), _line(status.summary, "bold"))


def _line(text: str, style: str) -> Text:
    return styled(text, style, cut=True)


#: The value of ``--wait`` without a revision, which stands for the wanted version. No command line can contain it.
_WANTED = "\0"
_INTERVAL = 0.5
_NOT_CONVERGED = 4
_EXIT = {
    WaitVerdict.REACHED: 0,
    WaitVerdict.STOPPED: 3,
    WaitVerdict.REFUSED: 3,
    WaitVerdict.PASSED: 3,
    WaitVerdict.WAITING: 5,
}


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
    converged, else 4; it is 4 as well while no host matches a target of the tree, while an instance of a service
    is down, and while the syncer has been silent for more than three of its intervals and a minute. With --wait,
    the exit code is 0 when the hosts reached the revision (4 while no host matches a target of it), 3 when the
    fleet is stopped, the syncer refuses the revision, or a later one was published before the hosts reached it,
    and 5 at the timeout. Right after a push, the version wanted is still the previous one: name the revision then.
    With --watch, the display is live until Ctrl-C; without a terminal, a line is printed for each change.

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
            fleet, snapshot = operator.fleet, operator.fleet.snapshot()
            syncer, services = fleet.syncer_report(), fleet.services(snapshot)
            return fleet_status(snapshot, names=hosts, syncer=syncer, services=services)

        if hosts:
            _check_hosts(look(), operator, waits=wait is not None)
        if watch:
            operator.fleet.watch(changed.set)
            watch_fleet(look, changed, timeout)
            return
        if wait is None:
            status = look()
            is_late = bool(describe_late_syncer(status, time.time()))
            is_current = status.converged and not status.down.count and not is_late
            code = 0 if is_current else _NOT_CONVERGED
        else:
            revision = wait if wait != _WANTED else None
            if revision is not None and not revision.isdigit():
                _check_revision(revision, look(), operator)
            read = _announcing(look) if revision is None else look
            judge = _judge(operator, revision, hosts)
            status = _follow(read, lambda status: judge(status) is not WaitVerdict.WAITING, timeout)
            verdict = judge(status)
            is_whole = not status.deployed or status.converged
            code = _EXIT[verdict] if verdict is not WaitVerdict.REACHED or is_whole else _NOT_CONVERGED
            if verdict is WaitVerdict.WAITING:
                awaited = short(status.wanted) if status.is_published else "a published revision"
                echo(f"timed out: {revision or awaited} was not reached in {timeout:g} s", err=True)
            if verdict is WaitVerdict.PASSED:
                echo(f"{short(status.wanted)} was published before the hosts reached {revision}", err=True)
    _show(status, output)
    raise click.exceptions.Exit(code)


def _check_options(*, watch: bool, wait: str | None, timeout: float | None, output: str) -> None:
    """Raise ``UsageError`` for options that exclude each other."""
    if watch and wait is not None:
        raise click.UsageError("expected --watch or --wait, found both")
    if wait == "":  # perhaps an unset variable in a script
        raise click.UsageError("expected a revision after --wait, found nothing")
    if watch and output != "table":
        raise click.UsageError("expected a table with --watch; use -o json and -o yaml alone or with --wait")
    if timeout is not None and not watch and wait is None:
        raise click.UsageError("expected --wait or --watch with --timeout")


def _check_revision(revision: str, status: FleetStatus, operator: OperatorAdapters) -> None:
    """Raise ``UsageError`` for the name of a host, for which a wait never ends; report an unknown revision."""
    if any(revision in {host.id, host.name} for host in status.hosts):
        raise click.UsageError(
            f"expected a revision after --wait, found the host {revision};"
            f" put hosts first: status {revision} --wait"
        )
    wanted = [] if status.wanted is None else [status.wanted]
    published = [record.revision for record in operator.fleet.history()]
    refused = [refusal.revision for refusal in reversed(operator.fleet.refusals())]
    known = [*wanted, *published, *refused]
    if unknown := describe_unknown(revision, known, operator.fleet.syncer_report(), time.time()):
        echo(unknown, err=True)


def _check_hosts(status: FleetStatus, operator: OperatorAdapters, *, waits: bool) -> None:
    """Raise ``UsageError`` for a revision in place of a host; with ``waits``, report hosts that exist nowhere."""
    unknown = [host.id for host in status.hosts if not host.exists]
    if not unknown:
        return
    revisions = [status.wanted, *(record.revision for record in operator.fleet.history())]
    for name in unknown:
        if is_commit(name) or any(is_named(revision, name) for revision in revisions):
            raise click.UsageError(
                f"expected the id or the name of a host, found the revision {name}; to wait for a revision, name"
                f" it after --wait: status --wait {name}"
            )
        if waits:
            echo(f"no such host: {name}; waiting until a host with this id or name registers", err=True)


def _judge(
    operator: OperatorAdapters, revision: str | None, hosts: Sequence[str]
) -> Callable[[FleetStatus], WaitVerdict]:
    """Return the function that judges a reading of the status.

    The function reads the history only when another publication is wanted than that of the revision, and again
    only after the next publication.
    """

    @functools.lru_cache(maxsize=1)
    def history(_last: int) -> tuple[PublicationRecord, ...]:
        return operator.fleet.history()

    def judge(status: FleetStatus) -> WaitVerdict:
        wanted = status.publication
        if revision is None or wanted is None or is_named(wanted.revision, revision):
            return wait_verdict(status, revision, hosts)
        return wait_verdict(status, revision, hosts, history(wanted.sequence))

    return judge


def _announcing(look: Callable[[], FleetStatus]) -> Callable[[], FleetStatus]:
    """Return ``look`` with an announcement of the wanted revision, at first and after each change."""
    announced: list[Revision | None] = []

    def look_and_announce() -> FleetStatus:
        status = look()
        if announced[-1:] != [status.wanted]:
            announced.append(status.wanted)
            wanted = f"{short(status.wanted)}, as published" if status.is_published else "the first publication"
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
                live.update(render_table(status), refresh=True)
            time.sleep(_INTERVAL)


def _show(status: FleetStatus, output: str) -> None:
    if output != "table":
        emit(status.to_json(), output, schema="status")
        return
    console_for(stderr=False).print(render_table(status), soft_wrap=True)


@click.command(name="inventory")
@click.option("--list", "lists", is_flag=True, help="Print all groups, and the variables of all hosts.")
@click.option("--host", metavar="HOST", help="Print the variables of one host, by name or id.")
@zookeeper_options
def inventory_command(connection: Servers, host: str | None, *, lists: bool) -> None:
    """Print the fleet as JSON, in the form of a dynamic inventory of Ansible.

    Hosts are in groups by role (role_web), tag (tag_fast), label (label_tier_web), rack (rack_r1), service
    (service_shop_web), state (state_failed) and revision (revision_1f2e3d4c5b6a). The section [inventory] of the
    configuration sets a prefix for groups, racks within sites, and ids as names of hosts. Ansible runs
    /usr/share/zkdeployment/etc/ansible/zkdeployment with these options.

    \b
    Example:
      zkdeployment inventory --list
      zkdeployment inventory --host app1.example.com
    """
    if lists == (host is not None):
        raise click.UsageError("expected either --list or --host HOST")
    settings = configured(InventorySettings)
    choices = InventoryNames(settings.group_prefix, settings.site_label, settings.hosts == "ids")
    with open_operator(connection) as operator:
        snapshot, targets = operator.fleet.snapshot(), operator.fleet.targets()
    inventory = ansible_inventory(fleet_status(snapshot), snapshot, targets, choices)
    emit(inventory.to_json() if host is None else inventory.host(host), "json")
