"""``zkdeployment session list`` and ``show``: what tenants have leased, and until when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.sessions import find_session
from zkdeployment.acts.pools.waiting import find_request, waiting_requests
from zkdeployment.cli.pool.tenants import acting_operator, print_session, session_view, tenant_names
from zkdeployment.cli.pool.waiting import describe_request, print_waiting
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.fleet.ages import age, ago
from zkdeployment.pools.node import NodeState
from zkdeployment.pools.overview import session_overviews
from zkdeployment.pools.overview_json import sessions_to_json
from zkdeployment.pools.requests.queue_json import request_place_to_json
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from rich.text import Text

    from zkdeployment.model.servers import Servers
    from zkdeployment.pools.overview import SessionOverview

#: Seconds before its end from which a session is marked.
_SOON = 1800.0


@click.command(name="list")
@click.option("--tenant", metavar="NAME", help="Only the sessions of this tenant.")
@output_option
@zookeeper_options
def list_sessions(connection: Servers, tenant: str | None, output: str) -> None:
    """Show the active sessions of all tenants, when they end, and the requests that wait for nodes.

    \b
    Example:
      zkdeployment session list
      zkdeployment session list --tenant ci -o json
    """
    with open_pools(connection) as adapters:
        read, users = adapters.store.read(), adapters.users.users()
        waiting = waiting_requests(adapters, acting_operator())
    names = tenant_names(users)
    places = [place for place in waiting if tenant in {None, names.get(place.request.tenant)}]
    views = session_overviews(read.sessions.values(), read, names)
    shown = [view for view in views if tenant in {None, view.tenant}]
    if output != "table":
        queue = [
            request_place_to_json(place.request, place, names.get(place.request.tenant, "")) for place in places
        ]
        emit({**sessions_to_json(shown), "waiting": [*queue]}, output, schema="sessions")
        return
    if shown:
        now = time.time()
        table = ResponsiveTable(
            ("ID", "TENANT", "NODES", "HOSTNAMES", "BEGAN", "ENDS IN"),
            (_cells(view, now) for view in shown),
            whole=("TENANT", "ENDS IN"),
            numbers=("ID",),
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("there is no active session", err=True)
    if places:
        print_waiting(places, names)


@click.command(name="show")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@output_option
@zookeeper_options
def show(connection: Servers, number: int, output: str) -> None:
    """Show a session with the ssh command of each node; also one that has ended, for a year.

    For a request that waits, show its place in the queue; for one whose wait ended within the last hour, show why.

    The exit code is 3 if there is no such session.

    \b
    Example:
      zkdeployment session show 17
      zkdeployment session show 17 -o json
    """
    with open_pools(connection) as adapters:
        users, waiting = adapters.users.users(), adapters.store.waiting(number)
        found = None if waiting is None else find_request(number, adapters, acting_operator())
        if found is None or found.request is None:
            details = find_session(number, adapters, acting_operator())
            print_session(session_view(details, users), output)
            return
    tenant = tenant_names(users).get(found.request.tenant, str(found.request.tenant))
    if output == "table":
        echo(describe_request(found.request, found.place, tenant))
    else:
        emit(request_place_to_json(found.request, found.place, tenant), output, schema="waiting-request")


def _cells(view: SessionOverview, now: float) -> tuple[Text | str, ...]:
    session, left = view.session, view.session.expires_at - now
    preparing = any(state is NodeState.CONTEXTUALIZING for state in view.states.values())
    return (
        str(session.id),
        view.tenant,
        ", ".join(map(str, session.specs)),
        ", ".join(node.hostname or str(node.id) for node in session.leased),
        "being prepared" if preparing else ago(session.created_at, now),
        styled(age(left) if left > 0 else "expired", "yellow" if left < _SOON else ""),
    )
