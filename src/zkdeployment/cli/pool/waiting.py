"""Requests that wait: ``zkdeployment session cancel``, and how other verbs follow and show waiting requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.acts.pools.waiting import await_request, cancel_request, queue_request
from zkdeployment.cli.pool.tenants import acting_operator
from zkdeployment.cli.shared.console import console_for, styled
from zkdeployment.cli.shared.live_display import live_display
from zkdeployment.cli.shared.options import zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.documents.durations import duration_seconds
from zkdeployment.fleet.ages import age, ago
from zkdeployment.pools.requests.waiting_request import LONGEST_WAIT, SHORTEST_WAIT
from zkdeployment.pools.reservation import RequestRefusal
from zkdeployment.wiring.leasing import open_pools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.text import Text

    from zkdeployment.acts.pools.sessions import SessionDetails
    from zkdeployment.acts.pools.waiting import QueuedRequest
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.user import User
    from zkdeployment.pools.requests.queue import RequestPlace
    from zkdeployment.pools.requests.waiting_request import WaitingRequest
    from zkdeployment.pools.tenant_session import NodesSpec
    from zkdeployment.ports.pools import PoolAdapters


def read_wait(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the seconds that a request may wait."""
    seconds = None if given is None else duration_seconds(given)
    if given is not None and (seconds is None or not SHORTEST_WAIT <= seconds <= LONGEST_WAIT):
        raise click.BadParameter(f"expected a duration from 1s to 7d such as 30m, found {given!a}")
    return seconds


@click.command(name="cancel")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@zookeeper_options
def cancel(connection: Servers, number: int) -> None:
    """Take a request out of the queue: it waits for nodes no more, and nothing is reserved.

    The exit code is 3 if there is no such request, or if it has ended or has its nodes.

    \b
    Example:
      zkdeployment session cancel 17
    """
    with open_pools(connection) as adapters:
        cancel_request(number, adapters, acting_operator())
    echo(f"cancelled request {number}")


def request_and_wait(
    tenant: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters, *, wait: float, ssh_key: str | None
) -> SessionDetails | RequestRefusal:
    """Put a request into the queue and follow it; return the session, or why the request ended."""
    actor = acting_operator()
    queued = queue_request(tenant, specs, adapters, wait=wait, by=actor.by, ssh_key=ssh_key)
    if isinstance(queued, RequestRefusal):
        return queued
    with live_display(console_for(stderr=True), _changes, _render) as show:
        return await_request(queued.id, adapters, actor, lambda found: show(found, ""))


def print_waiting(places: Iterable[RequestPlace], tenants: Mapping[int, str]) -> None:
    """Print a table of the requests that wait, in the order of the queue."""
    now = time.time()
    table = ResponsiveTable(
        ("ID", "TENANT", "NODES", "WAITS SINCE", "UNTIL IN", "STATE"),
        (
            (
                str(place.request.id),
                tenants.get(place.request.tenant, str(place.request.tenant)),
                ", ".join(map(str, place.request.specs)),
                ago(place.request.created_at, now),
                age(place.request.expires_at - now),
                str(place),
            )
            for place in places
        ),
        whole=("TENANT", "UNTIL IN"),
        numbers=("ID",),
    )
    console_for(stderr=False).print(table, soft_wrap=True)


def describe_request(request: WaitingRequest, place: RequestPlace | None, tenant: str) -> str:
    """Return what a request waits for, since when and until when, or why its wait ended."""
    now = time.time()
    if request.ended_at is not None:
        return f"request {request.id} of {tenant} ended {ago(request.ended_at, now)}: {request.outcome}"
    left = age(request.expires_at - now)
    return (
        f"request {request.id} of {tenant}: {place or 'waiting'}; for {age(now - request.created_at)}, {left} left"
    )


def _changes(before: QueuedRequest | None, found: QueuedRequest) -> Iterator[str]:
    if before is None or _progress(before) != _progress(found):
        yield _progress(found)


def _render(found: QueuedRequest, _problem: str) -> Text:
    since = found.request.created_at if found.request is not None else None
    return styled(_progress(found) + ("" if since is None else f"; for {age(time.time() - since)}"))


def _progress(found: QueuedRequest) -> str:
    if found.session is not None:
        names = ", ".join(node.hostname or str(node.id) for node in found.session.nodes)
        return f"session {found.session.session.id}: a worker prepares {names}"
    number = 0 if found.request is None else found.request.id
    return f"request {number}: {found.place or 'waiting'}"
