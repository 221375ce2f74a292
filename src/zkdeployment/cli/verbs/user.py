"""``zkdeployment user``: lists and changes the users of the service."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from zkdeployment.base.durations import age, ago, duration_seconds
from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.features import installed
from zkdeployment.cli.operator_options import new_act, read_ssh_keys, reason_option, ssh_key_option
from zkdeployment.cli.options import emit, output_option, zookeeper_options
from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.tables import ResponsiveTable, console_for
from zkdeployment.cli.terminal import echo
from zkdeployment.cli.verb_group import LazyVerbGroup
from zkdeployment.config.settings import chosen_settings_if_any
from zkdeployment.fleet.operator import OperatorAdapters, open_operator
from zkdeployment.service.places import ServicePlaces
from zkdeployment.service.settings import ServerSettings
from zkdeployment.service.users.user import (
    IssuedKey,
    NewUser,
    Role,
    TenantLimits,
    User,
    limit_problem,
    user_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from zkdeployment.base.act import Act
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.zookeeper.servers import Servers
    from zkdeployment.zookeeper.session import Session


_VERBS = {
    "add": LazyVerb(".cli.verbs.user", "Add a user and print its key.", "add"),
    "list": LazyVerb(".cli.verbs.user", "Show all users.", "list_users"),
    "reset-key": LazyVerb(".cli.verbs.user", "Give a user a new key and print it.", "reset_key"),
    "retire": LazyVerb(".cli.verbs.user", "Retire a user permanently.", "retire"),
}


@click.group(name="user", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Add, list and retire users of the service: people and programs that log in with a name and a key.

    Use the configuration of the service: only its credentials may read the users.

    \b
    Example:
      zkdeployment user add alice --role operator
      zkdeployment user list
      zkdeployment user retire alice --reason 'left the team'
    """


def read_duration(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the seconds of a duration such as ``90d``, ``12h`` or ``1h30m``."""
    seconds = None if given is None else duration_seconds(given)
    if given is not None and seconds is None:
        raise click.BadParameter(f"expected a duration such as 90d or 1h30m, at most 100 years, found {given!a}")
    return seconds


def _read_expiry(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Parse a date, or a duration from now, to seconds since the epoch."""
    if given is None:
        return None
    seconds, now = duration_seconds(given), time.time()
    if seconds is not None:
        return now + seconds
    try:
        expiry = datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError) as error:
        expected = "a duration such as 90d, or a date such as 2027-01-31"
        raise click.BadParameter(f"expected {expected}, found {given!a}") from error
    if expiry <= now:
        raise click.BadParameter(f"expected a time in the future, found {given!a}")
    return expiry


def expires_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--expires``; the verb receives ``expires``, a time in seconds since the epoch, or ``None``."""
    return click.option(
        "--expires",
        metavar="WHEN",
        callback=_read_expiry,
        help="When the key expires: after a duration (90d), or on a date (2027-01-31). The default is never.",
    )(function)


@contextlib.contextmanager
def users_of_service(connection: Servers, *, changes: bool = True) -> Iterator[ZooKeeperUsers]:
    """Connect to ZooKeeper and return the users; new nodes have the access list of the service.

    Before ``changes``, nodes that others can write are refused, if the configuration is that of a service.
    """
    from zkdeployment.service.users.user_store import open_users  # noqa: PLC0415  other verbs start without it

    settings = chosen_settings_if_any(click.get_current_context().params.get("config"))
    acl = () if settings is None else settings.require(ServerSettings).users_acl
    is_of_service = settings is not None and settings.of(ServerSettings) is not None
    with open_users(connection, acl, guards=changes and is_of_service) as users:
        yield users


def _print_key(issued: IssuedKey, limits: TenantLimits, output: str, message: str) -> None:
    """Print a new key on standard output, and ``message`` for people on standard error."""
    if output != "table":
        emit({"user": user_to_json(issued.user, limits), "key": issued.key}, output, schema="user-key")
        return
    echo(issued.key)
    echo(f"{message}; the key above is shown only now: keep it safe", err=True)


def _published_limits(session: Session) -> TenantLimits:
    """Return the limits of tenants without limits of their own."""
    readers = (places.tenant_limits for places in installed(ServicePlaces))
    return next((read(session) for read in readers if read is not None), TenantLimits())


@click.command(name="list")
@output_option
@zookeeper_options
def list_users(connection: Servers, output: str) -> None:
    """Show all users of the service, retired ones included, in the order in which they were added.

    \b
    Example:
      zkdeployment user list
      zkdeployment user list -o json
    """
    with users_of_service(connection, changes=False) as store:
        users, limits = store.users(), _published_limits(store.session)
    if output != "table":
        emit({"users": [user_to_json(user, limits) for user in users]}, output, schema="users")
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
        limits = _published_limits(users.session)
    _print_key(issued, limits, output, f"added {name} ({rights})")


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
        issued = users.reset_key(name, new_act(f"reset the key of user {name}", reason), key_expires_at=expires)
        limits = _published_limits(users.session)
    _print_key(issued, limits, output, f"{name} has a new key")


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
    act = new_act(f"retire user {name}", reason)
    with users_of_service(connection) as users, open_operator(connection) as operator:
        user = users.user(name)
        warnings = None if user is None else _retire_with_features(operator, user, users, act)
        if warnings is None:
            users.retire(name, act)
    for warning in warnings or ():
        echo(f"warning: {warning}", err=True)
    echo(f"retired {name}")


def _retire_with_features(
    operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act
) -> Sequence[str] | None:
    """Let a feature retire its own user, and return the warnings; return ``None`` for other users."""
    retirements = (places.retire_user(operator, user, users, act) for places in installed(ServicePlaces))
    return next((warnings for warnings in retirements if warnings is not None), None)
