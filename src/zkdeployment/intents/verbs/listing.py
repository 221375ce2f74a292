"""``zkdeployment intent list``, ``show``, ``instances``, ``history`` and ``status``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from zkdeployment.base.cluster import short
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.intents.documents import DeploymentIntentGroup, IntentState, IntentSubject, subject_text
from zkdeployment.intents.rules.governance import idle_paths
from zkdeployment.intents.rules.instances import InstanceHistory, IntentRecord, instances_body, intent_history
from zkdeployment.intents.rules.reality import FleetReports, ReportedHosts
from zkdeployment.intents.rules.resources import StatusOutput, StatusQuery, read_query, require_apps, status_body
from zkdeployment.intents.store import ZooKeeperIntents
from zkdeployment.intents.verbs.reading import (
    read_listed_intent,
    read_listed_intents,
    reports_of_instance,
    subject_argument,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text

    from zkdeployment.intents.rules.listing import ListedIntent
    from zkdeployment.zookeeper.servers import Servers


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
        listed = read_listed_intents(operator)
    if output != "table":
        emit({"intents": [listed.to_json() for listed in listed]}, output, schema="intents")
        return
    if not listed:
        echo(_NO_INTENT, err=True)
        return
    counts = ("APPROVALS",) if any(listed.approvals for listed in listed) else ()
    table = ResponsiveTable(
        ("SUBJECT", "STATE", "AT THE TIP", "APPROVED BY", *counts, "INSTANCE"),
        (_listing_cells(listed, are_counted=bool(counts)) for listed in listed),
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
        listed = read_listed_intent(operator, subject)
    if output != "table":
        emit(listed.to_json(), output, schema="intent")
        return
    echo(subject_text(subject))
    for name, value in _facts(listed):
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
        record = operator.of(ZooKeeperIntents).require(subject)
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


def _listing_cells(listed: ListedIntent, *, are_counted: bool) -> tuple[str, ...]:
    counts = ", ".join(f"{len(count.approvers)} of {count.needed}" for count in listed.approvals)
    return (
        subject_text(listed.intent.subject),
        _state(listed.published_state),
        "" if listed.tip_state in {None, listed.published_state} else _state(listed.tip_state),
        "-" if listed.approval is None else listed.approval.by,
        *((counts or "-",) if are_counted else ()),
        "-" if listed.instance is None else str(listed.instance.id),
    )


def _state(state: IntentState | None) -> str:
    return "-" if state is None else state.value


def _facts(listed: ListedIntent) -> Iterator[tuple[str, str]]:
    """Yield the names and values in the table of an intent."""
    intent, instance = listed.intent, listed.instance
    yield "published", "never" if listed.published_state is None else listed.published_state.value
    if listed.tip_state is not None:
        yield "at the tip", listed.tip_state.value
    yield "content", listed.snapshot.content.digest
    if isinstance(intent, DeploymentIntentGroup):
        yield "approval", _approval(listed)
        for count in listed.approvals:
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
    if idle := idle_paths(intent, listed.snapshot.content.nodes):
        yield "no service", f"{', '.join(idle)}: nothing is governed there"
    if instance is not None:
        ended = "" if instance.terminated is None else f", terminated {_when(instance.terminated)}"
        yield "instance", f"{instance.id}, instantiated {_when(instance.instantiated)} by {instance.by}{ended}"


def _approval(listed: ListedIntent) -> str:
    approval = listed.approval
    if approval is None:
        return "none"
    is_present = approval.content == listed.snapshot.content.digest
    of_what = "of this content" if is_present else f"of another content, {approval.content}"
    lack = ", does not suffice" if is_present and not listed.snapshot.is_approved else ""
    reason = f": {approval.reason}" if approval.reason else ""
    return f"{of_what}, by {approval.by}{'' if approval.signature is None else ', signed'}{lack}{reason}"


def _when(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@click.command(name="history")
@subject_argument
@output_option
@zookeeper_options
def history(connection: Servers, subject: IntentSubject, output: str) -> None:
    """Show who approved what ran: the instances of an intent with their events, the newest first.

    Each event names the revision, the author of its commit, and who approved the content; with approvers, that is
    the verified owner of the signing key. The history stays when the document is removed or renamed: ask for the
    former subject. The last 20 instances are kept. The exit code is 3 if there is no such intent.

    \b
    Example:
      zkdeployment intent history p1/store/v1/shop
      zkdeployment intent history p1/store/v1/shop -o json
    """
    with open_operator(connection) as operator:
        instances = intent_history(
            subject, operator.of(ZooKeeperIntents).record(subject), operator.of(ZooKeeperIntents).former(subject)
        )
    if output != "table":
        body = {"subject": subject_text(subject), "instances": [one.to_json() for one in instances]}
        emit(body, output, schema="intent-history")
        return
    if not instances:
        echo(f"{subject_text(subject)} was never instantiated", err=True)
        return
    columns = ("INSTANCE", "EVENT", "AT", "REVISION", "BY", "APPROVED BY", "REASON")
    table = ResponsiveTable(columns, _rows(instances), whole=("INSTANCE", "EVENT"), numbers=("INSTANCE",))
    console_for(stderr=False).print(table, soft_wrap=True)


def _rows(instances: Iterable[InstanceHistory]) -> Iterator[tuple[str | Text, ...]]:
    for instance in instances:
        for event in reversed(instance.events):
            approver = event.approved_by or "-"
            yield (
                str(instance.id),
                event.kind.value,
                time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time)),
                short(event.revision),
                styled(event.by),
                styled(f"{approver} (verified)" if event.is_verified else approver),
                styled(event.reason),
            )


#: The value of ``--instance`` without an id, which stands for the list of instances.
_LIST = ""

_COLOURS = {
    "Applied": "green",
    "Failed": "red",
    "Retrying": "yellow",
    "Pending": "cyan",
    "Present": "green",
    "NotPresent": "",
    "Unknown": "magenta",
    "Terminated": "",
}


@click.command(name="status")
@subject_argument
@click.option(
    "--output",
    "detail",
    metavar="summary|all|detail|rsync",
    multiple=True,
    help="How much to show: the counts, the resources (default), their details, or only what is wanted.",
)
@click.option("--app", "apps", metavar="APP", multiple=True, help="Only this app. May be repeated.")
@click.option(
    "--cluster",
    "clusters",
    metavar="CLUSTER",
    multiple=True,
    help="Only this target, by its name or as PROVIDER+NAME. May be repeated.",
)
@click.option(
    "--resource",
    "resources",
    metavar="RESOURCE",
    multiple=True,
    help="Only these: a name, path or pattern. May be repeated.",
)
@click.option(
    "--instance",
    "instances",
    metavar="[ID]",
    is_flag=False,
    flag_value=_LIST,
    multiple=True,
    help="An earlier instance; without ID the list of all instances.",
)
@click.option(
    "-o",
    "form",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="The format: a table for people, JSON or YAML for programs.",
)
@zookeeper_options
def status(connection: Servers, subject: IntentSubject, form: str, **filters: tuple[str, ...]) -> None:
    """Show the state of an intent, and the statuses of its resources.

    A resource is one deployment on one host, HOST:PATH.N. --resource takes such a name, the path of a service or
    of a node above it, or a pattern of either, with * for any text. The rsync-status is the last action on it, the
    cluster-status whether it exists on its host. Values of one filter are alternatives, and different filters
    combine. The counts follow the filters. The exit code is 2 for a malformed filter and for an app that the
    intent does not have, 3 if no publication has the intent or the instance.

    \b
    Example:
      zkdeployment intent status p1/store/v1/shop
      zkdeployment intent status p1/store/v1/shop --app front --cluster web-server --output detail -o json
      zkdeployment intent status p1/store/v1/shop --resource /p1/shop/front --resource 'h1:*'
      zkdeployment intent status p1/store/v1/shop --instance 12
    """
    names = {"detail": "output", "apps": "app", "clusters": "cluster", "resources": "resource"}
    parameters = {names.get(name, "instance"): values for name, values in filters.items()}
    query = read_query(parameters)
    with open_operator(connection) as operator:
        record = operator.of(ZooKeeperIntents).require(subject)
        require_apps(query, record.intent)
        body = status_body(record, query, _reports(operator, record, query))
    if "instances" in body:
        show_instances(body, subject, form)
    elif form != "table":
        emit(body, form)
    else:
        _show(body, subject, query)


def _reports(operator: OperatorAdapters, record: IntentRecord, query: StatusQuery) -> FleetReports:
    """Return the reports for the instance in a query; nothing is read if no instance needs them."""
    shown = record.instance(query.instance)
    if shown is None or (query.lists_instances and query.instance is None):
        return FleetReports(ReportedHosts(()))
    return reports_of_instance(operator, shown)


def _show(body: dict[str, Any], subject: IntentSubject, query: StatusQuery) -> None:
    counts = [
        f"{name}: {', '.join(f'{count} {status}' for status, count in body[name].items()) or 'no resources'}"
        for name in ("rsync-status", "cluster-status")
        if name in body
    ]
    shown = f"{subject_text(subject)} is {body['state']}"
    if query.instance is not None:
        shown += f"; its instance {query.instance}"
    echo(f"{shown}; {'; '.join(counts) or 'it was never instantiated'}")
    if not body.get("resources"):
        return
    more = {StatusOutput.DETAIL: ("PACKAGE", "ERROR OR STEP"), StatusOutput.RSYNC: ("PACKAGE",)}.get(
        query.output, ()
    )
    headings = ("APP", "CLUSTER", "RESOURCE", "KIND", "RSYNC", "EXISTS", *more)
    rows = [(app, cluster, *_status_cells(resource, len(more))) for app, cluster, resource in _resources(body)]
    table = ResponsiveTable(headings, rows, whole=("RESOURCE", "RSYNC", "EXISTS"), dispensable=("KIND", "EXISTS"))
    console_for(stderr=False).print(table, soft_wrap=True)


def _resources(body: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for app in body["resources"]:
        for cluster in app["clusters"]:
            for resource in cluster["resources"]:
                yield app["app-name"], cluster["name"], resource


def _status_cells(resource: dict[str, Any], more: int) -> tuple[Any, ...]:
    rsync, exists = resource.get("rsync-status", "-"), resource.get("cluster-status", "-")
    spec, status = resource.get("spec", {}), resource.get("status", {})
    package = " ".join(str(spec[key]) for key in ("package", "version") if spec.get(key)) or "-"
    details = (package, str(status.get("error") or status.get("step") or "-"))
    return (
        resource["Name"],
        resource["GVK"]["Kind"],
        styled(rsync, _COLOURS.get(rsync, "")),
        styled(exists, _COLOURS.get(exists, "")),
        *details[:more],
    )
