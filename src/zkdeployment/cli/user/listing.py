"""``zkdeployment user list``: shows all users of the service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.console import console_for
from zkdeployment.cli.shared.options import emit, output_option, zookeeper_options
from zkdeployment.cli.shared.responsive_table import ResponsiveTable
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.cli.user.user_options import users_of_service
from zkdeployment.fleet.ages import age, ago
from zkdeployment.fleet.user_views import users_to_json
from zkdeployment.model.user import TenantLimits

if TYPE_CHECKING:
    from zkdeployment.model.servers import Servers
    from zkdeployment.model.user import User


@click.command(name="list")
@output_option
@zookeeper_options
def command(connection: Servers, output: str) -> None:
    """Show all users of the service, retired ones included, in the order in which they were added.

    \b
    Example:
      zkdeployment user list
      zkdeployment user list -o json
    """
    with users_of_service(connection) as store:
        users = store.users()
    if output != "table":
        emit(users_to_json(users, TenantLimits()), output, schema="users")
    elif users:
        now = time.time()
        rows = (_cells(user, now) for user in users)
        table = ResponsiveTable(
            ("ID", "NAME", "ROLE", "PATHS", "ADDED", "KEY"),
            rows,
            whole=("NAME", "ROLE"),
            numbers=("ID",),
            dispensable=("PATHS",),
        )
        console_for(stderr=False).print(table, soft_wrap=True)
    else:
        echo("there is no user; add one with 'zkdeployment user add NAME --role ROLE'", err=True)


def _cells(user: User, now: float) -> tuple[str, ...]:
    paths = ", ".join(user.paths)
    return str(user.id), user.name, user.role.value, paths, ago(user.created_at, now), _key_state(user, now)


def _key_state(user: User, now: float) -> str:
    if user.retired_at is not None:
        return f"retired {ago(user.retired_at, now)}"
    if user.key_expires_at is None:
        return "valid"
    if user.key_has_expired(now):
        return f"expired {ago(user.key_expires_at, now)}"
    return f"expires in {age(user.key_expires_at - now)}"
