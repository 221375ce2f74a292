"""Shared by the verbs about sessions: users as tenants, the acting operator, and how a session is printed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zkdeployment.acts.pools.sessions import SessionActor
from zkdeployment.cli.shared.operator_options import new_act
from zkdeployment.cli.shared.options import emit
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.errors import NotFoundError
from zkdeployment.fleet.ages import age, ago
from zkdeployment.model.user import Right
from zkdeployment.pools.overview import session_overviews, ssh_command
from zkdeployment.pools.overview_json import session_view_to_json
from zkdeployment.pools.snapshot import PoolSnapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zkdeployment.acts.pools.sessions import SessionDetails
    from zkdeployment.adapters.zookeeper.users.reader import ZooKeeperUserReader
    from zkdeployment.model.user import User
    from zkdeployment.pools.overview import SessionOverview


def tenant_names(users: Sequence[User]) -> dict[int, str]:
    """Return the names of users by id."""
    return {user.id: user.name for user in users}


def find_tenant(users: ZooKeeperUserReader, name: str) -> User:
    """Return the tenant of a name; raises ``NotFoundError`` with the tenants that there are."""
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
    """Return the present user on this machine as one who may change the sessions of all tenants."""
    return SessionActor(new_act("", "").by)


def session_view(details: SessionDetails, users: Sequence[User]) -> SessionOverview:
    """Return a session with the name of its tenant."""
    read = PoolSnapshot({node.id: node for node in details.nodes})
    (view,) = session_overviews([details.session], read, tenant_names(users))
    return view


def print_session(view: SessionOverview, output: str) -> None:
    """Print a session with what its tenant needs next: the ssh commands, the end, how to extend and retire it."""
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
    """Return a time in seconds since the epoch as people here read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
