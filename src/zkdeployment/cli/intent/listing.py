"""``zkdeployment intent list``, ``show`` and ``instances``: intents with their states, approvals and instances."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.intent.reading import read_overview, read_overviews, require_record, subject_argument
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import DeploymentIntentGroup, subject_text
from zkdeployment.intents.instances import instances_body
from zkdeployment.planning.targets.coverage import idle_paths
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.intents.values import IntentState, IntentSubject
    from zkdeployment.intents.overview import IntentOverview
    from zkdeployment.model.servers import Servers

_NO_INTENT = (
    "there is no intent: expected documents of the schema zkdeployment/DeploymentIntentGroup/v1 or .../Cluster/v1"
)


@click.command(name="list")
@output_option
@zookeeper_options
def list_intents(connection: Servers, output: str) -> None:
    """List all intents: the state in the last publication, and at the tip of the branch.

    The tip is read if the configuration names a repository; only a state that differs is shown. An approved group
    whose content changed is Created again. Where the configuration names approval-rules, APPROVALS has the
    approvals of the present content and the number that each rule needs.

    \b
    Example:
      zkdeployment intent list
      zkdeployment intent list -o json
    """
    with open_operator(connection) as operator:
        overviews = read_overviews(operator)
    if output != "table":
        emit({"intents": [overview.to_json() for overview in overviews]}, output, schema="intents")
        return
    if not overviews:
        echo(_NO_INTENT, err=True)
        return
    counts = ("APPROVALS",) if any(overview.approvals for overview in overviews) else ()
    table = ResponsiveTable(
        ("SUBJECT", "STATE", "AT THE TIP", "APPROVED BY", *counts, "INSTANCE"),
        (_cells(overview, are_counted=bool(counts)) for overview in overviews),
        whole=("SUBJECT", "STATE", "AT THE TIP"),
        numbers=("INSTANCE",),
        dispensable=("AT THE TIP",),
    )
    console_for(stderr=False).print(table, soft_wrap=True)


@click.command(name="show")
@subject_argument
@output_option
@zookeeper_options
def show(connection: Servers, subject: IntentSubject, output: str) -> None:
    """Show an intent: its state, its approval, what it governs, and its newest instance.

    The document is that at the tip of the branch, if the configuration names a repository, else the published one.
    Where the configuration names approval-rules, the approvals of the present content are counted: how many there
    are, whose are missing, and when they expire. The exit code is 3 if there is no such intent.

    \b
    Example:
      zkdeployment intent show p1/store/v1/shop
      zkdeployment intent show ams/web-server -o yaml
    """
    with open_operator(connection) as operator:
        overview = read_overview(operator, subject)
    if output != "table":
        emit(overview.to_json(), output, schema="intent")
        return
    echo(subject_text(subject))
    for name, value in _facts(overview):
        echo(f"  {name:14} {value}")


@click.command(name="instances")
@subject_argument
@output_option
@zookeeper_options
def instances(connection: Servers, subject: IntentSubject, output: str) -> None:
    """List the instances of an intent, the newest first: when each was instantiated and terminated, and by whom.

    The id of an instance is the sequence of the publication that instantiated it. The last 20 instances are kept.
    The exit code is 3 if no publication has the intent.

    \b
    Example:
      zkdeployment intent instances p1/store/v1/shop
      zkdeployment intent status p1/store/v1/shop --instance 12
    """
    with open_operator(connection) as operator:
        record = require_record(operator, subject)
    show_instances(instances_body(record.instances), subject, output)


def show_instances(body: dict[str, list[dict[str, object]]], subject: IntentSubject, output: str) -> None:
    """Print a list of instances."""
    if output != "table":
        emit(body, output)
        return
    if not body["instances"]:
        echo(f"{subject_text(subject)} was never instantiated", err=True)
        return
    rows = [
        (
            str(instance["id"]),
            _when(instance["instantiated"]),
            _when(instance["terminated"]),
            styled(str(instance["by"])),
        )
        for instance in body["instances"]
    ]
    table = ResponsiveTable(("ID", "INSTANTIATED", "TERMINATED", "BY"), rows, whole=("ID",), numbers=("ID",))
    console_for(stderr=False).print(table, soft_wrap=True)


def _cells(overview: IntentOverview, *, are_counted: bool) -> tuple[str, ...]:
    counts = ", ".join(f"{len(count.approvers)} of {count.needed}" for count in overview.approvals)
    return (
        subject_text(overview.intent.subject),
        _state(overview.published_state),
        "" if overview.tip_state in {None, overview.published_state} else _state(overview.tip_state),
        "-" if overview.approval is None else overview.approval.by,
        *((counts or "-",) if are_counted else ()),
        "-" if overview.instance is None else str(overview.instance.id),
    )


def _state(state: IntentState | None) -> str:
    return "-" if state is None else state.value


def _facts(overview: IntentOverview) -> Iterator[tuple[str, str]]:
    """Yield the names and values of what a table shows of an intent."""
    intent, instance = overview.intent, overview.instance
    yield "published", "never" if overview.published_state is None else overview.published_state.value
    if overview.tip_state is not None:
        yield "at the tip", overview.tip_state.value
    yield "content", overview.snapshot.content.digest
    if isinstance(intent, DeploymentIntentGroup):
        yield "approval", _approval(overview)
        for count in overview.approvals:
            until = "" if count.expires is None else f"; counts until {_when(count.expires)}"
            yield "approvals", f"{count}{until}"
        yield "profile", intent.composite_profile
        yield "update", intent.update.value
        yield "fleet-stop", intent.fleet_stop.value
    for name, paths in sorted(intent.apps.items()):
        yield (
            "app" if isinstance(intent, DeploymentIntentGroup) else "network intent",
            f"{name}: {', '.join(paths)}",
        )
    if idle := idle_paths(intent, overview.snapshot.content.nodes):
        yield "no service", f"{', '.join(idle)}: nothing is governed there"
    if instance is not None:
        ended = "" if instance.terminated is None else f", terminated {_when(instance.terminated)}"
        yield "instance", f"{instance.id}, instantiated {_when(instance.instantiated)} by {instance.by}{ended}"


def _approval(overview: IntentOverview) -> str:
    approval = overview.approval
    if approval is None:
        return "none"
    of_what = "of this content" if overview.snapshot.is_approved else f"of another content, {approval.content}"
    reason = f": {approval.reason}" if approval.reason else ""
    return f"{of_what}, by {approval.by}{'' if approval.signature is None else ', signed'}{reason}"


def _when(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
