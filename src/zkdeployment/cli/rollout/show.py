"""``zkdeployment rollout show``: the groups and hosts of a rollout, once or live."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table

from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.errors import RefusedError, UnreachableError
from zkdeployment.fleet.ages import age, ago
from zkdeployment.fleet.rollouts.states import GroupState, RolloutProgressState
from zkdeployment.fleet.rollouts.text import UNSUCCESSFUL, host_counts
from zkdeployment.fleet.rollouts.views import RolloutStatus, rollout_changes, rollout_status
from zkdeployment.model.cluster import short
from zkdeployment.model.listing import listing
from zkdeployment.rollout.state_machine import HostProgress
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import RenderableType
    from rich.text import Text

    from zkdeployment.fleet.rollouts.views import GroupStatus
    from zkdeployment.model.servers import Servers

_INTERVAL = 1.0
_BAR = 16
_NOT_CONVERGED = 4

#: How many active hosts of a group are named.
_NAMED = 3

_COLOURS = {
    GroupState.WAITING: "",
    GroupState.PREPARING: "cyan",
    GroupState.DEPLOYING: "cyan",
    GroupState.BAKING: "cyan",
    GroupState.SUCCESS: "green",
    GroupState.FAILED: "red",
}


@click.command(name="show")
@click.argument("rollout_id", metavar="[ID]", required=False)
@click.option("--watch", is_flag=True, help="Show the rollout live until it is over, or until Ctrl-C.")
@output_option
@zookeeper_options
def command(connection: Servers, rollout_id: str | None, watch: bool, output: str) -> None:
    """Show a rollout: its groups in order, what each group does or waits for, and the failed hosts.

    Without ID, show the rollout of the published revision. The exit code is 0 if the rollout is over and all
    groups and hosts succeeded, 4 if it is under way or had failures, 3 if there is no rollout. With --watch, the
    display is live until the rollout is over; without a terminal, a line is printed for each change.

    \b
    Example:
      zkdeployment rollout show
      zkdeployment rollout show --watch
      zkdeployment rollout show 1763731234-1 -o json
    """
    with open_operator(connection) as operator:
        names: dict[str, str] = {}

        def look() -> RolloutStatus:
            snapshot = operator.fleet.snapshot()
            identities = [host.identity for host in snapshot.hosts] + [host.identity for host in snapshot.absent]
            names.update({identity.id: identity.name for identity in identities})
            led = snapshot.coordinator is not None
            if rollout_id is None and snapshot.rollout is not None:
                return rollout_status(
                    snapshot.rollout, led=led, now=time.time(), governed=snapshot.governed, known=snapshot.facts
                )
            state = operator.rollouts.rollout(rollout_id)  # without an id: raises if the rollout cannot be read
            if state is None or rollout_id is None:
                raise RefusedError(_missing(snapshot.strategy, rollout_id, snapshot.coordinator))
            return rollout_status(state, led=led, now=time.time())

        status = _watch(look, names) if watch else look()
    if not watch:
        if output != "table":
            emit(status.to_json(), output, schema="rollout")
        else:
            console_for(stderr=False).print(render(status, names, time.time()), soft_wrap=True)
    raise click.exceptions.Exit(0 if status.state is RolloutProgressState.SUCCESS else _NOT_CONVERGED)


def _missing(strategy: str | None, rollout_id: str | None, coordinator: str | None) -> str:
    if rollout_id is not None:
        return (
            f"there is no rollout {rollout_id}; 'zkdeployment history show REV' lists the rollouts of a revision"
        )
    if strategy is None:
        return "there is no rollout: no strategy is published, so all hosts deploy a revision at once"
    if coordinator is None:
        return f"the rollout by {strategy} has not begun: no coordinator runs; start zkdeployment-coordinator"
    return f"the rollout by {strategy} has not begun yet; {coordinator} is the coordinator"


def _watch(look: Callable[[], RolloutStatus], names: Mapping[str, str]) -> RolloutStatus:
    """Show a rollout until it is over; return its last status."""

    def draw(status: RolloutStatus, problem: str) -> RenderableType:
        drawn = render(status, names, time.time())
        return Group(styled(problem, "red"), drawn) if problem else drawn

    with live_display(console_for(stderr=False), rollout_changes, draw) as show_status:
        status, problem = look(), ""
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                show_status(status, problem)
                if status.is_over:
                    break
                time.sleep(_INTERVAL)
                try:
                    status, problem = look(), ""
                except UnreachableError as error:
                    problem = str(error)
    return status


def render(status: RolloutStatus, names: Mapping[str, str], now: float) -> RenderableType:
    """Return a rollout: its groups as a tree, its failed hosts, and the acts of operators."""
    table = Table("GROUP", "STATE", "DONE", "", "FAILED", "WHY", box=box.SIMPLE_HEAD)
    for group in status.groups:
        done = group.count(HostProgress.SUCCESS)
        total = len(group.hosts)
        failed = group.count(HostProgress.FAILURE)
        table.add_row(
            styled(f"{'  ' * group.depth}{group.name}{' (critical)' if group.critical else ''}"),
            styled(group.state.value, _COLOURS[group.state]),
            f"{done}/{total}",
            ProgressBar(total=max(1, total), completed=done, width=_BAR),
            styled(str(failed) if failed else "", "red"),
            styled(_why(group, names)),
        )
    acts = [styled(act, "yellow") for act in status.acts]
    warnings = [styled(f"warning: {warning}", "yellow") for warning in status.warnings]
    head = f"rollout {status.id} of {short(status.revision)} by {status.strategy}, begun {ago(status.begun, now)}"
    if status.ended is not None:
        head += f", took {age(status.ended - status.begun)}"
    return Group(
        styled(head), table, *warnings, *_outcome(status, names), *acts, styled(status.description, "bold")
    )


def _outcome(status: RolloutStatus, names: Mapping[str, str]) -> Iterator[Text]:
    """Yield the counts of hosts, each failed host with its error and, after the end, all unfinished hosts."""
    yield styled(host_counts(status.hosts.values()))
    failed = [host for host, state in status.hosts.items() if state is HostProgress.FAILURE]
    for host in sorted({*failed, *status.errors}):
        yield styled(f"{_name(host, names)}: {status.errors.get(host, 'failed')}", "red")
    for state in (HostProgress.PREPARED, HostProgress.NOT_STARTED) if status.ended is not None else ():
        hosts = sorted(host for host, progress in status.hosts.items() if progress is state)
        if hosts:
            yield styled(f"{UNSUCCESSFUL[state]}: {', '.join(_name(host, names) for host in hosts)}", "yellow")


def _why(group: GroupStatus, names: Mapping[str, str]) -> str:
    phases = {state.value for state in (GroupState.PREPARING, GroupState.DEPLOYING)}
    active = [_name(host, names) for host, state in group.hosts.items() if state in phases]
    return "; ".join(filter(None, (group.description, f"active: {listing(active, _NAMED)}" if active else "")))


def _name(host_id: str, names: Mapping[str, str]) -> str:
    name = names.get(host_id, host_id)
    return name if name == host_id else f"{name} ({host_id})"
