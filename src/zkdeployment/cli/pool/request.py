"""``zkdeployment session request``: leases nodes to a tenant, and shows how they are prepared."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.sessions import request_session
from zkdeployment.cli.pool.tenants import acting_operator, find_tenant, print_session, session_view
from zkdeployment.cli.pool.waiting import read_wait, request_and_wait
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.cli.shared.operator_options import new_act, reason_option
from zkdeployment.cli.shared.options import output_option, zookeeper_options
from zkdeployment.cli.shared.ssh_key_files import read_ssh_keys, ssh_key_option
from zkdeployment.errors import NotFoundError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.fleet.ages import age
from zkdeployment.pools.requests.properties import read_properties
from zkdeployment.pools.reservation import RequestProblem, RequestRefusal
from zkdeployment.pools.tenant_session import NodesSpec
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.text import Text

    from zkdeployment.acts.pools.sessions import SessionDetails
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.user import User
    from zkdeployment.pools.requests.properties import NodeProperty
    from zkdeployment.ports.pools import PoolAdapters

_SPEC = re.compile(r"(?P<pool>[^\s=]{1,255})=(?P<quantity>[1-9][0-9]{0,5})", re.ASCII)


def _read_specs(
    _context: click.Context, _argument: click.Parameter, given: tuple[str, ...]
) -> tuple[NodesSpec, ...]:
    """Return the parts of a request."""
    return tuple(map(_read_spec, given))


def _read_spec(text: str) -> NodesSpec:
    match = _SPEC.fullmatch(text)
    if match is None:
        raise click.BadParameter(
            f"expected POOL=N, a pool and a number of nodes above 0 such as metal-x86=2, found {text!a}"
        )
    return NodesSpec(match["pool"], int(match["quantity"]))


def _read_properties(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> tuple[NodeProperty, ...]:
    """Return the properties that all nodes of a request must have."""
    try:
        return read_properties(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(name="request")
@click.argument("specs", metavar="POOL=N...", nargs=-1, required=True, callback=_read_specs)
@click.option("--tenant", metavar="NAME", required=True, help="The user of the service who gets the nodes.")
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_read_properties,
    help="Only nodes with this property; or NAME>=NUMBER, NAME<=NUMBER. Repeat it for more properties.",
)
@click.option(
    "--wait",
    metavar="DURATION",
    callback=read_wait,
    help="Wait in the queue for nodes, at most this long: 30m; without it, the request is refused at once.",
)
@ssh_key_option("A public key that the nodes admit instead of the keys of the tenant.")
@reason_option(required=False)
@output_option
@zookeeper_options
def command(
    *,
    connection: Servers,
    specs: tuple[NodesSpec, ...],
    tenant: str,
    properties: tuple[NodeProperty, ...],
    wait: float | None,
    ssh_key_files: tuple[Path, ...],
    reason: str,
    output: str,
) -> None:
    """Lease nodes to a tenant: N nodes of each POOL, for the tenant's lifetime of sessions.

    With --property, all these nodes have the properties: values that the provisioning of nodes returned, those in
    their data, 'hostname', 'ipaddr' and 'host'.

    The command shows how the nodes are prepared, and ends with the ssh command of each node and the end of the
    session. If it is interrupted, the workers continue, and 'zkdeployment session list' shows the session. The
    exit code is 3 if the request is refused, because the tenant's quota or the ready nodes do not suffice, and 1
    if the nodes could not be prepared.

    With --wait, the request waits in a queue, and the command shows its place. The tenant with the smallest share
    of its quota comes first, except that a request that has waited for 10 minutes blocks its pools for later ones.
    If the command is interrupted, the request goes on waiting: 'zkdeployment session cancel' ends it. The exit
    code is 5 if the wait ends without a session.

    \b
    Example:
      zkdeployment session request metal-x86=2 --tenant ci
      zkdeployment session request metal-x86=1 fleet-web=2 --tenant ci -o json
      zkdeployment session request metal-x86=1 --tenant ci --ssh-key job-4711.pub
      zkdeployment session request metal-x86=1 --tenant ci --property arch=x86_64 --property 'memory>=16'
      zkdeployment session request metal-x86=4 --tenant ci --wait 30m
    """
    ssh_key = read_ssh_keys(ssh_key_files)
    specs = tuple(replace(spec, properties=properties) for spec in specs)
    with open_pools(connection) as adapters:
        user = find_tenant(adapters.users, tenant)
        given = (
            _request_now(user, specs, adapters, ssh_key)
            if wait is None
            else request_and_wait(user, specs, adapters, wait=wait, ssh_key=ssh_key)
        )
        if isinstance(given, RequestRefusal):
            raise _error(given)
        requested = ", ".join(map(str, specs))
        adapters.acts.record(new_act(f"request session {given.session.id} for {user} ({requested})", reason))
        print_session(session_view(given, [user]), output)


def _request_now(
    user: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters, ssh_key: str | None
) -> SessionDetails | RequestRefusal:
    """Request nodes that are ready, and show how they are prepared."""
    with live_display(console_for(stderr=True), _changes, _render) as show:
        return request_session(
            user,
            specs,
            adapters,
            by=acting_operator().by,
            ssh_key=ssh_key,
            progress=lambda details: show(details, ""),
        )


def _error(refusal: RequestRefusal) -> ZkdeploymentError:
    """Return the error with the exit code of a refused request."""
    match refusal.problem:
        case RequestProblem.NOT_PREPARED:
            return ZkdeploymentError(refusal.message)
        case RequestProblem.NO_POOL:
            return NotFoundError(refusal.message)
        case RequestProblem.NOT_SERVED:
            return WaitTimeoutError(refusal.message)
    return RefusedError(refusal.message)


def _changes(before: SessionDetails | None, details: SessionDetails) -> Iterator[str]:
    if before is None:
        yield _progress(details)


def _render(details: SessionDetails, _problem: str) -> Text:
    begun = details.session.created_at
    return styled(f"{_progress(details)}, for {age(time.time() - begun)}")


def _progress(details: SessionDetails) -> str:
    names = ", ".join(node.hostname or str(node.id) for node in details.nodes)
    return f"session {details.session.id}: a worker prepares {names}"
