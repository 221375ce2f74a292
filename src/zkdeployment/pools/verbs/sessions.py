"""``zkdeployment session request``, ``list``, ``show``, ``extend``, ``retire`` and ``history``."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import click

from zkdeployment.base.durations import age, ago, duration_seconds, signed_duration
from zkdeployment.base.errors import NotFoundError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.cli.operator_options import new_act, read_ssh_keys, reason_option, ssh_key_option
from zkdeployment.cli.options import emit, output_option, past_time, zookeeper_options
from zkdeployment.cli.tables import ResponsiveTable, console_for, live_display, styled
from zkdeployment.cli.terminal import echo
from zkdeployment.pools.acts.sessions import (
    QueuedRequest,
    SessionActor,
    SessionDetails,
    await_request,
    cancel_request,
    extend_session,
    find_request,
    find_session,
    queue_request,
    request_session,
    retire_session,
    waiting_requests,
)
from zkdeployment.pools.opening import PoolAdapters, open_pools
from zkdeployment.pools.rules.listing import (
    SessionView,
    session_view_to_json,
    session_views,
    ssh_command,
)
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.queue import RequestPlace, RequestProblem, RequestRefusal, request_place_to_json
from zkdeployment.pools.rules.snapshot import (
    LONGEST_WAIT,
    SHORTEST_WAIT,
    NodeProperty,
    NodesSpec,
    PoolSnapshot,
    SessionRequest,
    read_properties,
)
from zkdeployment.pools.rules.usage import LeaseFilter, NodeLease, lease_history
from zkdeployment.service.users.user import Right, User

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.text import Text

    from zkdeployment.service.users.user_store import ZooKeeperUserReader
    from zkdeployment.zookeeper.servers import Servers


def tenant_names(users: Sequence[User]) -> dict[int, str]:
    """Return the names of users by id."""
    return {user.id: user.name for user in users}


def find_tenant(users: ZooKeeperUserReader, name: str) -> User:
    """Return the tenant with a name; raises ``NotFoundError`` with the existing tenants."""
    found = users.user(name)
    if found is None or not (found.is_retired or found.may(Right.LEASE_NODES)):
        names = [user.name for user in users.users() if user.may(Right.LEASE_NODES)]
        known = f"the tenants are: {', '.join(names)}" if names else "no user is a tenant"
        raise NotFoundError(
            f"there is no tenant {name!a}; {known};"
            " 'zkdeployment user add NAME --role tenant --ssh-key FILE' adds one"
        )
    return found


def acting_operator() -> SessionActor:
    """Return the present user of this machine as an actor who may change the sessions of all tenants."""
    return SessionActor(new_act("", "").by)


def session_view(details: SessionDetails, users: Sequence[User]) -> SessionView:
    """Return a session with the name of its tenant."""
    read = PoolSnapshot({node.id: node for node in details.nodes})
    (view,) = session_views([details.session], read, tenant_names(users))
    return view


def print_session(view: SessionView, output: str) -> None:
    """Print a session with its ssh commands, its end, and the commands that extend and retire it."""
    if output != "table":
        emit(session_view_to_json(view), output, schema="session")
        return
    session, now = view.session, time.time()
    if session.retired_at is not None:
        by = "it expired" if session.retired_by is None else f"retired by {session.retired_by}"
        echo(f"session {session.id} of {view.tenant} ended {ago(session.retired_at, now)}: {by}")
    else:
        left = age(session.expires_at - now)
        echo(f"session {session.id} of {view.tenant}, until {moment(session.expires_at)} (in {left})")
    commands = {node.id: ssh_command(node) if node.id in view.states else "" for node in session.leased}
    width = max(map(len, commands.values()), default=0)
    for node in session.leased:
        state = view.states.get(node.id)
        label = f"left the session ({node.ipaddr})" if state is None else state.value
        echo(f"  {commands[node.id]:{width}}  # node {node.id}, {node.pool}, {node.hostname}: {label}")
    if session.is_active:
        echo(f"extend: zkdeployment session extend {session.id} --by 1h")
        echo(f"retire: zkdeployment session retire {session.id}")


def moment(seconds: float) -> str:
    """Return a time in seconds since the epoch as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


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
    with live_display(console_for(stderr=True), _waiting_changes, _render_waiting) as show:
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


def describe_request(request: SessionRequest, place: RequestPlace | None, tenant: str) -> str:
    """Return a sentence with the obstacle, the beginning and the limit of a wait, or why the wait ended."""
    now = time.time()
    if request.ended_at is not None:
        return f"request {request.id} of {tenant} ended {ago(request.ended_at, now)}: {request.outcome}"
    left = age(request.expires_at - now)
    return (
        f"request {request.id} of {tenant}: {place or 'waiting'}; for {age(now - request.created_at)}, {left} left"
    )


def _waiting_changes(before: QueuedRequest | None, found: QueuedRequest) -> Iterator[str]:
    if before is None or _waiting_progress(before) != _waiting_progress(found):
        yield _waiting_progress(found)


def _render_waiting(found: QueuedRequest, _problem: str) -> Text:
    since = found.request.created_at if found.request is not None else None
    return styled(_waiting_progress(found) + ("" if since is None else f"; for {age(time.time() - since)}"))


def _waiting_progress(found: QueuedRequest) -> str:
    if found.session is not None:
        names = ", ".join(node.hostname or str(node.id) for node in found.session.nodes)
        return f"session {found.session.session.id}: a worker prepares {names}"
    number = 0 if found.request is None else found.request.id
    return f"request {number}: {found.place or 'waiting'}"


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
def request(
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
    views = session_views(read.sessions.values(), read, names)
    shown = [view for view in views if tenant in {None, view.tenant}]
    if output != "table":
        queue = [
            request_place_to_json(place.request, place, names.get(place.request.tenant, "")) for place in places
        ]
        body = {"sessions": [*map(session_view_to_json, shown)], "waiting": [*queue]}
        emit(body, output, schema="sessions")
        return
    if shown:
        now = time.time()
        table = ResponsiveTable(
            ("ID", "TENANT", "NODES", "HOSTNAMES", "BEGAN", "ENDS IN"),
            (_session_cells(view, now) for view in shown),
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


def _session_cells(view: SessionView, now: float) -> tuple[Text | str, ...]:
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


def _read_delta(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the seconds of a duration with an optional sign."""
    if given is None:
        return None
    seconds = signed_duration(given if given.startswith(("-", "+")) else f"+{given}")
    if seconds is None:
        raise click.BadParameter(f"expected a duration such as 2h, 1h30m or -30m, found {given!a}")
    return seconds


def _read_moment(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Parse a time, in its own or the local time zone, to seconds since the epoch."""
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"expected a time such as 2027-01-31T18:00, found {given!a}") from error


@click.command(name="extend")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@click.option(
    "--by", "delta", metavar="DURATION", callback=_read_delta, help="Later by this: 2h; or earlier: -30m."
)
@click.option("--until", metavar="TIME", callback=_read_moment, help="The new end: 2027-01-31T18:00.")
@output_option
@zookeeper_options
def extend(connection: Servers, number: int, delta: float | None, until: float | None, output: str) -> None:
    """Change the end of an active session.

    Operators are not limited by the tenant's longest lifetime of sessions. The exit code is 3 if there is no such
    session, or if it has ended.

    \b
    Example:
      zkdeployment session extend 17 --by 2h
      zkdeployment session extend 17 --until 2027-01-31T18:00
    """
    if (delta is None) == (until is None):
        raise click.UsageError("expected --by DURATION or --until TIME")
    with open_pools(connection) as adapters:
        details = extend_session(number, adapters, acting_operator(), until=until, delta=delta or 0.0)
        users = adapters.users.users()
    print_session(session_view(details, users), output)


@click.command(name="retire")
@click.argument("number", metavar="ID", type=click.IntRange(min=1))
@output_option
@zookeeper_options
def retire(connection: Servers, number: int, output: str) -> None:
    """End a session now: its tenant is logged out of the nodes, which are deprovisioned.

    The exit code is 3 if there is no such session, or if it has ended.

    \b
    Example:
      zkdeployment session retire 17
    """
    with open_pools(connection) as adapters:
        details, users = retire_session(number, adapters, acting_operator()), adapters.users.users()
    print_session(session_view(details, users), output)


@click.command(name="history")
@click.option("--node", metavar="NODE", help="Only this node: its id, its name or its address.")
@click.option("--tenant", metavar="NAME", help="Only nodes that this tenant had.")
@click.option(
    "--since",
    metavar="WHEN",
    default="366d",
    callback=past_time,
    help="Only leases that ended later: since a duration (7d), or a date (2027-01-31). The default is a year.",
)
@output_option
@zookeeper_options
def history(connection: Servers, node: str | None, tenant: str | None, since: float, output: str) -> None:
    """Show who had which node and when, the newest first. Sessions are kept for a year after they ended.

    A lease that has not ended is shown with the time at which it expires. BY is who ended the session; empty, if
    it expired.

    \b
    Example:
      zkdeployment session history
      zkdeployment session history --node 192.0.2.7 --since 30d -o json
    """
    with open_pools(connection) as adapters:
        read, ended, users = adapters.store.read(), adapters.store.history(since), adapters.users.users()
    sessions = {session.id: session for session in (*read.sessions.values(), *ended)}
    wanted = LeaseFilter(node=node, tenant=tenant, since=since)
    leases = lease_history(sessions.values(), tenant_names(users), wanted)
    if output != "table":
        emit({"leases": [lease.to_json() for lease in leases]}, output, schema="session-history")
    elif leases:
        table = ResponsiveTable(
            ("NODE", "HOSTNAME", "ADDRESS", "POOL", "SESSION", "TENANT", "FROM", "UNTIL", "BY"),
            map(_lease_cells, leases),
            whole=("HOSTNAME", "FROM", "UNTIL"),
            numbers=("NODE", "SESSION"),
            dispensable=("BY",),
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("no lease of a node was found", err=True)


def _lease_cells(lease: NodeLease) -> tuple[str, ...]:
    session = lease.session
    return (
        str(lease.node.id),
        lease.node.hostname or "-",
        lease.node.ipaddr or "-",
        lease.node.pool,
        str(session.id),
        lease.tenant,
        moment(lease.begin),
        f"expires {moment(session.expires_at)}" if lease.end is None else moment(lease.end),
        session.retired_by or "",
    )
