"""Shared by the verbs about users: access to the users with the service's credentials, and options."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from zkdeployment.cli.shared.optional_libraries import service_libraries
from zkdeployment.cli.shared.options import emit
from zkdeployment.cli.shared.terminal import echo
from zkdeployment.config.find_servers import SYSTEM_CONFIGURATION
from zkdeployment.config.load import load
from zkdeployment.documents.durations import duration_seconds
from zkdeployment.fleet.user_views import issued_key_to_json
from zkdeployment.model.user import TenantLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zkdeployment.adapters.zookeeper.users.store import ZooKeeperUsers
    from zkdeployment.model.servers import AclEntry, Servers
    from zkdeployment.model.user import IssuedKey


def read_duration(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the seconds of a duration such as ``90d``, ``12h`` or ``1h30m``."""
    seconds = None if given is None else duration_seconds(given)
    if given is not None and seconds is None:
        raise click.BadParameter(f"expected a duration such as 90d or 1h30m, at most 100 years, found {given!a}")
    return seconds


def _read_expiry(_context: click.Context, _option: click.Parameter, given: str | None) -> float | None:
    """Return the time in seconds since the epoch that a date or a duration from now means."""
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
def users_of_service(connection: Servers) -> Iterator[ZooKeeperUsers]:
    """Connect to ZooKeeper and return the users; new nodes have the access list of the service."""
    with service_libraries():
        from zkdeployment.wiring.users import open_users  # noqa: PLC0415  hosts have no libraries of the service
    with open_users(connection, _users_acl()) as users:
        yield users


def print_key(issued: IssuedKey, output: str, message: str) -> None:
    """Print a new key on standard output, and ``message`` for people on standard error."""
    if output != "table":
        emit(issued_key_to_json(issued, TenantLimits()), output, schema="user-key")
        return
    echo(issued.key)
    echo(f"{message}; the key above is shown only now: keep it safe", err=True)


def _users_acl() -> tuple[AclEntry, ...]:
    """Return the access list of users in the configuration that the verb uses, ``--config`` or the system's."""
    config: Path | None = click.get_current_context().params.get("config")
    place = config or SYSTEM_CONFIGURATION
    return load(place, host=False).require_server().users_acl if config or os.access(place, os.R_OK) else ()
