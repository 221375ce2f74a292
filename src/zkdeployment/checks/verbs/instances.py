"""``zkdeployment checks instances``, ``summary``, ``retry``, ``drift``, ``abandon`` and ``allow-removal``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group, RenderableType

from zkdeployment.base.durations import ago
from zkdeployment.checks.opening import open_checks
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.listing import (
    CheckDrift,
    CheckInstanceView,
    InstanceFilter,
    SystemBacklog,
    host_name,
    instance_to_view,
    instance_view,
    read_instance_id,
    read_state,
    shown_state,
)
from zkdeployment.checks.user_acts import AbandonSystem, AllowRemoval
from zkdeployment.cli.act_verbs import act_verb
from zkdeployment.cli.operator_options import new_act, reason_option
from zkdeployment.cli.options import emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.text import Text

    from zkdeployment.base.act import Maintenance
    from zkdeployment.checks.ports import CheckAdapters
    from zkdeployment.checks.rules.findings import CheckGroupState
    from zkdeployment.checks.rules.monitoring_system import CheckResult
    from zkdeployment.zookeeper.servers import Servers


_COLOURS = {
    CheckState.ACTIVE: "green",
    CheckState.ROLLOUT_FAILED: "red",
    CheckState.DEPROVISION_FAILED: "red",
    CheckState.AWAITING_DELETION: "dim",
}
_AWAY_COLOUR = "blue"
_RESULT_COLOURS = {
    "ok": "green",
    "warning": "yellow",
    "critical": "red",
    "unknown": "magenta",
    "in maintenance": _AWAY_COLOUR,
}


@click.command(name="instances")
@click.argument("instance_id", metavar="[UUID]", required=False)
@click.option("--state", metavar="STATE", help="Only instances in this state, such as active or rollout_failed.")
@click.option("--host", metavar="HOST", help="Only instances on this host: its id or its name.")
@click.option(
    "--path", metavar="PATH", callback=node_path, help="Only instances of services at and below this node."
)
@click.option("--check", metavar="NAME", help="Only instances of this check configuration.")
@output_option
@zookeeper_options
def instances(
    *,
    connection: Servers,
    instance_id: str | None,
    state: str | None,
    host: str | None,
    path: str | None,
    check: str | None,
    output: str,
) -> None:
    """Show check instances; with UUID one of them, with all its versions, their states, reasons and times.

    The exit code is 3 if there is no instance UUID.

    \b
    Example:
      zkdeployment checks instances --state rollout_failed
      zkdeployment checks instances --host app1.example.com -o json
      zkdeployment checks instances 0b5ab6a2-2f29-5f0e-9d0b-2a6f5f1d2c3e
    """
    wanted = InstanceFilter(read_state(state), host, path, check)
    if instance_id is not None and wanted != InstanceFilter():
        raise click.UsageError("expected UUID or filters, found both")
    chosen = None if instance_id is None else read_instance_id(instance_id)
    with open_checks(connection) as checks:
        if chosen is not None:
            _show_one(checks, chosen, output)
            return
        found, now = checks.select(wanted), time.time()
        results, maintenance = checks.results(found, now), checks.fleet.maintenance(now)
    views = (instance_view(one, results.get(one.id), maintenance.get(one.key.host)) for one in found)
    if output != "table":
        emit({"instances": [view.to_json() for view in views]}, output, schema="check-instances")
    elif found:
        rows = (_cells(view, now) for view in views)
        headings = ("ID", "CHECK", "PATH", "NUMBER", "HOST", "MONITORING", "STATE", "SINCE", "RESULT")
        table = ResponsiveTable(headings, rows, whole=("ID", "PATH", "STATE"), numbers=("NUMBER",))
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("there is no such check instance", err=True)


@click.command(name="summary")
@output_option
@zookeeper_options
def summary(connection: Servers, output: str) -> None:
    """Show each monitoring system: its last fetch, what waits for it, and what it could not deploy.

    Below that, each check group is shown with its state, and with how many of its deployments are OK.

    \b
    Example:
      zkdeployment checks summary
      zkdeployment checks summary -o json
    """
    with open_checks(connection) as checks:
        found = checks.summary(time.time())
    if output != "table":
        emit(found.to_json(), output, schema="checks-summary")
    elif found.systems:
        now = time.time()
        headings = ("MONITORING", "LAST FETCH", "LAST RESULTS", "BACKLOG", "NOT NOTIFIED", "FAILED")
        rows = (_system_cells(system, now) for system in found.systems)
        table = ResponsiveTable(
            headings, rows, whole=("MONITORING",), numbers=("BACKLOG", "NOT NOTIFIED", "FAILED")
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("there is no monitoring system; add one with 'zkdeployment checks create FILE'", err=True)
    if output == "table" and found.groups:
        echo("")
        table = ResponsiveTable(
            ("GROUP", "STATE", "DEPLOYMENTS"), map(_group_cells, found.groups), whole=("GROUP",)
        )
        console_for(stderr=False).print(table, soft_wrap=True)


@click.command(name="retry")
@click.argument("instance_id", metavar="[UUID]", required=False)
@click.option("--system", metavar="NAME", help="All failed instances of this monitoring system.")
@click.option("--check", metavar="NAME", help="All failed instances of this check configuration.")
@reason_option(required=False)
@output_option
@zookeeper_options
def retry(
    *,
    connection: Servers,
    instance_id: str | None,
    system: str | None,
    check: str | None,
    reason: str,
    output: str,
) -> None:
    """Let the monitoring system try a failed deployment or undeployment again.

    The exit code is 3 if the instance has not failed, or if no instance of the monitoring system or of the check
    has.

    \b
    Example:
      zkdeployment checks retry 0b5ab6a2-2f29-5f0e-9d0b-2a6f5f1d2c3e
      zkdeployment checks retry --system nagios1 --reason 'the plugin is installed'
      zkdeployment checks retry --check front-http
    """
    if (instance_id is None) == (system is None and check is None):
        raise click.UsageError("expected UUID, or --system or --check")
    name = instance_id or " ".join(filter(None, (system and f"--system {system}", check and f"--check {check}")))
    act = new_act(f"checks retry {name}", reason)
    chosen = None if instance_id is None else read_instance_id(instance_id)
    with open_checks(connection) as checks:
        failed = (
            checks.failed(InstanceFilter(check=check, system=system)) if chosen is None else (checks.find(chosen),)
        )
        changed = checks.retry(failed, act)
    if output != "table":
        shown = [instance_view(instance, None).to_json() for instance in changed]
        emit({"instances": shown}, output, schema="check-instances")
        return
    for instance in changed:
        echo(f"{instance.id} {shown_state(instance).value}")


def _show_one(checks: CheckAdapters, instance_id: str, output: str) -> None:
    instance, now = checks.find(instance_id), time.time()
    result = checks.results([instance], now).get(instance.id)
    maintenance = checks.fleet.maintenance(now).get(instance.key.host)
    if output != "table":
        emit(instance_to_view(instance, result, maintenance), output, schema="check-instance")
    else:
        console_for(stderr=False).print(Group(*_render(instance, result, maintenance, now)), soft_wrap=True)


def _render(
    instance: CheckInstance, result: CheckResult | None, maintenance: Maintenance | None, now: float
) -> Iterator[RenderableType]:
    key = instance.key
    yield styled(f"{key.check} of {key.path} {key.number} on {host_name(instance)} ({key.host})", "bold")
    if key.attributes:
        yield styled(", ".join(f"{name} = {value}" for name, value in key.attributes))
    flags = [
        *(["deleted"] if instance.deleted else []),
        *(["the monitoring system is not notified yet"] if instance.update_available else []),
    ]
    yield styled(f"monitoring: {instance.system or '-'}{''.join(f'; {flag}' for flag in flags)}")
    if maintenance is not None:
        yield styled(f"the host is {maintenance}", _AWAY_COLOUR)
    if result is not None:
        shown = f"result: {result.state.value} since {ago(result.since, now)}: {result.output}"
        yield styled(shown, _RESULT_COLOURS[result.state.value])
    headings = ("VERSION", "STATE", "MONITORING", "CREATED", "CHANGED", "REASON")
    rows = (_version_cells(instance, found, now) for found in instance.configurations)
    yield ResponsiveTable(headings, rows, whole=("STATE",), numbers=("VERSION",))


def _version_cells(instance: CheckInstance, found: InstanceConfiguration, now: float) -> tuple[Text | str, ...]:
    mark = "*" if found.version == instance.current else ""
    return (
        f"{found.version}{mark}",
        styled(found.state.value, _COLOURS.get(found.state, "")),
        found.system,
        ago(found.created, now),
        ago(found.changed, now),
        styled(found.reason),
    )


def _cells(view: CheckInstanceView, now: float) -> tuple[Text | str, ...]:
    chosen = "".join(f" {name}={value}" for name, value in view.attributes.items())
    reason = f": {view.reason}" if view.reason else ""
    return (
        view.id,
        styled(f"{view.check}{chosen}"),
        styled(view.path),
        str(view.number),
        styled(view.name),
        view.monitoring,
        styled(f"{view.state.value}{' (deleted)' if view.deleted else ''}{reason}", _COLOURS.get(view.state, "")),
        "-" if view.changed is None else ago(view.changed, now),
        _result(view),
    )


def _result(view: CheckInstanceView) -> Text | str:
    if view.maintenance is not None:
        return styled("in maintenance", _AWAY_COLOUR)
    return (
        "-" if view.result is None else styled(view.result.state.value, _RESULT_COLOURS[view.result.state.value])
    )


def _system_cells(system: SystemBacklog, now: float) -> tuple[Text | str, ...]:
    return (
        system.name,
        _age(system.fetched, now),
        _age(system.reported, now),
        str(len(system.waiting)),
        str(len(system.flagged)),
        styled(str(len(system.failed)), "red" if system.failed else ""),
    )


def _group_cells(state: CheckGroupState) -> tuple[Text | str, ...]:
    colour = _RESULT_COLOURS.get(state.state, "")
    return styled(state.group.name), styled(state.state, colour), styled(state.sentence)


def _age(moment: float | None, now: float) -> str:
    return "never" if moment is None else ago(moment, now)


@click.command(name="drift")
@output_option
@zookeeper_options
def drift(connection: Servers, output: str) -> None:
    """Show checks that monitoring systems run in other configurations than the deployed ones.

    Such results are dropped. Differences that were not reported for an hour are left out.

    \b
    Example:
      zkdeployment checks drift
      zkdeployment checks drift -o json
    """
    now = time.time()
    with open_checks(connection) as checks:
        found = checks.drift(now)
    if output != "table":
        emit({"drift": [entry.to_json() for entry in found]}, output, schema="check-drift")
    elif found:
        headings = ("ID", "MONITORING", "CHECK", "HOST", "RUNS", "EXPECTED", "SINCE")
        rows = (_drift_cells(entry, now) for entry in found)
        console_for(stderr=False).print(ResponsiveTable(headings, rows, whole=("ID",)), soft_wrap=True)
    else:
        echo("no drift: monitoring systems report only what is deployed there", err=True)


@act_verb(AbandonSystem, "abandon", open_checks)
@click.option("--system", metavar="NAME", required=True, help="The monitoring system that is gone.")
@output_option
def abandon(planned: AbandonSystem, ended: tuple[CheckInstance, ...], output: str) -> None:
    """End the checks of a monitoring system that is gone, and that cannot remove them any more.

    The check instances become deprovisioned, so that their successors on other monitoring systems start. The exit
    code is 3 while published checks name the system, or if it has no instances.

    \b
    Example:
      zkdeployment checks abandon --system nagios1 --reason 'the machine was scrapped'
    """
    if output != "table":
        emit(
            {"instances": [instance_view(found, None).to_json() for found in ended]},
            output,
            schema="check-instances",
        )
    else:
        echo(f"abandoned {planned.system}; ended check instances: {len(ended)}")


@act_verb(AllowRemoval, "allow-removal", open_checks)
@click.option("--system", metavar="NAME", required=True, help="The monitoring system.")
@output_option
def allow_removal(planned: AllowRemoval, allowed: Mapping[str, Any], output: str) -> None:
    """Let the bridge of a monitoring system remove many checks that the service does not know, for an hour.

    A bridge refuses to remove more than 30 % of its checks unless the service asks for it.

    \b
    Example:
      zkdeployment checks allow-removal --system nagios1 --reason 'these files are from an old backup'
    """
    if output != "table":
        emit(allowed, output, schema="allowed-removal")
    else:
        echo(f"{planned.system} may remove unknown checks within the next hour")


def _drift_cells(entry: CheckDrift, now: float) -> tuple[Text | str, ...]:
    instance = entry.instance
    return (
        entry.id,
        styled(entry.system),
        styled("-" if instance is None else f"{instance.key.check} of {instance.key.path} {instance.key.number}"),
        styled("-" if instance is None else host_name(instance)),
        styled(entry.reported or "-"),
        styled(entry.expected or "nothing"),
        ago(entry.since, now),
    )
