"""The display of a rollout in a terminal, for rollouts of hosts and for promotions of fleets."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich import box
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from zkdeployment.base.cluster import short
from zkdeployment.base.durations import age, ago
from zkdeployment.base.errors import UnreachableError
from zkdeployment.base.text import listing
from zkdeployment.cli.options import emit
from zkdeployment.cli.tables import console_for, live_display, styled
from zkdeployment.strategies.analysis import MetricStage
from zkdeployment.strategies.analysis_views import MetricStatus, sparkline
from zkdeployment.strategies.state_machine import HostProgress
from zkdeployment.strategies.strategy import MemberKind
from zkdeployment.strategies.views import (
    UNSUCCESSFUL,
    GroupState,
    GroupStatus,
    RolloutProgressState,
    RolloutStatus,
    host_counts,
    rollout_changes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.text import Text


_INTERVAL = 1.0
_BAR = 16
#: The exit code while a rollout is under way, or after one with failures.
_NOT_CONVERGED = 4

#: The limit of active hosts of a group that the display names.
_NAMED = 3

_COLOURS = {
    GroupState.WAITING: "",
    GroupState.PREPARING: "cyan",
    GroupState.DEPLOYING: "cyan",
    GroupState.BAKING: "cyan",
    GroupState.OPERATOR: "yellow",
    GroupState.UNFINISHED: "",
    GroupState.SUCCESS: "green",
    GroupState.FAILED: "red",
}

_METRIC_COLOURS = {
    MetricStage.PASSED: "green",
    MetricStage.FAILED: "red",
    MetricStage.WAITING: "yellow",
    MetricStage.STALE: "yellow",
    MetricStage.OVERDUE: "yellow",
}


def show_rollout(
    look: Callable[[], RolloutStatus],
    output: str,
    body: Callable[[RolloutStatus], dict[str, Any]],
    *,
    watch: bool,
    names: Mapping[str, str],
    kind: MemberKind = MemberKind.HOST,
    remarks: Callable[[], tuple[str, ...]] = tuple,
) -> NoReturn:
    """Print the rollout that ``look`` returns, or show it live, and end with its exit code.

    ``body`` returns the rollout as an output for programs. ``names`` are those of hosts by id, and ``remarks`` are
    further lines for people; ``look`` may change both.
    """
    if watch:
        status = _watch(look, names, kind)
    else:
        status = look()
        if output != "table":
            emit(body(status), output, schema=kind.whole)
        else:
            drawn = render(status, names, time.time(), kind)
            lines = [styled(line, "yellow") for line in remarks()]
            console_for(stderr=False).print(Group(drawn, *lines) if lines else drawn, soft_wrap=True)
    raise click.exceptions.Exit(0 if status.state is RolloutProgressState.SUCCESS else _NOT_CONVERGED)


def _watch(look: Callable[[], RolloutStatus], names: Mapping[str, str], kind: MemberKind) -> RolloutStatus:
    """Show a rollout until it is over; return its last status."""

    def draw(status: RolloutStatus, problem: str) -> RenderableType:
        drawn = render(status, names, time.time(), kind)
        return Group(styled(problem, "red"), drawn) if problem else drawn

    changes = partial(rollout_changes, whole=kind.whole)
    with live_display(console_for(stderr=False), changes, draw) as show_status:
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


def render(
    status: RolloutStatus, names: Mapping[str, str], now: float, kind: MemberKind = MemberKind.HOST
) -> RenderableType:
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
        for metric in group.analysis:
            table.add_row(styled(f"{'  ' * group.depth}  {metric.name}"), *_metric_cells(metric))
    acts = [styled(act, "yellow") for act in status.acts]
    warnings = [styled(f"warning: {warning}", "yellow") for warning in status.warnings]
    by = f" by {status.strategy}" if kind is MemberKind.HOST else ""
    head = f"{kind.whole} {status.id} of {short(status.revision)}{by}, begun {ago(status.begun, now)}"
    if status.ended is not None:
        head += f", took {age(status.ended - status.begun)}"
    return Group(
        styled(head), table, *warnings, *_outcome(status, names, kind), *acts, styled(status.description, "bold")
    )


def _metric_cells(metric: MetricStatus) -> tuple[RenderableType, ...]:
    """Return the cells of a metric: its verdict, its numbers, its values as a sparkline, and the last one."""
    line = styled("")
    for block, failed in sparkline(metric.measurements, _BAR):
        line.append(block, "red" if failed else "")
    failures = styled(str(metric.failed) if metric.failed else "", "red")
    measured = metric.passed + metric.failed + metric.no_data
    return (
        styled(metric.verdict, _METRIC_COLOURS.get(metric.stage, "cyan")),
        f"{metric.passed}/{measured}" if measured else "",
        line,
        failures,
        styled(metric.last or f"expected {metric.passes}"),
    )


def _outcome(status: RolloutStatus, names: Mapping[str, str], kind: MemberKind) -> Iterator[Text]:
    """Yield the counts of hosts, each failed host with its error and, after the end, all unfinished hosts."""
    yield styled(host_counts(status.hosts.values(), kind))
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
