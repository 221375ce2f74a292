"""``zkdeployment services``: the services of the tree, and the version and state of each of their deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType

from zkdeployment.base.text import listing
from zkdeployment.cli.options import emit, node_path, output_option, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.fleet.operator import open_operator
from zkdeployment.fleet.views.instances import paths_of_services
from zkdeployment.fleet.views.services import (
    InstanceState,
    ServiceHost,
    ServicesStatus,
    ServiceStatus,
    require_services,
    services_status,
    withheld_below,
    withheld_sentences,
)
from zkdeployment.fleet.views.status import fleet_status
from zkdeployment.publishing.section import section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from zkdeployment.zookeeper.servers import Servers

_NOT_AS_WANTED = 4

#: The limit of instances and targets of a service that the table names.
_NAMED = 5

_COLOURS = {
    InstanceState.DEPLOYED: "green",
    InstanceState.PENDING: "cyan",
    InstanceState.UNKNOWN: "magenta",
    InstanceState.ABSENT: "magenta",
    InstanceState.MAINTENANCE: "blue",
}


@click.command(name="services")
@click.argument("path", default="", callback=node_path)
@output_option
@zookeeper_options
def command(connection: Servers, path: str, output: str) -> None:
    """Show the services at and below PATH: version wanted, hosts, and version and state of each deployment.

    Without PATH, all services are shown. A line names the services that are not deployed because of the state of
    their intents. The state of a deployment is known from the inventory that its host reports. The exit code is 0
    if all deployments are as wanted and no instance is down, else 4; 3 if there is no service at PATH.

    \b
    Example:
      zkdeployment services
      zkdeployment services /shop/web -o json
    """
    above = "/".join(["", *filter(None, path.split("/"))])
    with open_operator(connection) as operator:
        snapshot, known = operator.fleet.snapshot(), operator.fleet.known_hosts()
        targets = operator.fleet.targets()
        providers = operator.tree.providers(paths_of_services(targets, above))
        withheld = withheld_below(operator.fleet.withheld(), above)
        sentences = (
            [*withheld_sentences(withheld, section().records(operator.session), operator.fleet.left())]
            if withheld
            else []
        )
    for sentence in sentences:
        echo(sentence, err=True)
    status = fleet_status(snapshot)
    found = services_status(status, snapshot, targets, known, providers, path=above)
    require_services(found, above, withheld)
    if output != "table":
        emit(found.to_json(), output, schema="services")
    elif found.services:
        console_for(stderr=False).print(_render(found), soft_wrap=True)
    else:
        echo("no service is deployed anywhere", err=True)
    is_good = found.as_wanted and not any(service.down.count for service in found.services)
    raise click.exceptions.Exit(0 if is_good else _NOT_AS_WANTED)


def _render(status: ServicesStatus) -> RenderableType:
    parts: list[RenderableType] = []
    for service in status.services:
        parts += [styled(_title(service), "bold"), *_details(service), styled("")]
    return Group(*parts[:-1])


def _title(service: ServiceStatus) -> str:
    counts = ", ".join(f"{count} {state.value}" for state in InstanceState if (count := service.count(state)))
    version = "" if service.version is None else f" {service.version}"
    state = ", ".join(filter(None, (str(service.down), counts)))
    return f"{service.path}: {service.package}{version}; {state or 'on no known host'}"


def _details(service: ServiceStatus) -> Iterator[RenderableType]:
    if service.unmatched:
        yield styled(f"targets that match no known host: {listing(service.unmatched, _NAMED)}", "red")
    if service.providers is not None:
        names = listing(sorted(service.providers), _NAMED)
        registered = f"instances registered: {len(service.providers)} of {service.wanted}"
        yield styled(f"{registered}{f' ({names})' if names else ''}", "red" if service.down.count else "")
    if service.down.count:
        yield styled(service.down.sentence, "red")
    if service.hosts:
        headings = ("HOST", "ID", "NUMBER", "VERSION", "STATE", "HOST STATE")
        rows = (row for host in service.hosts for row in _rows(host))
        yield ResponsiveTable(headings, rows, whole=("HOST", "STATE"), numbers=("NUMBER",))


def _rows(host: ServiceHost) -> Iterator[tuple[Text | str, ...]]:
    for deployment in host.deployments:
        state = styled(deployment.state.value, _COLOURS.get(deployment.state, "red"))
        number, version = str(deployment.number), deployment.version or "-"
        yield host.name, host.id, number, version, state, host.state.value
