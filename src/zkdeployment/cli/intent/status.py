"""``zkdeployment intent status``: the resources of an intent, with the keys of EMCO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zkdeployment.cli.intent.listing import show_instances
from zkdeployment.cli.intent.reading import read_reports, require_record, subject_argument
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.intents.values import subject_text
from zkdeployment.intents.reality import FleetReports, ReportedHosts
from zkdeployment.intents.status_body import status_body
from zkdeployment.intents.status_query import StatusOutput, read_query, require_apps
from zkdeployment.wiring.operator import open_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.intents.status_query import StatusQuery
    from zkdeployment.model.servers import Servers
    from zkdeployment.ports.operator import OperatorAdapters

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
def command(connection: Servers, subject: IntentSubject, form: str, **filters: tuple[str, ...]) -> None:
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
        record = require_record(operator, subject)
        require_apps(query, record.intent)
        body = status_body(record, query, _reports(operator, record, query))
    if "instances" in body:
        show_instances(body, subject, form)
    elif form != "table":
        emit(body, form)
    else:
        _show(body, subject, query)


def _reports(operator: OperatorAdapters, record: IntentRecord, query: StatusQuery) -> FleetReports:
    """Return the reports for the instance that a query shows; nothing is read if no instance needs them."""
    shown = [
        instance
        for instance in record.instances
        if instance.id == query.instance or (query.instance is None and instance is record.instances[-1])
    ]
    if not shown or (query.lists_instances and query.instance is None):
        return FleetReports(ReportedHosts(()))
    return read_reports(operator, shown[0])


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
    rows = [(app, cluster, *_cells(resource, len(more))) for app, cluster, resource in _resources(body)]
    table = ResponsiveTable(headings, rows, whole=("RESOURCE", "RSYNC", "EXISTS"), dispensable=("KIND", "EXISTS"))
    console_for(stderr=False).print(table, soft_wrap=True)


def _resources(body: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for app in body["resources"]:
        for cluster in app["clusters"]:
            for resource in cluster["resources"]:
                yield app["app-name"], cluster["name"], resource


def _cells(resource: dict[str, Any], more: int) -> tuple[Any, ...]:
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
