"""``zkdeployment user add``, ``reset-key`` and ``retire``: each change is recorded as an act of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.operator_options import new_act, reason_option
from zkdeployment.cli.shared.options import output_option, zookeeper_options
from zkdeployment.cli.shared.ssh_key_files import read_ssh_keys, ssh_key_option
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.cli.user.user_options import expires_option, print_key, read_duration, users_of_service
from zkdeployment.errors import ConfigurationError
from zkdeployment.model.user import NewUser, Role, limit_problem

if TYPE_CHECKING:
    from pathlib import Path

    from zkdeployment.model.servers import Servers


@click.command(name="add")
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="Rights of the user: viewer (read), operator (read and act), monitoring (answer checks), tenant (lease"
    " hosts), admin (everything).",
)
@click.option(
    "--path",
    "paths",
    metavar="PATH",
    multiple=True,
    help="A path of the tree to which the acts of an operator are limited; repeat it for more paths.",
)
@ssh_key_option("A public key with which a tenant reaches leased hosts.")
@click.option(
    "--quota", metavar="N", type=click.IntRange(min=0), help="The hosts that a tenant may lease at once."
)
@click.option(
    "--session-lifetime", metavar="DURATION", callback=read_duration, help="How long a tenant leases hosts."
)
@click.option(
    "--session-lifetime-max",
    metavar="DURATION",
    callback=read_duration,
    help="How long a tenant can extend a lease, from its beginning.",
)
@expires_option
@reason_option(required=False)
@output_option
@zookeeper_options
def add(
    connection: Servers,
    name: str,
    role: str,
    *,
    paths: tuple[str, ...],
    ssh_key_files: tuple[Path, ...],
    quota: int | None,
    session_lifetime: float | None,
    session_lifetime_max: float | None,
    expires: float | None,
    reason: str,
    output: str,
) -> None:
    """Add a user of the service and print its key, which is shown only now: only a hash of it is stored.

    \b
    Example:
      zkdeployment user add alice --role operator
      zkdeployment user add bob --role operator --path /shop --path /web
      zkdeployment user add ci --role tenant --ssh-key ci.pub --quota 5 --expires 90d
      zkdeployment user add team --role tenant --ssh-key ann.pub --ssh-key ben.pub
    """
    problem = limit_problem(Role(role), paths)
    if problem is not None:
        raise ConfigurationError(f"--path: {problem}")
    new = NewUser(
        name=name,
        role=Role(role),
        key_expires_at=expires,
        paths=tuple(dict.fromkeys(paths)),
        ssh_key=read_ssh_keys(ssh_key_files),
        node_quota=quota,
        session_lifetime=session_lifetime,
        session_lifetime_max=session_lifetime_max,
    )
    rights = f"{role}, only {', '.join(new.paths)}" if new.paths else role
    with users_of_service(connection) as users:
        issued = users.add(new, new_act(f"add user {name} ({rights})", reason))
    print_key(issued, output, f"added {name} ({rights})")


@click.command(name="reset-key")
@click.argument("name")
@expires_option
@reason_option(required=False)
@output_option
@zookeeper_options
def reset_key(connection: Servers, name: str, expires: float | None, reason: str, output: str) -> None:
    """Replace a user's key and print the new key. The old key, and all logins with it, end at once.

    \b
    Example:
      zkdeployment user reset-key alice --reason 'the laptop was lost'
    """
    with users_of_service(connection) as users:
        issued = users.reset_key(name, new_act(f"reset the key of user {name}", reason), expires_at=expires)
    print_key(issued, output, f"{name} has a new key")


@click.command(name="retire")
@click.argument("name")
@reason_option(required=True)
@zookeeper_options
def retire(connection: Servers, name: str, reason: str) -> None:
    """Retire a user permanently: its key, and all logins with it, end at once. The name is not used again.

    The sessions of a tenant end, too: its nodes are cleaned. A warning names the check instances of a monitoring
    system, which it cannot remove any more.

    \b
    Example:
      zkdeployment user retire alice --reason 'left the team'
    """
    from zkdeployment.acts.pools.tenants import retire_tenant  # noqa: PLC0415  other commands start faster
    from zkdeployment.wiring.leasing import open_pools  # noqa: PLC0415

    act = new_act(f"retire user {name}", reason)
    with users_of_service(connection) as users:
        user = users.user(name)
        if user is None or not user.is_tenant:
            users.retire(name, act)
            if user is not None and user.role is Role.MONITORING:
                _warn_of_checks(connection, name)
        else:
            with open_pools(connection) as pools:
                retire_tenant(user, users, pools, act)
    echo(f"retired {name}")


def _warn_of_checks(connection: Servers, system: str) -> None:
    """Warn of the check instances that a retired monitoring system cannot remove any more."""
    from zkdeployment.wiring.checks import open_checks  # noqa: PLC0415  other commands start faster

    with open_checks(connection) as checks:
        count = len(checks.held(system))
    if count:
        echo(
            f"warning: the monitoring system {system} still has check instances ({count}), which it cannot remove"
            " any more: let no check name it, and run"
            f" 'zkdeployment checks abandon --system {system} --reason TEXT'",
            err=True,
        )
